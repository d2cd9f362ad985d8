'use strict';

/**
 * Translates the names of buckets to the ids that backends use. Each name that a program gives gets
 * a prefix, so that no name opens the default bucket, or the bucket of private locks.
 */

const PREFIX = 'bucket:';

/** The default bucket, which no name can open. */
const DEFAULT_BUCKET = '';

/** @param {string} name given by a program */
const idOfBucket = (name) => `${PREFIX}${name}`;

/** @param {string} id @returns {string | null} null if no program can give the name */
const nameOfBucket = (id) => (id.startsWith(PREFIX) ? id.slice(PREFIX.length) : null);

module.exports = { DEFAULT_BUCKET, idOfBucket, nameOfBucket };
