'use strict';

/**
 * `web-locks/etcd`: what every entry has, with an `openBucket` whose locks are shared by all who
 * reach an etcd (docs/CLUSTER.md). It has no `locks`: those would be of some other scope.
 */

const { EtcdAdapter } = require('./cluster/engines/etcd/adapter.js');
const { OPEN_BUCKET, openClusterBucket } = require('./extensions/cluster-bucket.js');
const { scopedLocks } = require('./extensions/scoped.js');
const { describe, typeError } = require('./platform/errors.js');
const shared = require('./common.js');

/** @typedef {import('./extensions/cluster-bucket.js').ClusterBucketType} ClusterBucket */

const OPTIONS = ['endpoints', 'auth', 'fetch'];

/**
 * Opens a storage bucket in etcd. Returns at once; a failure to open shows in `ready`, and in
 * the requests.
 * @param {string} name any string; all who open the same name in the same etcd share the bucket
 * @param {object} options
 * @param {string | string[]} options.endpoints URLs for clients, such as 'http://host:2379', of
 *   members of one etcd; tried in turn
 * @param {number} [options.ttl] milliseconds after which a process that is gone has lost its locks,
 *   2,000 to 3,600,000, in whole seconds (more is taken as the next); by default 10,000
 * @param {import('./cluster/engines/etcd/gateway.js').Auth} [options.auth]
 * @param {import('./cluster/engines/etcd/gateway.js').Fetch} [options.fetch] instead of Node's
 *   client for HTTP
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
    (bucket, { endpoints, auth, fetch }) => {
      if (fetch !== undefined && typeof fetch !== 'function') {
        throw typeError(OPEN_BUCKET, `'fetch' is ${describe(fetch)}; expected a function.`);
      }
      return new EtcdAdapter(bucket, { endpoints: urlsOf(endpoints), auth: authOf(auth), fetch });
    },
  );
}

/**
 * @param {unknown} endpoints
 * @returns {string[]} without a slash at the end
 */
function urlsOf(endpoints) {
  const list = typeof endpoints === 'string' ? [endpoints] : endpoints;
  const isList = Array.isArray(list) && list.length > 0;
  if (!isList || !list.every((url) => /^https?:\/\/[^/]/.test(url))) {
    const wanted = "one URL or more, such as 'http://host:2379'";
    throw typeError(OPEN_BUCKET, `'endpoints' is ${describe(endpoints)}; expected ${wanted}.`);
  }
  return list.map((url) => String(url).replace(/\/+$/, ''));
}

/** @param {any} auth */
function authOf(auth) {
  if (auth === undefined) return undefined;
  const { user, password } = Object(auth);
  if (typeof user !== 'string' || typeof password !== 'string') {
    throw typeError(OPEN_BUCKET, "'auth' lacks a string 'user' or a string 'password'.");
  }
  return { user, password };
}

module.exports = { ...shared, ...scopedLocks({}), openBucket };
