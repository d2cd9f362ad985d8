'use strict';

/** The meanings of engine errors for a session, and errors that several engines have. */

const { plainError } = require('../../platform/errors.js');

/** @import { Meaning } from '../adapter.js' */

/** @type {Record<string, Meaning>} */
const MEANINGS = {
  ERR_WEB_LOCKS_NO_TABLES: 'dead',
  ERR_WEB_LOCKS_SESSION_DEAD: 'dead',

  // Somebody has to change something.
  ERR_WEB_LOCKS_BUCKET: 'fatal',
  ERR_WEB_LOCKS_DATABASE: 'fatal',
  ERR_WEB_LOCKS_EVICTION: 'fatal',
  ERR_WEB_LOCKS_ISOLATION: 'fatal',
  ERR_WEB_LOCKS_NO_NOTIFY: 'fatal',
  ERR_WEB_LOCKS_NO_RUN_ID: 'fatal',
  ERR_WEB_LOCKS_RIGHTS: 'fatal',
  ERR_WEB_LOCKS_SCHEMA: 'fatal',
  ERR_WEB_LOCKS_SERVER: 'fatal',
  ERR_WEB_LOCKS_STRICT: 'fatal',

  // No attempt of this program can succeed.
  ERR_WEB_LOCKS_CLUSTER: 'misuse',
  ERR_WEB_LOCKS_POOL_ENDED: 'misuse',

  ERR_WEB_LOCKS_REDIS: 'refused',
  ERR_WEB_LOCKS_REFUSED: 'refused',
  ERR_WEB_LOCKS_TOO_LARGE: 'refused',
  ERR_WEB_LOCKS_TOO_MANY: 'refused',
};

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

/** The meaning of an error's code; undefined for other errors. @param {any} error */
const meaningOf = (error) => /** @type {Meaning | undefined} */ (MEANINGS[error?.code]);

/** @param {unknown} error @returns {Meaning} */
const classify = (error) => meaningOf(error) ?? (isLocal(error) ? 'local' : 'retry');

const deadError = () =>
  plainError('The session expired on the server.', 'ERR_WEB_LOCKS_SESSION_DEAD');

const staleError = () => plainError('The connection was replaced.', 'ERR_WEB_LOCKS_STALE');

/** @param {number | string} there @param {number | string} needed */
const versionError = (there, needed) =>
  plainError(
    `The bucket has version ${there}, but this version of web-locks needs version ${needed}. Use ` +
      'the same version of web-locks in all clients of a bucket, or another bucket name.',
    'ERR_WEB_LOCKS_BUCKET',
  );

module.exports = { classify, deadError, isLocal, isOfTls, meaningOf, staleError, versionError };
