'use strict';

/** Errors of the cluster scope that are not about one lock. */

const { plainError } = require('../platform/errors.js');

/** The errors that `unreachableError` has made. They contain no reason of their own. */
const made = new WeakSet();

/** Codes about a replaced session or connection. Users cannot do anything about these errors. */
const INTERNAL = ['ERR_WEB_LOCKS_SESSION_DEAD', 'ERR_WEB_LOCKS_STALE'];

/** Whether the cause has a code of this library that users can act on. @param {any} cause */
const givesReason = (cause) =>
  String(cause?.code).startsWith('ERR_WEB_LOCKS_') && !INTERNAL.includes(cause.code);

/**
 * Creates the error for a server that did not answer in time. If the cause has a code of this
 * library that users can act on, the error takes this code.
 * @param {string} what begins the message @param {any} cause the last error that gives a reason
 */
function unreachableError(what, cause) {
  const why = cause === undefined ? 'the lock server does not answer.' : (cause?.message ?? cause);
  const options = cause === undefined ? undefined : { cause };
  const code = givesReason(cause) ? cause.code : 'ERR_WEB_LOCKS_UNREACHABLE';
  const error = plainError(`${what}: ${why}`, code, options);
  made.add(error);
  return error;
}

/**
 * Returns `why` itself if users can act on its code, and otherwise an error about the server.
 * @param {unknown} why @returns {unknown}
 */
function reasonError(why) {
  if (givesReason(why)) return why;
  if (why !== undefined) return unreachableError('The lock server cannot be reached', why);
  return plainError('The lock server does not answer.', 'ERR_WEB_LOCKS_UNREACHABLE');
}

/** Whether the error has a reason of its own (see `made`). @param {any} error */
const isOwnReason = (error) => !made.has(error);

/** The code of the error that Node.js throws for a string that is too long: a plain Error. */
const TOO_LONG = 'ERR_STRING_TOO_LONG';

/**
 * Whether an error comes from this process, not from the network or a server: a defect, a string
 * that is too long, or a file that cannot be opened. Do not use this for errors of `fetch`, which
 * also rejects with a TypeError when the network fails.
 * @param {any} error
 */
function isLocal(error) {
  if (error?.syscall === 'open' || error?.code === TOO_LONG) return true;
  return [TypeError, RangeError, ReferenceError, SyntaxError].some((kind) => error instanceof kind);
}

/** Codes of Node.js and OpenSSL for a bad certificate, or a port that does not speak TLS. */
const OF_TLS =
  /^(ERR_TLS_|ERR_SSL_|CERT_|CRL_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_|INVALID_CA)/;

/** Whether TLS failed: somebody must change a certificate or the address. @param {any} error */
const isOfTls = (error) => OF_TLS.test(String(error?.code));

/** @param {number} most @param {number} count */
const tooManyError = (most, count) =>
  plainError(
    `The call names ${count} locks; at most ${most} are allowed. Request fewer at once, or one ` +
      'name that stands for all of them.',
    'ERR_WEB_LOCKS_TOO_MANY',
  );

module.exports = { isLocal, isOfTls, reasonError, isOwnReason, tooManyError, unreachableError };
