'use strict';

/**
 * Translates the names of buckets to the ids that backends use. A prefix ensures that no name opens
 * the default bucket, or the bucket of private locks.
 */

const PREFIX = 'bucket:';

const DEFAULT_BUCKET = '';

/** @param {string} name */
const idOfBucket = (name) => `${PREFIX}${name}`;

/** @param {string} id @returns {string | null} null if no name opens the bucket */
const nameOfBucket = (id) => (id.startsWith(PREFIX) ? id.slice(PREFIX.length) : null);

module.exports = { DEFAULT_BUCKET, idOfBucket, nameOfBucket };
