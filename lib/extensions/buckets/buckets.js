'use strict';

/** Opens storage buckets whose locks all threads of the process share. */

const { createLockManager } = require('../manager/lock-manager.js');
const { DEFAULT_BUCKET, idOfBucket } = require('../../backend/bucket-ids.js');
const { NativeBackend } = require('../../backend/native.js');
const { typeError } = require('../../platform/errors.js');
const { requireArguments, toDOMString } = require('../../standard/webidl.js');
const { Bucket, OPEN_BUCKET } = require('./bucket.js');

/** @typedef {ReturnType<typeof createLockManager>} LockManager */

const locks = createLockManager(new NativeBackend(DEFAULT_BUCKET));

/** @param {string} name any string @returns {InstanceType<typeof Bucket>} */
function openBucket(name) {
  requireArguments(arguments.length, 1, OPEN_BUCKET);
  const bucketName = toDOMString(name, OPEN_BUCKET, 'The name');
  refuseOptions(arguments[1]);
  return new Bucket(bucketName, new NativeBackend(idOfBucket(bucketName)));
}

/** Throws for an object: such a caller uses the wrong entry point. @param {unknown} options */
function refuseOptions(options) {
  if (typeof options !== 'object' || options === null) return;
  throw typeError(
    OPEN_BUCKET,
    "This function takes only a name. The options 'directory', 'pool', 'client' and 'endpoints' " +
      'are for openBucket of web-locks/host, /postgres, /redis and /etcd.',
  );
}

module.exports = { locks, openBucket };
