'use strict';

/**
 * `web-locks/redis`: what every entry has, with an `openBucket` whose locks are shared by all who
 * reach a Redis or a Valkey (docs/CLUSTER.md). It has no `locks`: those would be of some other
 * scope.
 */

const { RedisAdapter } = require('./cluster/engines/redis/adapter.js');
const { openClusterBucket } = require('./extensions/cluster-bucket.js');
const { scopedLocks } = require('./extensions/scoped.js');
const shared = require('./common.js');

/** @typedef {import('./extensions/cluster-bucket.js').ClusterBucketType} ClusterBucket */

/** @typedef {import('./cluster/engines/redis/link.js').Client} Client */

const OPTIONS = ['client', 'shards', 'strict', 'failover', 'prefix'];

/**
 * Opens a storage bucket in a Redis. Returns at once; a failure to open shows in `ready`, and
 * by the requests.
 * @param {string} name any string; all who open the same name at the same server share the bucket
 * @param {object} options
 * @param {Client} options.client of node-redis or ioredis, also
 *   to a cluster; it is only duplicated
 * @param {number} [options.ttl] milliseconds after which a process that is gone has lost its locks,
 *   2,000 to 3,600,000; by default 10,000. The same for all who open the bucket
 * @param {number} [options.shards] in how many slots of a cluster the names are, 1 to 64; by
 *   default 1. The same for all who open the bucket
 * @param {boolean} [options.strict] refuses a server that would go on when it is split off
 * @param {'ignore'} [options.failover] takes a server that does not tell its run_id
 * @param {string} [options.prefix] before all keys and channels; by default the `keyPrefix` of the
 *   client. The same for all who open the bucket
 * @param {string} [options.label] for `details`, of requests that have none
 * @returns {ClusterBucket}
 * @throws {TypeError} options that cannot be right
 */
function openBucket(name, options) {
  return openClusterBucket(
    arguments.length,
    name,
    options,
    OPTIONS,
    (bucket, { client, shards, strict, failover, prefix }) => {
      return new RedisAdapter(bucket, { client, shards, strict, failover, prefix });
    },
  );
}

module.exports = { ...shared, ...scopedLocks({}), openBucket };
