'use strict';

/** The scope `etcd`: `web-locks/etcd`. run.js sets the server's URL, WEB_LOCKS_TEST_ETCD. */

const { openBucket: open } = require('../../lib/etcd.js');

const { WEB_LOCKS_TEST_ETCD: endpoints } = process.env;
if (!endpoints) throw new Error('WEB_LOCKS_TEST_ETCD is not set');

/** No test takes so long, so no query overtakes requests, and no lease ends. */
const TTL = 600_000;

const openBucket = (name) => open(name, { endpoints, ttl: TTL });

module.exports = { openBucket };
