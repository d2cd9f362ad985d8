'use strict';

/**
 * `web-locks/postgres`: what every entry has, with an `openBucket` whose locks are shared by all
 * who reach a PostgreSQL database (docs/CLUSTER.md). It has no `locks`: those would be of some
 * other scope.
 */

const { PostgresAdapter } = require('./cluster/engines/postgres/adapter.js');
const { openClusterBucket } = require('./extensions/cluster-bucket.js');
const { scopedLocks } = require('./extensions/scoped.js');
const shared = require('./common.js');

/** @typedef {import('./extensions/cluster-bucket.js').ClusterBucketType} ClusterBucket */

/** @typedef {import('./cluster/engines/postgres/link.js').Pool} Pool */

const OPTIONS = ['pool', 'listen', 'schema', 'durability'];

/**
 * Opens a storage bucket in a database. Returns at once; a failure to open shows in `ready`,
 * and in the requests.
 * @param {string} name any string; all who open the same name of the same database share the bucket
 * @param {object} options
 * @param {Pool} options.pool a Pool of pg, of at least two
 *   clients; one of them is kept until the bucket is closed
 * @param {Pool} [options.listen] where `pool` leads through a
 *   pooler in transaction mode: one that does not, whose client is kept instead
 * @param {number} [options.ttl] milliseconds after which a process that is gone has lost its locks,
 *   2,000 to 3,600,000; by default 10,000
 * @param {string} [options.schema] where the tables are
 * @param {string} [options.label] for `details`, of requests that have none
 * @param {'logged' | 'unlogged'} [options.durability] of a schema that is made
 * @returns {ClusterBucket}
 * @throws {TypeError} options that cannot be right
 */
function openBucket(name, options) {
  return openClusterBucket(
    arguments.length,
    name,
    options,
    OPTIONS,
    (bucket, { pool, listen, schema, durability }) => {
      return new PostgresAdapter(bucket, { pool, listen, schema, durability });
    },
  );
}

module.exports = { ...shared, ...scopedLocks({}), openBucket };
