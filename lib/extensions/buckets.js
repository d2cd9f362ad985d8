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
const { toDOMString } = require('../standard/webidl.js');

const OPEN_BUCKET = "'openBucket'";

/** @typedef {ReturnType<typeof createLockManager>} LockManager */

/** The lock manager of the default bucket. */
const locks = createLockManager(new NativeBackend(''));

/**
 * Opens a storage bucket. Locks of one bucket neither block those of another nor show in its
 * `query()`.
 * @param {string} name any string; threads that open the same name share the bucket
 * @returns {{ readonly name: string, readonly locks: LockManager }}
 */
function openBucket(name) {
  if (arguments.length < 1)
    throw typeError(OPEN_BUCKET, '1 argument required, but only 0 present.');
  const bucketName = toDOMString(name, OPEN_BUCKET, 'The name');
  return Object.freeze({ name: bucketName, locks: createLockManager(openBackend(bucketName)) });
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
  const name = typeof bucket === 'object' && bucket !== null ? bucket.name : bucket;
  return openBackend(toDOMString(name, operation, 'The bucket'));
}

module.exports = { bucketBackend, locks, openBucket };
