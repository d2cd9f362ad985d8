'use strict';

/**
 * Storage buckets (2.2, 6.1): each has a lock manager of its own, shared by all threads of the
 * process.
 *
 * The default bucket is '' in the core; opened ones have a prefix, so that no name opens the
 * default bucket.
 */

const { createLockManager } = require('./lock-manager.js');
const { NativeBackend } = require('../backend/native.js');
const { typeError } = require('../platform/errors.js');
const { backendOf } = require('../standard/lock-manager.js');
const { needArguments, toDOMString } = require('../standard/webidl.js');
const { Bucket } = require('./bucket.js');

const OPEN_BUCKET = "'openBucket'";

/** @typedef {ReturnType<typeof createLockManager>} LockManager */

/** The lock manager of the default bucket. */
const locks = createLockManager(new NativeBackend(''));

/**
 * Opens a storage bucket. Locks of one bucket neither block those of another nor show in its
 * `query()`.
 * @param {string} name any string; threads that open the same name share the bucket
 * @returns {InstanceType<typeof Bucket>}
 */
function openBucket(name) {
  needArguments(arguments.length, 1, OPEN_BUCKET);
  const bucketName = toDOMString(name, OPEN_BUCKET, 'The name');
  refuseOptions(arguments[1]);
  return new Bucket(bucketName, openBackend(bucketName));
}

/**
 * Options are of the wider scopes: a caller that gives some has imported the wrong entry, and would
 * have locks of the process only.
 * @param {unknown} options
 */
function refuseOptions(options) {
  if (typeof options !== 'object' || options === null) return;
  throw typeError(
    OPEN_BUCKET,
    "It takes only a name. The options 'directory', 'pool', 'client' and 'endpoints' are for " +
      'openBucket of web-locks/host, /postgres, /redis and /etcd.',
  );
}

/** @param {string} name */
const openBackend = (name) => new NativeBackend(`bucket:${name}`);

/**
 * @param {any} bucket a bucket's name, or what `openBucket` returned; undefined for the default one
 * @param {string} operation for the message
 * @returns {import('../backend/contract.js').Backend}
 */
function bucketBackend(bucket, operation) {
  if (bucket === undefined) return new NativeBackend('');
  // Not by its name: it may be one of another scope, and it can be closed.
  if (typeof bucket === 'object' && bucket !== null) return backendOf(bucket.locks, operation);
  return openBackend(toDOMString(bucket, operation, 'The bucket'));
}

module.exports = { bucketBackend, locks, openBucket };
