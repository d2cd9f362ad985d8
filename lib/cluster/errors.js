'use strict';

/** Errors of the cluster scope that are not about one lock. */

const { plainError } = require('../platform/errors.js');

/** Those that are made here: they say no more than that there was no answer. */
const made = new WeakSet();

/**
 * The server did not answer in time. What waits goes on waiting.
 * @param {string} what was wanted
 * @param {any} cause the last error that tells why, if there was one
 */
function unreachableError(what, cause) {
  const why = cause === undefined ? 'the lock server does not answer.' : (cause?.message ?? cause);
  const options = cause === undefined ? undefined : { cause };
  const error = plainError(`${what}: ${why}`, 'ERR_WEB_LOCKS_UNREACHABLE', options);
  made.add(error);
  return error;
}

/** @param {any} error @returns {boolean} whether it tells why there was no answer */
const tellsWhy = (error) => !made.has(error);

module.exports = { tellsWhy, unreachableError };
