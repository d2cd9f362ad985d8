'use strict';

/**
 * `web-locks/etcd` (docs/CLUSTER.md): buckets for all processes that use the same etcd. A server
 * has no default bucket, so the entry exports no `locks`.
 */

const { EtcdAdapter } = require('./cluster/engines/etcd/adapter.js');
const keeper = require('./cluster/engines/etcd/keeper-adapter.js');
const { OPEN_BUCKET } = require('./extensions/buckets/bucket.js');
const { openClusterBucket } = require('./extensions/buckets/cluster-bucket.js');
const { scopedLocks } = require('./extensions/objects/scoped.js');
const { describe, typeError } = require('./platform/errors.js');
const shared = require('./common.js');

/** @typedef {import('./extensions/buckets/cluster-bucket.js').ClusterBucketType} ClusterBucket */

const OPTIONS = ['endpoints', 'auth', 'fetch'];

/** @param {any} options of `openBucket` */
const adapterOptionsOf = ({ endpoints, auth }) => ({
  endpoints: toUrls(endpoints),
  auth: toAuth(auth),
});

/** @type {import('./extensions/buckets/cluster-bucket.js').EngineForKeeper} */
const KEEPER = { name: 'etcd', ...keeper, adapterOptionsOf };

/**
 * Returns at once. If the bucket cannot be opened, `ready` and all requests reject.
 * @param {string} name any string
 * @param {object} options
 * @param {string | string[]} options.endpoints client URLs of the members of one etcd, tried in
 *   turn, such as 'http://host:2379'
 * @param {number} [options.ttl] milliseconds after which a process that has stopped responding
 *   loses its locks, 2,000 to 3,600,000, rounded up to whole seconds; by default 10,000
 * @param {import('./cluster/engines/etcd/gateway.js').Auth} [options.auth]
 * @param {import('./cluster/engines/etcd/gateway.js').Fetch} [options.fetch]
 * @param {string} [options.label] the label of requests that have none
 * @param {boolean | readonly NodeJS.Signals[]} [options.releaseOnSignal] see types/etcd.d.ts
 * @param {boolean | { maxBlocked?: number, module?: string | URL }} [options.keeper] see
 *   types/postgres.d.ts
 * @returns {ClusterBucket}
 * @throws {TypeError} if an option is invalid
 */
function openBucket(name, options) {
  return openClusterBucket(
    arguments.length,
    name,
    options,
    OPTIONS,
    (bucket, its) => {
      const { fetch } = its;
      if (fetch !== undefined && typeof fetch !== 'function') {
        throw typeError(OPEN_BUCKET, `'fetch' is ${describe(fetch)}; expected a function.`);
      }
      return new EtcdAdapter(bucket, { ...adapterOptionsOf(its), fetch });
    },
    KEEPER,
  );
}

/**
 * Throws a TypeError unless all endpoints are HTTP URLs.
 * @param {unknown} endpoints @returns {string[]} without slashes at the end
 */
function toUrls(endpoints) {
  const list = typeof endpoints === 'string' ? [endpoints] : endpoints;
  const isList = Array.isArray(list) && list.length > 0;
  if (!isList || !list.every((url) => /^https?:\/\/[^/]/.test(url))) {
    const wanted = "one URL or more, such as 'http://host:2379'";
    throw typeError(OPEN_BUCKET, `'endpoints' is ${describe(endpoints)}; expected ${wanted}.`);
  }
  return list.map((url) => String(url).replace(/\/+$/, ''));
}

/** Throws a TypeError unless `auth` is undefined or has two strings. @param {any} auth */
function toAuth(auth) {
  if (auth === undefined) return undefined;
  const { user, password } = Object(auth);
  if (typeof user !== 'string' || typeof password !== 'string') {
    throw typeError(OPEN_BUCKET, "'auth' needs 'user' and 'password', both strings.");
  }
  return { user, password };
}

module.exports = { ...shared, ...scopedLocks({}), openBucket };
