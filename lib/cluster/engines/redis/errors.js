'use strict';

/** The errors of the Redis adapter, with codes and advice. */

const { plainError } = require('../../../platform/errors.js');
const { isLocal, isOfTls } = require('../errors.js');

const missedStepError = () =>
  plainError(
    'The server has missed the previous call. web-locks repeats both calls.',
    'ERR_WEB_LOCKS_EARLY',
  );

const noEchoError = () =>
  plainError(
    'Messages published for this session do not arrive. The session subscribes again.',
    'ERR_WEB_LOCKS_NO_NEWS',
  );

/** @param {string} version */
const oldServerError = (version) =>
  plainError(
    `Redis ${version} is too old: 6.2 or newer is needed, or Valkey.`,
    'ERR_WEB_LOCKS_SERVER',
  );

/** @param {string} policy */
const evictionError = (policy) =>
  plainError(
    `The server has maxmemory-policy ${policy}, so it drops locks when its memory is full. Set ` +
      'the policy to noeviction or to one of volatile-*, or use another server for locks.',
    'ERR_WEB_LOCKS_EVICTION',
  );

const noRunIdError = () =>
  plainError(
    'The server does not report its run_id, so web-locks cannot detect a restart or failover. ' +
      'After one, two clients may hold the same lock. To accept that risk, pass failover: ' +
      "'ignore'.",
    'ERR_WEB_LOCKS_NO_RUN_ID',
  );

/** @param {string} problem */
const strictError = (problem) =>
  plainError(
    `The server does not meet the requirements of the option 'strict': ${problem} See ` +
      'docs/CLUSTER.md ("An old primary").',
    'ERR_WEB_LOCKS_STRICT',
  );

/** @param {string} theirs @param {string} ours */
const shardsError = (theirs, ours) =>
  plainError(
    `The bucket has ${theirs} shards, but 'shards' is ${ours}. Pass the same number in all ` +
      'clients of a bucket, or use another bucket name.',
    'ERR_WEB_LOCKS_BUCKET',
  );

const LINE = '(?:.*@user_script: ?\\d+: )?';

/**
 * A pattern for errors that begin with one of these words. If a script raised the error again,
 * Redis prepends ERR, and Redis 6 also prepends the number of the script's line.
 * @param {string} words separated by |
 */
const beginsWith = (words) =>
  new RegExp(`^(?:(?:-?ERR )+(?:Error running script .*?: )?${LINE})?-?(?:${words})\\b`, 's');

/**
 * The code and advice for an error by its text; the first match decides. The entry for an unknown
 * command must come first, because that error quotes arguments, which may contain any text.
 * @type {[RegExp, string, string][]}
 */
const BY_TEXT = [
  [
    /^(ERR )*unknown command|Unknown Redis command called|command is not allowed from script/i,
    'ERR_WEB_LOCKS_SERVER',
    'The server lacks a command that locks need (docs/CLUSTER.md, "Rights", lists them). Connect ' +
      'to Redis 6.2 or newer or to Valkey, not to a Sentinel or a proxy with fewer commands.',
  ],
  [
    /^(Unknown RESP type|Protocol error, got)/,
    'ERR_WEB_LOCKS_SERVER',
    'The server at this address is not Redis. Check the address in the options of the client.',
  ],
  [
    /cluster support disabled/,
    'ERR_WEB_LOCKS_CLUSTER',
    'The server is not part of a cluster. Pass a client for one server: createClient() or ' +
      'new Redis().',
  ],
  [
    beginsWith("NOPERM|ACL|The user executing the script can't|No permissions"),
    'ERR_WEB_LOCKS_RIGHTS',
    'The user of the client lacks rights that locks need. Grant the user access to the keys and ' +
      'channels "{wl:*" (with your `prefix` before the brace, if you set one), and to the ' +
      'commands listed under "Rights" in docs/CLUSTER.md.',
  ],
  [
    /^(NOAUTH|WRONGPASS|DENIED)|invalid (username|password)|without any password/,
    'ERR_WEB_LOCKS_RIGHTS',
    'The server rejected the login. Check the user and the password of the client.',
  ],
  [
    beginsWith(
      "READONLY|MASTERDOWN|You can't write against a read only|Can not execute.* on a stale",
    ),
    'ERR_WEB_LOCKS_STANDBY',
    'The server is a replica, which cannot keep locks. Connect to the primary, or through ' +
      'Sentinel.',
  ],
  [
    beginsWith('NOREPLICAS'),
    'ERR_WEB_LOCKS_NOT_REPLICATED',
    'Too few replicas are attached, so the server rejects writes. The request is repeated.',
  ],
  [
    beginsWith('OOM'),
    'ERR_WEB_LOCKS_OUT_OF_MEMORY',
    'The server is out of memory: raise maxmemory.',
  ],
  [
    beginsWith('MOVED|ASK'),
    'ERR_WEB_LOCKS_CLUSTER',
    'The server is part of a cluster. Pass a cluster client: createCluster() or new Cluster().',
  ],
  [
    beginsWith('BUSY|MISCONF|Script killed by user|max number of clients'),
    'ERR_WEB_LOCKS_BUSY',
    'The server is temporarily rejecting requests. web-locks repeats the request.',
  ],
  [
    beginsWith('LOADING|CLUSTERDOWN|TRYAGAIN|Script attempted to (?:execute|access a non local)'),
    'ERR_WEB_LOCKS_UNREACHABLE',
    'The server is not ready yet. The request is repeated.',
  ],
];

const SERVER = 'ERR_WEB_LOCKS_SERVER';
const NO_TLS =
  'The TLS connection to the server failed. Check its certificate, and the TLS options of the ' +
  'client.';

/** The beginning of an error reply. */
const REPLY = /^[A-Z]{2,}\b/;

/** Adds a code and advice to an error that is not local. @param {any} error @returns {Error} */
function explain(error) {
  if (String(error?.code).startsWith('ERR_WEB_LOCKS_') || isLocal(error)) return error;
  const text = String(error?.message ?? error);
  if (isOfTls(error)) return plainError(`${NO_TLS} (${text})`, SERVER, { cause: error });
  // Names that users have chosen must not match a pattern, so they are removed.
  const said = text.replace(/(holds something else: |, with args beginning with: ).*/s, '');
  for (const [pattern, code, message] of BY_TEXT) {
    if (pattern.test(said)) return plainError(`${message} (${said})`, code, { cause: error });
  }
  return REPLY.test(text) && error?.syscall === undefined
    ? plainError(`Redis rejected the request: ${text}`, 'ERR_WEB_LOCKS_REDIS', { cause: error })
    : plainError(`Redis cannot be reached: ${text}`, 'ERR_WEB_LOCKS_UNREACHABLE', { cause: error });
}

/** @param {string} text the server's reason */
const failedError = (text) =>
  plainError(`Redis rejected the request: ${text}`, 'ERR_WEB_LOCKS_REDIS');

/**
 * If a cluster client does not know the node of a slot, it throws a TypeError, which must not count
 * as a local error. If the client cannot read the slots from any node, the reason is in a property
 * of its error (ioredis), or in `last`, the error of the latest `error` event (node-redis).
 * @param {any} error @param {unknown} last
 */
function explainOfCluster(error, last) {
  if (error?.lastNodeError) return explain(error.lastNodeError);
  if (last && /root nodes are unavailable/.test(error?.message)) return explain(last);
  return explain(error instanceof TypeError ? new Error(error.message, { cause: error }) : error);
}

module.exports = {
  noEchoError,
  evictionError,
  explain,
  explainOfCluster,
  failedError,
  missedStepError,
  noRunIdError,
  oldServerError,
  shardsError,
  strictError,
};
