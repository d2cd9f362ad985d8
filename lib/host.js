'use strict';

/** `web-locks/host`: locks that all processes of a machine share. */

const path = require('node:path');
const { DEFAULT_BUCKET, idOfBucket } = require('./backend/bucket-ids.js');
const { HostBackend } = require('./backend/host.js');
const { Bucket, OPEN_BUCKET } = require('./extensions/buckets/bucket.js');
const { createLockManager } = require('./extensions/manager/lock-manager.js');
const { scopedLocks } = require('./extensions/objects/scoped.js');
const {
  describe,
  requireArguments,
  rejectUnknownOptions,
  toDOMString,
} = require('./standard/webidl.js');
const { typeError } = require('./platform/errors.js');
const shared = require('./common.js');

const locks = createLockManager(new HostBackend(DEFAULT_BUCKET, ''));

/**
 * @param {string} name any string; in a directory, equal names mean the same bucket
 * @param {{ directory?: string }} [options] by default, a directory of the user (docs/HOST.md)
 * @returns {InstanceType<typeof Bucket>}
 */
function openBucket(name, options) {
  requireArguments(arguments.length, 1, OPEN_BUCKET);
  const bucketName = toDOMString(name, OPEN_BUCKET, 'The name');
  const directory = toDirectory(directoryOption(options));
  return new Bucket(bucketName, new HostBackend(idOfBucket(bucketName), directory));
}

/**
 * Throws for other options: if a misspelt `directory` were ignored, the locks would not be shared.
 * @param {any} options
 */
function directoryOption(options) {
  if (options === undefined || options === null) return undefined;
  if (typeof options !== 'object') {
    throw typeError(OPEN_BUCKET, `The options are ${describe(options)}; expected an object.`);
  }
  rejectUnknownOptions(options, ['directory'], OPEN_BUCKET);
  return options.directory;
}

/** @param {any} directory @returns {string} an absolute path; '' for the default */
function toDirectory(directory) {
  if (directory === undefined) return '';
  if (typeof directory === 'string' && directory !== '' && !directory.includes('\0')) {
    return path.resolve(directory);
  }
  throw typeError(
    OPEN_BUCKET,
    `'directory' is ${describe(directory)}; expected the path of a directory.`,
  );
}

module.exports = { ...shared, ...scopedLocks({ locks, openBucket }), locks, openBucket };
