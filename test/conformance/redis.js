'use strict';

/**
 * The scope `redis`: `web-locks/redis`, with the server at the port WEB_LOCKS_TEST_REDIS of this
 * machine; run.js can start one. WEB_LOCKS_TEST_CLIENT is a kind of client of
 * test/cluster/redis-clients.js.
 */

const { clients } = require('../cluster/redis-clients.js');
const { openBucket: open } = require('../../lib/redis.js');

const { WEB_LOCKS_TEST_REDIS: port, WEB_LOCKS_TEST_CLIENT: kind = 'ioredis' } = process.env;
if (!port) throw new Error('WEB_LOCKS_TEST_REDIS is not set');

const client = clients[kind](Number(port));

/** New buckets grant at once on a server that has run longer than this; see run.js. */
const TTL = 30_000;

const openBucket = (name) => open(name, { client, ttl: TTL });

module.exports = { openBucket };
