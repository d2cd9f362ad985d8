'use strict';

/** Makes errors with proper-lockfile's codes and, except for a lost lock, with its messages. */

/** @param {string} message @param {string} code @param {string} [file] @param {unknown} [cause] */
function lockfileError(message, code, file, cause) {
  const error = cause === undefined ? new Error(message) : new Error(message, { cause });
  return Object.assign(error, file === undefined ? { code } : { code, file });
}

/** @param {string} file @param {unknown} [cause] */
const lockedError = (file, cause) =>
  lockfileError('Lock file is already being held', 'ELOCKED', file, cause);

/** @param {string} file */
const notAcquiredError = (file) =>
  lockfileError('Lock is not acquired/owned by you', 'ENOTACQUIRED', file);

/** @param {string} file */
const releasedError = (file) => lockfileError('Lock is already released', 'ERELEASED', file);

/** @param {string} file @param {Error} cause why the lock was lost */
const compromisedError = (file, cause) =>
  lockfileError(`The lock was lost: ${cause.message}`, 'ECOMPROMISED', file, cause);

/** The error for `retries` in a synchronous call. */
const syncError = () => lockfileError('Cannot use retries with the sync api', 'ESYNC');

module.exports = { compromisedError, lockedError, notAcquiredError, releasedError, syncError };
