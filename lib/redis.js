'use strict';

/**
 * `web-locks/redis` (docs/CLUSTER.md): buckets for all processes that use the same Redis or Valkey.
 * A server has no default bucket, so the entry exports no `locks`.
 */

const { RedisAdapter } = require('./cluster/engines/redis/adapter.js');
const keeper = require('./cluster/engines/redis/keeper-adapter.js');
const { openClusterBucket } = require('./extensions/buckets/cluster-bucket.js');
const { scopedLocks } = require('./extensions/objects/scoped.js');
const shared = require('./common.js');

/** @typedef {import('./extensions/buckets/cluster-bucket.js').ClusterBucketType} ClusterBucket */

/** @import { Client } from './cluster/engines/redis/link.js' */

const OPTIONS = ['client', 'shards', 'strict', 'failover', 'prefix'];

/** @type {import('./extensions/buckets/cluster-bucket.js').EngineForKeeper} */
const KEEPER = { name: 'redis', ...keeper };

/**
 * Returns at once. If the bucket cannot be opened, `ready` and all requests reject. Every process
 * that opens the bucket must pass the same `ttl`, `shards` and `prefix`.
 * @param {string} name any string
 * @param {object} options
 * @param {Client} options.client a client of node-redis or ioredis, for a single server or a
 *   cluster; only `duplicate()` is called on it
 * @param {number} [options.ttl] milliseconds after which a process that has stopped responding
 *   loses its locks, 2,000 to 3,600,000; by default 10,000
 * @param {number} [options.shards] the number of cluster slots to spread names over, 1 to 64; by
 *   default 1
 * @param {boolean} [options.strict] whether to refuse a server that would continue to grant locks
 *   after a network partition has separated it from its replicas
 * @param {'ignore'} [options.failover] accepts a server that does not report its run_id
 * @param {string} [options.prefix] the prefix of all keys and channels; by default the client's
 *   `keyPrefix`
 * @param {string} [options.label] the label of requests that have none
 * @param {boolean | readonly NodeJS.Signals[]} [options.releaseOnSignal] see types/redis.d.ts
 * @param {boolean | { maxBlocked?: number, module?: string | URL }} [options.keeper] extends the
 *   lease from another thread while the event loop is blocked, for at most `maxBlocked`
 *   milliseconds, 1,000 to 3,600,000, by default 60,000; `module` is a file whose default export
 *   makes the client in that thread
 * @returns {ClusterBucket}
 * @throws {TypeError} if an option is invalid
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
    KEEPER,
  );
}

module.exports = { ...shared, ...scopedLocks({}), openBucket };
