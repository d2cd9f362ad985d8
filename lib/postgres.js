'use strict';

/**
 * `web-locks/postgres` (docs/CLUSTER.md): buckets for all processes that use the same database. A
 * server has no default bucket, so the entry exports no `locks`.
 */

const { PostgresAdapter } = require('./cluster/engines/postgres/adapter.js');
const keeper = require('./cluster/engines/postgres/keeper-adapter.js');
const { openClusterBucket } = require('./extensions/buckets/cluster-bucket.js');
const { scopedLocks } = require('./extensions/objects/scoped.js');
const shared = require('./common.js');

/** @typedef {import('./extensions/buckets/cluster-bucket.js').ClusterBucketType} ClusterBucket */

/** @import { Pool } from './cluster/engines/postgres/pg.js' */
/** @import { Sql } from './cluster/engines/postgres/postgres-js.js' */

const OPTIONS = ['pool', 'sql', 'listen', 'schema', 'durability'];

/** @type {import('./extensions/buckets/cluster-bucket.js').EngineForKeeper} */
const KEEPER = { name: 'postgres', ...keeper };

/**
 * Returns at once. If the bucket cannot be opened, `ready` and all requests reject.
 * @param {string} name any string
 * @param {object} options
 * @param {Pool} [options.pool] a pg Pool for at least two clients; the bucket keeps one client
 *   until the bucket is closed
 * @param {Sql} [options.sql] the result of `postgres()` of postgres.js, instead of `pool`; the
 *   bucket makes a connection of its own with the same options
 * @param {Pool | Sql} [options.listen] a Pool or `sql` with direct connections, which is required
 *   if `pool` or `sql` uses a pooler in transaction mode; the bucket then uses only `listen`
 * @param {number} [options.ttl] milliseconds after which a process that has stopped responding
 *   loses its locks, 2,000 to 3,600,000; by default 10,000
 * @param {string} [options.schema]
 * @param {string} [options.label] the label of requests that have none
 * @param {boolean | readonly NodeJS.Signals[]} [options.releaseOnSignal] see types/postgres.d.ts
 * @param {boolean | { maxBlocked?: number, module?: string | URL }} [options.keeper] see
 *   types/postgres.d.ts
 * @param {'logged' | 'unlogged'} [options.durability] whether the tables are logged; applies only
 *   if this call creates the schema
 * @returns {ClusterBucket}
 * @throws {TypeError} if an option is invalid
 */
function openBucket(name, options) {
  return openClusterBucket(
    arguments.length,
    name,
    options,
    OPTIONS,
    (bucket, { pool, sql, listen, schema, durability }) => {
      return new PostgresAdapter(bucket, { pool, sql, listen, schema, durability });
    },
    KEEPER,
  );
}

module.exports = { ...shared, ...scopedLocks({}), openBucket };
