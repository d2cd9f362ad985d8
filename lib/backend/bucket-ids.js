'use strict';

/**
 * Says what the process and the machine call a bucket. A prefix stands before each name that a
 * program gives, so that no such name opens the default bucket, or the one of private locks.
 */

const PREFIX = 'bucket:';

/** The default bucket, which no name can open. */
const DEFAULT_BUCKET = '';

/** @param {string} name given by a program */
const idOfBucket = (name) => `${PREFIX}${name}`;

/** @param {string} id @returns {string | null} null if no program can give the name */
const nameOfBucket = (id) => (id.startsWith(PREFIX) ? id.slice(PREFIX.length) : null);

module.exports = { DEFAULT_BUCKET, idOfBucket, nameOfBucket };
