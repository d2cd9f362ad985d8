'use strict';

/** Finds the buckets of a host scope directory that are in use, and their names. */

const fs = require('node:fs');
const path = require('node:path');
const { DEFAULT_BUCKET, nameOfBucket } = require('../backend/bucket-ids.js');
const { HostBackend } = require('../backend/host.js');
const { LONGEST_NAME } = require('../backend/host-errors.js');

/** The directory of a bucket is named after a hash of the bucket's name. */
const FOLDER = /^[0-9a-f]{24}$/;
/** Each process that has the bucket open has a socket with this kind of name, except on Windows. */
const MEMBER = /^s\d+$/;
/** The greatest size in bytes of a file `name` (TITLE_MOST in src/host/member/bucket.c). */
const NAME_BYTES = 4 * LONGEST_NAME;

/**
 * @typedef {object} Found
 * @property {string} folder the last part of the path of its directory
 * @property {InstanceType<typeof HostBackend> | undefined} backend the caller must close it;
 *   undefined if the bucket's file `name` is missing or wrong
 * @property {string | null} bucket null for the default bucket or an unknown name
 */

/**
 * The caller must close the backends of the result.
 * @param {InstanceType<typeof HostBackend>} own a bucket of the directory @returns {Found[]}
 */
function openOtherBuckets(own) {
  const { dir: directory, base } = path.parse(own.place);
  const folders = entriesOf(directory).filter((name) => FOLDER.test(name) && name !== base);
  const inUse = folders.filter((folder) => isOpen(path.join(directory, folder)));
  return inUse.map((folder) => identifyBucket(directory, folder)).sort(byName);
}

/** @param {Found} a @param {Found} b */
const byName = (a, b) => ((a.bucket ?? '') < (b.bucket ?? '') ? -1 : 1);

/** @param {string} directory @returns {string[]} empty if the directory cannot be read */
function entriesOf(directory) {
  try {
    return fs.readdirSync(directory);
  } catch {
    return [];
  }
}

/** Always true on Windows, where sockets have no files. @param {string} folder of a bucket */
const isOpen = (folder) =>
  process.platform === 'win32' || entriesOf(folder).some((name) => MEMBER.test(name));

/** Opens the bucket if its name is known. @param {string} directory @param {string} folder */
function identifyBucket(directory, folder) {
  for (const id of [DEFAULT_BUCKET, readName(path.join(directory, folder, 'name'))]) {
    if (id === undefined) continue;
    const backend = new HostBackend(id, directory);
    // Another program may have written the file `name`. Only the hash proves that it is right.
    if (path.basename(backend.place) === folder) {
      return { folder, backend, bucket: nameOfBucket(id) };
    }
    backend.close();
  }
  return { folder, backend: undefined, bucket: null };
}

/**
 * Neither follows a link nor waits for a pipe, which another user may have put there.
 * @param {string} file @returns {string | undefined} undefined if it cannot be read
 */
function readName(file) {
  const { O_NOFOLLOW = 0, O_NONBLOCK = 0, O_RDONLY } = fs.constants;
  try {
    const descriptor = fs.openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const bytes = Buffer.alloc(NAME_BYTES);
      return bytes.toString('utf16le', 0, fs.readSync(descriptor, bytes, 0, NAME_BYTES, 0));
    } finally {
      fs.closeSync(descriptor);
    }
  } catch {
    return undefined;
  }
}

module.exports = { openOtherBuckets };
