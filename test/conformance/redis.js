'use strict';

/**
 * The scope `redis`: `web-locks/redis`, at the server at port WEB_LOCKS_TEST_REDIS of this machine.
 * run.js starts one where there is none. WEB_LOCKS_TEST_CLIENT is a kind of client of
 * test/cluster/redis-clients.js.
 */

const { clients } = require('../cluster/redis-clients.js');
const { openBucket: open } = require('../../lib/redis.js');

const { WEB_LOCKS_TEST_REDIS: port, WEB_LOCKS_TEST_CLIENT: kind = 'ioredis' } = process.env;
if (!port) throw new Error('WEB_LOCKS_TEST_REDIS is not set');

const client = clients[kind](Number(port));

/** A new bucket grants at once on a server that is older than this; see run.js. */
const TTL = 30_000;

const openBucket = (name) => open(name, { client, ttl: TTL });

module.exports = { openBucket };
