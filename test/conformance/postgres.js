'use strict';

/**
 * The scope `postgres`: `web-locks/postgres`, on the server of WEB_LOCKS_TEST_POSTGRES, a URL.
 * run.js starts one where there is none. All buckets of a process have one pool.
 */

const { Pool } = require('pg');
const { openBucket: open } = require('../../lib/postgres.js');

const { WEB_LOCKS_TEST_POSTGRES: connectionString } = process.env;
if (!connectionString) throw new Error('WEB_LOCKS_TEST_POSTGRES is not set');

/** More than buckets are open at a time: each keeps a client. */
const pool = new Pool({ connectionString, max: 60, allowExitOnIdle: true });

/** No test lasts so long, so no query overtakes requests, and no lease ends. */
const TTL = 600_000;

const openBucket = (name) => open(name, { pool, ttl: TTL });

module.exports = { openBucket };
