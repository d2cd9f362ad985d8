'use strict';

/**
 * The scope `postgres`: `web-locks/postgres`, with the server at the URL of
 * WEB_LOCKS_TEST_POSTGRES; run.js can start one. WEB_LOCKS_TEST_CLIENT is `pg` or `postgres.js`.
 * All buckets of a process share a pool or a `sql`.
 */

const { Pool } = require('pg');
const postgres = require('postgres');
const { openBucket: open } = require('../../lib/postgres.js');

const { WEB_LOCKS_TEST_POSTGRES: connectionString, WEB_LOCKS_TEST_CLIENT: kind = 'pg' } =
  process.env;
if (!connectionString) throw new Error('WEB_LOCKS_TEST_POSTGRES is not set');

const clients = {
  /** Each open bucket keeps a client, so the pool is larger than the number of buckets. */
  pg: () => ({ pool: new Pool({ connectionString, max: 60, allowExitOnIdle: true }) }),
  'postgres.js': () => ({ sql: postgres(connectionString) }),
};
const options = clients[kind]();

/** No test takes so long, so no query overtakes requests, and no lease ends. */
const TTL = 600_000;

const openBucket = (name) => open(name, { ...options, ttl: TTL });

module.exports = { openBucket };
