'use strict';

/**
 * The scope `postgres`: `web-locks/postgres`, on the server of WEB_LOCKS_TEST_POSTGRES, a URL.
 * run.js starts one where there is none. WEB_LOCKS_TEST_CLIENT is `pg` or `postgres.js`. All buckets
 * of a process have one pool, or one `sql`.
 */

const { Pool } = require('pg');
const postgres = require('postgres');
const { openBucket: open } = require('../../lib/postgres.js');

const { WEB_LOCKS_TEST_POSTGRES: connectionString, WEB_LOCKS_TEST_CLIENT: kind = 'pg' } =
  process.env;
if (!connectionString) throw new Error('WEB_LOCKS_TEST_POSTGRES is not set');

const clients = {
  /** More than buckets are open at a time: each keeps a client. */
  pg: () => ({ pool: new Pool({ connectionString, max: 60, allowExitOnIdle: true }) }),
  'postgres.js': () => ({ sql: postgres(connectionString) }),
};
const options = clients[kind]();

/** No test lasts so long, so no query overtakes requests, and no lease ends. */
const TTL = 600_000;

const openBucket = (name) => open(name, { ...options, ttl: TTL });

module.exports = { openBucket };
