'use strict';

/** Locks of all processes of a machine: what `web-locks` has, but for these buckets. */

const path = require('node:path');
const { HostBackend } = require('./backend/host.js');
const { Bucket } = require('./extensions/bucket.js');
const { createLockManager } = require('./extensions/lock-manager.js');
const { scopedLocks } = require('./extensions/scoped.js');
const { describe, needArguments, takeOnly, toDOMString } = require('./standard/webidl.js');
const { typeError } = require('./platform/errors.js');
const shared = require('./common.js');

const OPEN_BUCKET = "'openBucket'";

/** The lock manager of the default bucket, which no name opens. */
const locks = createLockManager(new HostBackend('', ''));

/**
 * Opens a storage bucket. Locks of one bucket neither block those of another nor show in its
 * `query()`.
 * @param {string} name any string; processes that open the same name in the same directory share
 *   the bucket
 * @param {{ directory?: string }} [options] `directory`: where the files of the locks are; a user's
 *   own directory in memory if it is not given
 * @returns {InstanceType<typeof Bucket>}
 */
function openBucket(name, options) {
  needArguments(arguments.length, 1, OPEN_BUCKET);
  const bucketName = toDOMString(name, OPEN_BUCKET, 'The name');
  const directory = toDirectory(toOptions(options));
  return new Bucket(bucketName, new HostBackend(`bucket:${bucketName}`, directory));
}

/**
 * What is misspelt would open the files of another place, where nobody else looks.
 * @param {any} options
 * @returns {any} the directory
 */
function toOptions(options) {
  if (options === undefined || options === null) return undefined;
  if (typeof options !== 'object') {
    throw typeError(OPEN_BUCKET, `The options are ${describe(options)}, not an object.`);
  }
  takeOnly(options, ['directory'], OPEN_BUCKET);
  return options.directory;
}

/**
 * @param {any} directory
 * @returns {string} '' for the default
 */
function toDirectory(directory) {
  if (directory === undefined) return '';
  if (typeof directory === 'string' && directory !== '' && !directory.includes('\0')) {
    return path.resolve(directory);
  }
  throw typeError(
    OPEN_BUCKET,
    `The 'directory' option is ${describe(directory)}, not the path of a directory.`,
  );
}

module.exports = { ...shared, ...scopedLocks({ locks, openBucket }), locks, openBucket };
