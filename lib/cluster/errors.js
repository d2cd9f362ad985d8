'use strict';

/** Errors of the cluster scope that are not about one lock. */

const { plainError } = require('../platform/errors.js');

/** Those that are made here: they say no more than that there was no answer. */
const made = new WeakSet();

/** What users have no use for: it is about a session, or a connection, that is replaced. */
const INTERNAL = ['ERR_WEB_LOCKS_SESSION_DEAD', 'ERR_WEB_LOCKS_STALE'];

/** @param {any} cause */
const isTelling = (cause) =>
  String(cause?.code).startsWith('ERR_WEB_LOCKS_') && !INTERNAL.includes(cause.code);

/**
 * There was no answer in time. What waits goes on waiting. Its code is that of its cause, which
 * tells what to do, if that has one of ours.
 * @param {string} what was wanted
 * @param {any} cause the last error that tells why, if there was one
 */
function unreachableError(what, cause) {
  const why = cause === undefined ? 'the lock server does not answer.' : (cause?.message ?? cause);
  const options = cause === undefined ? undefined : { cause };
  const code = isTelling(cause) ? cause.code : 'ERR_WEB_LOCKS_UNREACHABLE';
  const error = plainError(`${what}: ${why}`, code, options);
  made.add(error);
  return error;
}

/**
 * @param {unknown} why the server does not answer, if that is known
 * @returns {unknown} the same, with a code that users know
 */
function reasonError(why) {
  if (isTelling(why)) return why;
  if (why !== undefined) return unreachableError('The lock server cannot be reached', why);
  return plainError('The lock server does not answer.', 'ERR_WEB_LOCKS_UNREACHABLE');
}

/** @param {any} error @returns {boolean} whether it tells why there was no answer */
const tellsWhy = (error) => !made.has(error);

/** Of Node.js, for more than a string can have; a plain Error. */
const TOO_LONG = 'ERR_STRING_TOO_LONG';

/**
 * @param {any} error of a call that was not made by the network, such as `fetch`
 * @returns {boolean} whether it is this process's, and no fault of a network or a server: a defect,
 *   or a file that cannot be opened
 */
function isLocal(error) {
  if (error?.syscall === 'open' || error?.code === TOO_LONG) return true;
  return [TypeError, RangeError, ReferenceError, SyntaxError].some((kind) => error instanceof kind);
}

/** Codes of Node.js and OpenSSL for a certificate, or for a port that does not speak TLS. */
const OF_TLS =
  /^(ERR_TLS_|ERR_SSL_|CERT_|CRL_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_|INVALID_CA)/;

/**
 * @param {any} error of a connection
 * @returns {boolean} whether TLS failed: the server is there, and somebody has to change something
 */
const isOfTls = (error) => OF_TLS.test(String(error?.code));

/**
 * @param {number} most
 * @param {number} count
 */
const tooManyError = (most, count) =>
  plainError(
    `The call names ${count} locks, and may name ${most}. Request fewer at once, or one name ` +
      'that stands for all of them.',
    'ERR_WEB_LOCKS_TOO_MANY',
  );

module.exports = { isLocal, isOfTls, reasonError, tellsWhy, tooManyError, unreachableError };
