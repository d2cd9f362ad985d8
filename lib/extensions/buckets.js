'use strict';

/**
 * Storage buckets (2.2, 6.1) of the process: all threads share the lock manager of a bucket. The
 * default bucket is '' in the core; the others have a prefix, so that no name opens the default
 * bucket.
 */

const { createLockManager } = require('./lock-manager.js');
const { NativeBackend } = require('../backend/native.js');
const { typeError } = require('../platform/errors.js');
const { backendOf } = require('../standard/lock-manager.js');
const { requireArguments, toDOMString } = require('../standard/webidl.js');
const { Bucket } = require('./bucket.js');

const OPEN_BUCKET = "'openBucket'";

/** @typedef {ReturnType<typeof createLockManager>} LockManager */

const locks = createLockManager(new NativeBackend(''));

/**
 * Opens a storage bucket. Its locks neither block those of other buckets nor show in their
 * `query()`.
 * @param {string} name any string; all threads that open the same name share the bucket
 * @returns {InstanceType<typeof Bucket>}
 */
function openBucket(name) {
  requireArguments(arguments.length, 1, OPEN_BUCKET);
  const bucketName = toDOMString(name, OPEN_BUCKET, 'The name');
  refuseOptions(arguments[1]);
  return new Bucket(bucketName, openBackend(bucketName));
}

/**
 * Only wider scopes have options: a caller that gives some has imported the wrong entry, and would
 * get locks of the process only.
 * @param {unknown} options
 */
function refuseOptions(options) {
  if (typeof options !== 'object' || options === null) return;
  throw typeError(
    OPEN_BUCKET,
    "This function takes only a name. The options 'directory', 'pool', 'client' and 'endpoints' " +
      'are for openBucket of web-locks/host, /postgres, /redis and /etcd.',
  );
}

/** @param {string} name */
const openBackend = (name) => new NativeBackend(`bucket:${name}`);

/**
 * @param {any} bucket a name, or the result of `openBucket`; undefined for the default bucket
 * @param {string} operation
 * @returns {import('../backend/contract.js').Backend}
 */
function bucketBackend(bucket, operation) {
  if (bucket === undefined) return new NativeBackend('');
  // Its name does not suffice: it may be of another scope, and it can be closed.
  if (typeof bucket === 'object' && bucket !== null) return backendOf(bucket.locks, operation);
  return openBackend(toDOMString(bucket, operation, 'The bucket'));
}

module.exports = { bucketBackend, locks, openBucket };
