'use strict';

/**
 * The scope `etcd`: `web-locks/etcd`, with the server at the URL of WEB_LOCKS_TEST_ETCD; run.js can
 * start one.
 */

const { openBucket: open } = require('../../lib/etcd.js');

const { WEB_LOCKS_TEST_ETCD: endpoints } = process.env;
if (!endpoints) throw new Error('WEB_LOCKS_TEST_ETCD is not set');

/** No test takes so long, so no query overtakes requests, and no lease ends. */
const TTL = 600_000;

const openBucket = (name) => open(name, { endpoints, ttl: TTL });

module.exports = { openBucket };
