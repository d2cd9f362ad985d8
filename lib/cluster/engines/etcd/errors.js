'use strict';

/**
 * What can go wrong between us and etcd: errors with a `code`, whose messages say what to do, and
 * which of them another attempt can help.
 */

const { plainError } = require('../../../platform/errors.js');
const { isLocal, isOfTls } = require('../../errors.js');

/** @typedef {import('../../adapter.js').Meaning} Meaning */

/**
 * By code: what a rejection means. What is not here, and not of this process, is `retry`.
 * @type {Record<string, Meaning>}
 */
const MEANING = {
  ERR_WEB_LOCKS_SESSION_DEAD: 'dead',
  ERR_WEB_LOCKS_RIGHTS: 'fatal',
  ERR_WEB_LOCKS_SERVER: 'fatal',
  ERR_WEB_LOCKS_BUCKET: 'fatal',
  ERR_WEB_LOCKS_REFUSED: 'refused',
  ERR_WEB_LOCKS_TOO_LARGE: 'refused',
  ERR_WEB_LOCKS_TOO_MANY: 'refused',
};

/**
 * What goes wrong in a call has a code of ours, whatever it is: see gateway.js.
 * @param {any} error
 * @returns {Meaning}
 */
const classify = (error) => MEANING[error?.code] ?? (isLocal(error) ? 'local' : 'retry');

const deadError = () =>
  plainError('The session has expired at the server.', 'ERR_WEB_LOCKS_SESSION_DEAD');

const staleError = () => plainError('The connection was replaced.', 'ERR_WEB_LOCKS_STALE');

const newLeaderError = () =>
  plainError('etcd has a new leader. The request is repeated.', UNREACHABLE);

/**
 * @param {number} there
 * @param {number} needed
 */
const bucketError = (there, needed) =>
  plainError(
    `The bucket is of version ${there}, and this web-locks needs ${needed}. All clients of a ` +
      'bucket need the same version: update, or give another name.',
    'ERR_WEB_LOCKS_BUCKET',
  );

/** @param {string} prefix of the bucket's keys */
const lifelessError = (prefix) =>
  plainError(
    `There are keys that begin with '${prefix}', but the bucket has no life: they are of clients ` +
      'with an older version of web-locks, which do not notice when their locks are ' +
      'stolen, or somebody deleted the key of the life. Close all clients of the bucket, or give ' +
      'another name. Keys of clients that are gone end with their leases.',
    'ERR_WEB_LOCKS_BUCKET',
  );

/** @param {any} error of a read @returns {boolean} whether etcd has forgotten that revision */
const isForgotten = (error) => /has been compacted/.test(error?.message);

/** @param {string} [reason] */
const newWatchError = (reason) =>
  plainError(`etcd ended a watch: ${reason ?? 'it gave no reason'}`, UNREACHABLE);

const noWatchError = () =>
  plainError(
    'etcd answers, but a watch is not heard. What is between here and there (a proxy, a load ' +
      'balancer, the `fetch` option) has to pass on each part of a response as it comes: turn ' +
      'its buffering off.',
    'ERR_WEB_LOCKS_NO_WATCH',
  );

/**
 * @param {any} error
 * @returns {string | undefined} of a host with several addresses, none of which answers, what each
 *   of them says: the error for all has no message
 */
function reasonOf(error) {
  /** @type {any[]} */
  const each = Array.isArray(error?.errors) ? error.errors : [];
  return error?.message || each.map((one) => one?.message).join('; ') || error?.code;
}

/**
 * @param {string} endpoint
 * @param {any} cause of `fetch`, or of transport.js
 */
const unreachableError = (endpoint, cause) => {
  const reason = reasonOf(cause?.cause) || reasonOf(cause) || cause;
  return plainError(`etcd at ${endpoint} cannot be reached: ${reason}`, UNREACHABLE, { cause });
};

const UNREACHABLE = 'ERR_WEB_LOCKS_UNREACHABLE';

/** Those that tell that an answer was not etcd's. */
const odd = new WeakSet();

/** @param {string} endpoint */
function oddAnswerError(endpoint) {
  const error = plainError(`The server at ${endpoint} does not answer like etcd.`, UNREACHABLE);
  odd.add(error);
  return error;
}

/** Codes for an answer that is no HTTP, or no TLS, or has no end. */
const OTHER_PROTOCOL = /^(HPE_INVALID_|EPROTO|ERR_SSL_(WRONG_VERSION|PACKET_LENGTH)|NO_LENGTH$)/;

/** Codes for a connection that the server closed without an answer. */
const CLOSED = /^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/;

/** @param {any} error @returns {any[]} the errors of Node.js, or of a `fetch`, that caused it */
const causesOf = ({ cause }) => [cause, cause?.cause];

/**
 * @param {any} error of a call
 * @returns {boolean} whether the server closed the connection without an answer, as a server does
 *   to which http: and https: are not the same
 */
const isClosed = (error) => causesOf(error).some((one) => CLOSED.test(one?.code));

/** @param {any} error of a call */
const isOfOtherProtocol = (error) => causesOf(error).some((one) => OTHER_PROTOCOL.test(one?.code));

/**
 * @param {any} error of a call
 * @returns {boolean} whether the server speaks TLS, and TLS failed
 */
const isTlsFailure = (error) => !isOfOtherProtocol(error) && causesOf(error).some(isOfTls);

/**
 * An answer that is not etcd's may be that of a proxy to a call that etcd has done. To the first
 * call of a session it says that etcd is not there.
 * @param {any} error of that call
 * @param {string} [other] the protocol that the server speaks, if it is not that of the URL
 * @returns {unknown} what to tell
 */
function firstError(error, other) {
  const isOther = isOfOtherProtocol(error);
  const isTls = isTlsFailure(error);
  if (!isOther && !isTls && !other && !odd.has(error)) return error;
  let message = isTls ? NO_TLS : NO_GATEWAY;
  if (other) message = wrongProtocol(other);
  return plainError(`${message}. (${error.message})`, 'ERR_WEB_LOCKS_SERVER', { cause: error });
}

/** @param {string} other */
const wrongProtocol = (other) =>
  `The URL says ${other === 'http:' ? 'https:' : 'http:'}, but the server speaks ${other}`;

const NO_TLS =
  'TLS with etcd fails. Check the certificate and the host of the URL, name the file of an ' +
  'authority of your own in NODE_EXTRA_CA_CERTS, or give openBucket a `fetch` that has it';

/** @param {string} name */
const longNameError = (name) =>
  plainError(
    `A name of ${name.length} code units, or a label, is more than a request to etcd may have.`,
    'ERR_WEB_LOCKS_TOO_LARGE',
  );

/** Of gRPC: what a gateway gives as `code`. */
const INVALID_ARGUMENT = 3;
const NOT_FOUND = 5;
const PERMISSION_DENIED = 7;
const UNIMPLEMENTED = 12;
const UNAUTHENTICATED = 16;

/**
 * @typedef {object} Refusal what etcd said
 * @property {number} status of HTTP
 * @property {number} code of gRPC; 0 for none
 * @property {string} message
 */

/**
 * @param {number} status
 * @param {string} text of the response
 * @returns {Refusal}
 */
function refusalOf(status, text) {
  try {
    const body = JSON.parse(text);
    // In a stream the error is an object.
    const { code, grpc_code: grpcCode, message, error } = body.error?.message ? body.error : body;
    return { status, code: Number(code ?? grpcCode ?? 0), message: String(message ?? error) };
  } catch {
    return { status, code: 0, message: text.trim().slice(0, 200) || `HTTP status ${status}` };
  }
}

/**
 * @param {Refusal} refusal
 * @returns {boolean} whether a new token helps, also where etcd wanted none before
 */
const isTokenOver = ({ code, message }) =>
  code === UNAUTHENTICATED ||
  /invalid auth token|auth store is old|user name is empty/.test(message);

const NO_GATEWAY =
  'There is no JSON gateway of etcd 3.4 or newer at this endpoint. Give the URL for clients, ' +
  'such as http://host:2379, or https: where etcd has a certificate, and do not start etcd with ' +
  '--enable-grpc-gateway=false';

/** Of HTTP: a redirect, which is not followed, or that there is no such thing. */
const isElsewhere = (/** @type {number} */ status) =>
  (status >= 300 && status < 400) || [404, 405, 410, 501].includes(status);

/**
 * In their order: what matches first counts.
 * @type {[(refusal: Refusal) => boolean, string, string][]}
 */
const REFUSALS = [
  [
    ({ code, message }) => code === NOT_FOUND && message.includes('lease'),
    'ERR_WEB_LOCKS_SESSION_DEAD',
    'The session has expired at the server',
  ],
  [
    ({ code, message }) =>
      code === PERMISSION_DENIED ||
      /authentication failed|user name|auth token|root user/.test(message),
    'ERR_WEB_LOCKS_RIGHTS',
    'etcd refuses the user. Give openBucket the option `auth` with `user` and `password`, of a ' +
      'user whose role may read and write all keys that begin with `web-locks/`',
  ],
  [
    ({ status, code, message }) =>
      code === UNIMPLEMENTED ||
      (code === 0 && (isElsewhere(status) || /\bHTTPS (port|server)\b/.test(message))),
    'ERR_WEB_LOCKS_SERVER',
    NO_GATEWAY,
  ],
  [
    ({ status, code }) => code === 0 && [401, 403, 407].includes(status),
    'ERR_WEB_LOCKS_RIGHTS',
    'A server in front of etcd refuses the request. Give openBucket the option `fetch`, which ' +
      'sends what that server requires',
  ],
  [
    ({ message }) => message.includes('too many operations'),
    'ERR_WEB_LOCKS_TOO_MANY',
    'The call names too many locks for a transaction. Request fewer at once, or start etcd with ' +
      'a greater --max-txn-ops',
  ],
  [
    ({ status, message }) => status === 413 || /too large|larger than max/.test(message),
    'ERR_WEB_LOCKS_TOO_LARGE',
    'This is more than a request to etcd may have',
  ],
  [
    ({ message }) => message.includes('space exceeded'),
    'ERR_WEB_LOCKS_SPACE',
    'etcd has no space left. Start it with --auto-compaction-retention=5m, compact and ' +
      'defragment it, and disarm its alarm',
  ],
  [
    ({ status, code, message }) =>
      (code === INVALID_ARGUMENT || (status === 400 && code === 0)) &&
      !message.includes('auth store is old'),
    'ERR_WEB_LOCKS_REFUSED',
    'etcd refuses a request',
  ],
];

/**
 * @param {string} endpoint
 * @param {Refusal} refusal
 */
function refusedError(endpoint, refusal) {
  for (const [matches, code, message] of REFUSALS) {
    if (matches(refusal)) return plainError(`${message}. (${endpoint}: ${refusal.message})`, code);
  }
  return plainError(`etcd at ${endpoint} does not answer: ${refusal.message}`, UNREACHABLE);
}

module.exports = {
  bucketError,
  classify,
  deadError,
  firstError,
  isClosed,
  isForgotten,
  isTlsFailure,
  isTokenOver,
  lifelessError,
  longNameError,
  newLeaderError,
  newWatchError,
  noWatchError,
  oddAnswerError,
  refusalOf,
  refusedError,
  staleError,
  unreachableError,
};
