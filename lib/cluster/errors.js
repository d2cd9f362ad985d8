'use strict';

/** Errors of the cluster scope that are not about one lock. */

const { plainError } = require('../platform/errors.js');

/** The errors of `unreachableError`, which give no reason of their own. */
const made = new WeakSet();

/** Codes about a session or connection that is replaced, which do not help users. */
const INTERNAL = ['ERR_WEB_LOCKS_SESSION_DEAD', 'ERR_WEB_LOCKS_STALE'];

/** @param {any} cause */
const givesReason = (cause) =>
  String(cause?.code).startsWith('ERR_WEB_LOCKS_') && !INTERNAL.includes(cause.code);

/**
 * The server did not answer in time; requests that wait go on waiting. The code is the cause's, if
 * that is one of ours, because it says what to do.
 * @param {string} what was wanted
 * @param {any} cause the last error that gives a reason
 */
function unreachableError(what, cause) {
  const why = cause === undefined ? 'the lock server does not answer.' : (cause?.message ?? cause);
  const options = cause === undefined ? undefined : { cause };
  const code = givesReason(cause) ? cause.code : 'ERR_WEB_LOCKS_UNREACHABLE';
  const error = plainError(`${what}: ${why}`, code, options);
  made.add(error);
  return error;
}

/** Gives the reason of an outage a code that users know. @param {unknown} why @returns {unknown} */
function reasonError(why) {
  if (givesReason(why)) return why;
  if (why !== undefined) return unreachableError('The lock server cannot be reached', why);
  return plainError('The lock server does not answer.', 'ERR_WEB_LOCKS_UNREACHABLE');
}

/** Whether the error gives a reason of its own. @param {any} error */
const isOwnReason = (error) => !made.has(error);

/** The code of Node.js for a string that is too long; its error is a plain Error. */
const TOO_LONG = 'ERR_STRING_TOO_LONG';

/**
 * Whether an error is this process's own and not of the network or a server: a defect, or a file
 * that cannot be opened. `fetch` rejects with such errors for the network, too, so its errors do
 * not belong here.
 * @param {any} error
 */
function isLocal(error) {
  if (error?.syscall === 'open' || error?.code === TOO_LONG) return true;
  return [TypeError, RangeError, ReferenceError, SyntaxError].some((kind) => error instanceof kind);
}

/** Codes of Node.js and OpenSSL about a certificate, or a port that does not speak TLS. */
const OF_TLS =
  /^(ERR_TLS_|ERR_SSL_|CERT_|CRL_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_|INVALID_CA)/;

/**
 * Whether TLS failed, so the server is there and somebody has to change something.
 * @param {any} error of a connection
 */
const isOfTls = (error) => OF_TLS.test(String(error?.code));

/** @param {number} most @param {number} count */
const tooManyError = (most, count) =>
  plainError(
    `The call names ${count} locks; at most ${most} are allowed. Request fewer at once, or one ` +
      'name that stands for all of them.',
    'ERR_WEB_LOCKS_TOO_MANY',
  );

module.exports = { isLocal, isOfTls, reasonError, isOwnReason, tooManyError, unreachableError };
