'use strict';

/**
 * The scope `etcd`: `web-locks/etcd`, at the server of WEB_LOCKS_TEST_ETCD, a URL. run.js starts one
 * where there is none.
 */

const { openBucket: open } = require('../../lib/etcd.js');

const { WEB_LOCKS_TEST_ETCD: endpoints } = process.env;
if (!endpoints) throw new Error('WEB_LOCKS_TEST_ETCD is not set');

const openBucket = (name) => open(name, { endpoints });

module.exports = { openBucket };
