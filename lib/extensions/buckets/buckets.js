'use strict';

/**
 * Storage buckets (sections 2.2 and 6.1 of the specification) of the process: all threads share the
 * lock manager of a bucket. In the core, the name of the default bucket is ''; all other names have
 * a prefix, so that no name opens the default bucket.
 */

const { createLockManager } = require('../manager/lock-manager.js');
const { NativeBackend } = require('../../backend/native.js');
const { typeError } = require('../../platform/errors.js');
const { backendOf } = require('../../standard/lock-manager.js');
const { requireArguments, toDOMString } = require('../../standard/webidl.js');
const { Bucket } = require('./bucket.js');

const OPEN_BUCKET = "'openBucket'";

/** @typedef {ReturnType<typeof createLockManager>} LockManager */

const locks = createLockManager(new NativeBackend(''));

/**
 * Opens a storage bucket. Its locks are independent of the locks of other buckets, and other
 * buckets' `query()` does not list them.
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
 * Rejects options. Only wider scopes have options, so a caller that passes some has imported the
 * wrong entry, and would get locks of this process only.
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
 * @returns {import('../../backend/contract.js').Backend}
 */
function bucketBackend(bucket, operation) {
  if (bucket === undefined) return new NativeBackend('');
  // The name of the given bucket is not enough: the bucket may belong to another scope, and it may
  // be closed.
  if (typeof bucket === 'object' && bucket !== null) return backendOf(bucket.locks, operation);
  return openBackend(toDOMString(bucket, operation, 'The bucket'));
}

module.exports = { bucketBackend, locks, openBucket };
