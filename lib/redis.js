'use strict';

/**
 * `web-locks/redis`: what every entry has, with an `openBucket` for buckets in Redis or Valkey
 * (docs/CLUSTER.md). All processes that use the same server share them. A server has no default
 * bucket, so the entry exports no `locks`.
 */

const { RedisAdapter } = require('./cluster/engines/redis/adapter.js');
const { openClusterBucket } = require('./extensions/cluster-bucket.js');
const { scopedLocks } = require('./extensions/scoped.js');
const shared = require('./common.js');

/** @typedef {import('./extensions/cluster-bucket.js').ClusterBucketType} ClusterBucket */

/** @import { Client } from './cluster/engines/redis/link.js' */

const OPTIONS = ['client', 'shards', 'strict', 'failover', 'prefix'];

/**
 * Opens a storage bucket in Redis and returns at once. If it cannot be opened, `ready` and the
 * requests reject. All who open a bucket give the same `ttl`, `shards` and `prefix`.
 * @param {string} name any string; the same name on the same server is the same bucket
 * @param {object} options
 * @param {Client} options.client of node-redis or ioredis, also for a cluster; it is only
 *   duplicated
 * @param {number} [options.ttl] milliseconds after which a process that is gone has lost its
 *   locks, 2,000 to 3,600,000; by default 10,000
 * @param {number} [options.shards] spreads the names over so many slots of a cluster, 1 to 64; by
 *   default 1
 * @param {boolean} [options.strict] refuses a server that would go on when it is split off
 * @param {'ignore'} [options.failover] accepts a server that does not tell its run_id
 * @param {string} [options.prefix] precedes all keys and channels; by default the client's
 *   `keyPrefix`
 * @param {string} [options.label] shown in `details` for requests without one
 * @returns {ClusterBucket}
 * @throws {TypeError} an option cannot be right
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
