'use strict';

/** The errors of the etcd adapter, with codes and advice. */

const { plainError } = require('../../../platform/errors.js');
const { isOfTls } = require('../errors.js');

const newLeaderError = () =>
  plainError('etcd elected a new leader. web-locks repeats the request.', UNREACHABLE);

/** @param {string} prefix of the bucket's keys */
const noEpochError = (prefix) =>
  plainError(
    `The bucket has keys that begin with '${prefix}', but its epoch key is missing. Either ` +
      'somebody deleted that key, or clients with an older version of web-locks use the bucket; ' +
      'they do not notice when their locks are stolen. Close all clients of the bucket, or use ' +
      'another bucket name. The keys of closed clients expire with their leases.',
    'ERR_WEB_LOCKS_BUCKET',
  );

/** Whether etcd has compacted the revision that was read. @param {any} error */
const isCompacted = (error) => /has been compacted/.test(error?.message);

/** @param {string} [reason] */
const watchEndedError = (reason) =>
  plainError(`etcd ended a watch: ${reason ?? 'no reason was given'}`, UNREACHABLE);

const noWatchEventsError = () =>
  plainError(
    'etcd responds, but the events of a watch do not arrive. A proxy, a load balancer or a ' +
      '`fetch` option in between must forward each part of a response immediately: disable its ' +
      'buffering.',
    'ERR_WEB_LOCKS_NO_WATCH',
  );

/**
 * The reason in an error. If a host has several addresses and none of them answers, the error
 * itself has no message, so the messages for its addresses are joined.
 * @param {any} error @returns {string | undefined}
 */
function reasonOf(error) {
  /** @type {any[]} */
  const each = Array.isArray(error?.errors) ? error.errors : [];
  return error?.message || each.map((one) => one?.message).join('; ') || error?.code;
}

/** @param {string} endpoint @param {any} cause */
const unreachableError = (endpoint, cause) => {
  const reason = reasonOf(cause?.cause) || reasonOf(cause) || cause;
  return plainError(`etcd at ${endpoint} cannot be reached: ${reason}`, UNREACHABLE, { cause });
};

const UNREACHABLE = 'ERR_WEB_LOCKS_UNREACHABLE';

/** Errors about an answer that does not come from etcd. */
const notEtcd = new WeakSet();

/** An error that `firstError` recognizes. @param {string} endpoint */
function notEtcdError(endpoint) {
  const error = plainError(`The server at ${endpoint} does not respond like etcd.`, UNREACHABLE);
  notEtcd.add(error);
  return error;
}

/** Codes for an answer that is not HTTP, is not TLS, or does not state its end. */
const OTHER_PROTOCOL = /^(HPE_INVALID_|EPROTO|ERR_SSL_(WRONG_VERSION|PACKET_LENGTH)|NO_LENGTH$)/;

/**
 * Codes of a connection that the server closed without an answer, as some servers do if the URL has
 * the wrong protocol.
 */
const CLOSED = /^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/;

/** The errors of Node.js or of `fetch` that caused an error. @param {any} error @returns {any[]} */
const causesOf = ({ cause }) => [cause, cause?.cause];

/** Whether the server closed the connection without an answer. @param {any} error */
const isClosed = (error) => causesOf(error).some((one) => CLOSED.test(one?.code));

/** Whether the answer is not HTTP or TLS, or does not state its end. @param {any} error */
const isOfOtherProtocol = (error) => causesOf(error).some((one) => OTHER_PROTOCOL.test(one?.code));

/** Whether the server speaks TLS and TLS failed. @param {any} error */
const isTlsFailure = (error) => !isOfOtherProtocol(error) && causesOf(error).some(isOfTls);

/**
 * The error of a session's first call. If the response does not come from etcd, this error says
 * that there is no etcd at this address. (Later, such a response may come from a proxy, for a call
 * that etcd has executed.) `other` is the protocol of the server if the URL has the wrong one.
 * @param {any} error @param {string} [other] @returns {unknown}
 */
function firstError(error, other) {
  const isOther = isOfOtherProtocol(error);
  const isTls = isTlsFailure(error);
  if (!isOther && !isTls && !other && !notEtcd.has(error)) return error;
  let message = isTls ? NO_TLS : NO_GATEWAY;
  if (other) message = wrongProtocolMessage(other);
  return plainError(`${message}. (${error.message})`, 'ERR_WEB_LOCKS_SERVER', { cause: error });
}

/** @param {string} other */
const wrongProtocolMessage = (other) =>
  `The URL says ${other === 'http:' ? 'https:' : 'http:'}, but the server speaks ${other}`;

const NO_TLS =
  'The TLS connection to etcd failed. Check the certificate and the host in the URL. For a ' +
  'private certificate authority, set NODE_EXTRA_CA_CERTS to its file, or pass openBucket a ' +
  '`fetch` that trusts it';

/** @param {string} name */
const longNameError = (name) =>
  plainError(
    `The name (${name.length} code units) or the label is too long for a request to etcd; ` +
      'expected at most about 1 MB together.',
    'ERR_WEB_LOCKS_TOO_LARGE',
  );

/** Status codes of gRPC, which the gateway sends as `code`. */
const INVALID_ARGUMENT = 3;
const NOT_FOUND = 5;
const PERMISSION_DENIED = 7;
const UNIMPLEMENTED = 12;
const UNAUTHENTICATED = 16;

/**
 * @typedef {object} Refusal an error response of etcd
 * @property {number} status of HTTP
 * @property {number} code of gRPC; 0 for none
 * @property {string} message
 */

/** @param {number} status @param {string} text @returns {Refusal} */
function refusalOf(status, text) {
  try {
    const body = JSON.parse(text);
    // A stream wraps the error in an object.
    const { code, grpc_code: grpcCode, message, error } = body.error?.message ? body.error : body;
    const said = message ?? error;
    if (typeof said === 'string')
      return { status, code: Number(code ?? grpcCode ?? 0), message: said };
  } catch {
    // The answer is not JSON.
  }
  return { status, code: 0, message: text.trim().slice(0, 200) || `HTTP status ${status}` };
}

/** Whether our token is invalid, or etcd now requires one. @param {Refusal} refusal */
const isTokenInvalid = ({ code, message }) =>
  code === UNAUTHENTICATED ||
  /invalid auth token|auth store is old|user name is empty/.test(message);

const NO_GATEWAY =
  'There is no JSON gateway of etcd 3.4 or newer at this endpoint. Use the URL for clients, such ' +
  'as http://host:2379 (https: if etcd has a certificate), and start etcd without ' +
  '--enable-grpc-gateway=false';

/** Whether the status shows that the gateway is not at this path. Redirects are not followed. */
const isElsewhere = (/** @type {number} */ status) =>
  (status >= 300 && status < 400) || [404, 405, 410, 501].includes(status);

/** The first match decides. @type {[(refusal: Refusal) => boolean, string, string][]} */
const REFUSALS = [
  [
    ({ code, message }) => code === NOT_FOUND && message.includes('lease'),
    'ERR_WEB_LOCKS_SESSION_DEAD',
    'The session expired on the server',
  ],
  [
    ({ code, message }) =>
      code === PERMISSION_DENIED ||
      /authentication failed|user name|auth token|root user/.test(message),
    'ERR_WEB_LOCKS_RIGHTS',
    'etcd rejected the user. Pass openBucket the option `auth` with the `user` and `password` of ' +
      'a user whose role may read and write all keys that begin with `web-locks/`',
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
    'A proxy in front of etcd rejected the request. Pass openBucket a `fetch` that sends the ' +
      'credentials that the proxy requires',
  ],
  [
    ({ message }) => message.includes('too many operations'),
    'ERR_WEB_LOCKS_TOO_MANY',
    'The call names too many locks for a transaction. Request fewer at once, or start etcd with ' +
      'a larger --max-txn-ops',
  ],
  [
    ({ status, message }) => status === 413 || /too large|larger than max/.test(message),
    'ERR_WEB_LOCKS_TOO_LARGE',
    'The request is too large for etcd',
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
    'etcd rejected the request',
  ],
];

/**
 * The error of the first match in `REFUSALS`; without a match, etcd counts as unreachable.
 * @param {string} endpoint @param {Refusal} refusal
 */
function refusedError(endpoint, refusal) {
  for (const [matches, code, message] of REFUSALS) {
    if (matches(refusal)) return plainError(`${message}. (${endpoint}: ${refusal.message})`, code);
  }
  return plainError(`etcd at ${endpoint} is not available: ${refusal.message}`, UNREACHABLE);
}

module.exports = {
  firstError,
  isClosed,
  isCompacted,
  isTlsFailure,
  isTokenInvalid,
  noEpochError,
  longNameError,
  newLeaderError,
  noWatchEventsError,
  notEtcdError,
  refusalOf,
  refusedError,
  unreachableError,
  watchEndedError,
};
