'use strict';

/** The errors of the PostgreSQL adapter, with codes and advice, and their meanings. */

const { isLocal, isOfTls, meaningOf } = require('../errors.js');
const { capitalize, plainError, quote, withCode } = require('../../../platform/errors.js');
const { describeLock } = require('../../../platform/names.js');

const NO_TABLES = 'ERR_WEB_LOCKS_NO_TABLES';

/**
 * SQLSTATEs of errors that go away by themselves or with a new connection: the connection ended or
 * is not accepted now, the statement was cancelled or met a deadlock, the server is a standby, or
 * the disk is full.
 */
const PASSING = /^(08|40|53(?!200)|57|58|25006|26000|55006|55P03)/;

/**
 * The only error "feature not supported" that goes away: the tables of a prepared statement were
 * created again.
 */
const OTHER_PLAN = /cached plan must not change result type/;

/** Whether the server sent the error. @param {any} error of pg */
const isOfServer = (error) => typeof error?.severity === 'string';

/** @param {any} error of this file @returns {import('../../adapter.js').Meaning} */
function classify(error) {
  const known = meaningOf(error);
  if (known) return known;
  const cause = error?.cause;
  if (isOfServer(cause)) {
    const isPassing = PASSING.test(cause.code) || OTHER_PLAN.test(cause.message);
    return isPassing ? 'retry' : 'refused';
  }
  return isLocal(cause ?? error) ? 'local' : 'retry';
}

const POOLER =
  'a pooler such as pgbouncer, in transaction or statement mode, is between web-locks and ' +
  'PostgreSQL';
const DIRECTLY =
  'Pass `openBucket` the option `listen`: a Pool of pg, or a `sql` of postgres.js, that connects ' +
  'to the server directly, or through a pooler in session mode.';

const noNotifyError = () =>
  plainError(
    `No NOTIFY arrives through this pool: ${POOLER}. ${DIRECTLY} The bucket then uses one ` +
      'client of that pool for everything.',
    'ERR_WEB_LOCKS_NO_NOTIFY',
  );

/** @param {any} pool */
const exhaustedError = (pool) =>
  plainError(
    `All ${pool.options?.max ?? ''} clients of the pool are in use, and a bucket needs one for ` +
      'itself. Raise `max`, or release clients sooner.',
    'ERR_WEB_LOCKS_POOL_EXHAUSTED',
  );

const smallPoolError = () =>
  withCode(
    new TypeError(
      'The `max` of the pool is less than 2. A bucket keeps one client for itself, so your own ' +
        'queries would get none: raise `max`, or pass a separate pool as `listen`.',
    ),
    'ERR_WEB_LOCKS_POOL_TOO_SMALL',
  );

const endedPoolError = () =>
  plainError('The pool was ended. Close a bucket before its pool.', 'ERR_WEB_LOCKS_POOL_ENDED');

const standbyError = () =>
  plainError(
    'The server is a standby, which cannot keep locks. Connect to the primary.',
    'ERR_WEB_LOCKS_STANDBY',
  );

const notReplicatedError = () =>
  plainError(
    'The server answered without waiting for its synchronous standby, so a promotion may lose ' +
      'the change. The request is repeated.',
    'ERR_WEB_LOCKS_NOT_REPLICATED',
  );

/** @param {string} schema @param {string} problem @param {string} what must be the same */
const schemaError = (schema, problem, what) =>
  plainError(
    `The schema "${schema}" ${problem}. Use the same ${what} in all clients of the schema, or ` +
      'another schema (option `schema`).',
    'ERR_WEB_LOCKS_SCHEMA',
  );

/** @param {string} schema */
const noTablesError = (schema) =>
  plainError(
    `The tables of the schema "${schema}" were dropped or emptied. They are created again.`,
    NO_TABLES,
  );

/** @param {any} error */
const lacksTables = (error) => error?.code === NO_TABLES;

/** @param {string} version */
const oldServerError = (version) =>
  plainError(`PostgreSQL ${version} is too old: 13 or newer is needed.`, 'ERR_WEB_LOCKS_SERVER');

/** Explains an error of a server that may not be PostgreSQL. @param {any} error @returns {Error} */
function examinedError(error) {
  const isForeign = /^(42|0A)/.test(error?.cause?.code) && error.code !== 'ERR_WEB_LOCKS_RIGHTS';
  if (!isForeign) return error;
  return plainError(
    'The server is not PostgreSQL, or lacks a feature of PostgreSQL: ' +
      `${error.cause.message}. Connect to PostgreSQL 13 or newer.`,
    'ERR_WEB_LOCKS_SERVER',
    { cause: error.cause },
  );
}

const BUSY = 'ERR_WEB_LOCKS_BUSY';

/** @param {string} isolation of the user's transaction */
const oldSnapshotError = (isolation) =>
  plainError(
    `lock.guard() cannot see the lock: the transaction is ${isolation.toUpperCase()}, and its ` +
      'snapshot is older than the lock. Begin the transaction after the grant, or as READ ' +
      'COMMITTED. The lock is still held.',
    'ERR_WEB_LOCKS_ISOLATION',
  );

/**
 * @typedef {object} Guard a user's transaction that guards a lock
 * @property {string} name the name of the lock
 * @property {string | null} ref the ref of the lock if this session holds it
 * @property {string} pid the process id of the server process that runs the transaction
 * @property {string} application '' for none
 * @property {string | null} seconds since the transaction began; null if the role may not see that
 */

/** @param {Guard} [guard] undefined if it was not found */
function guardedError(guard) {
  if (!guard)
    return plainError(
      'A transaction guards the lock (lock.guard()): nobody else gets it before its end.',
      BUSY,
    );
  const { application, name, pid, seconds } = guard;
  const since = seconds === null ? '' : ` that has been open for ${seconds} s`;
  return plainError(
    `${capitalize(describeLock(name))} is guarded by a transaction${since}, in ` +
      `server process ${pid}${application && ` (${quote(application)})`}. Nobody else gets the ` +
      'lock until the transaction ends: commit it, or end it with pg_terminate_backend.',
    BUSY,
  );
}

/** @typedef {[code: string, message: string]} Advice */

/** @type {Advice} */
const REFUSED = [
  'ERR_WEB_LOCKS_RIGHTS',
  'The server rejected the login. Check the user, the password, and pg_hba.conf.',
];
/** @type {Advice} */
const NO_DATABASE = [
  'ERR_WEB_LOCKS_DATABASE',
  'The server has no such database. Create the database, or connect to another one.',
];
/** @type {Advice} */
const NO_TLS = [
  'ERR_WEB_LOCKS_SERVER',
  'The TLS connection to the server failed. Check its certificate, and the option `ssl` of the ' +
    'pool.',
];

/** @type {[RegExp, Advice][]} for errors of pg and pgbouncer whose codes explain nothing */
const BY_TEXT = [
  [/^SASL: .*password must be/, REFUSED],
  [/^(no such database|bouncer config error)/, NO_DATABASE],
  [/^The server does not support SSL|establishing an SSL connection/, NO_TLS],
];

/** By SQLSTATE; see `adviceOf` for those that name the schema. @type {Record<string, Advice>} */
const BY_STATE = {
  // invalid_password, invalid_authorization_specification
  '28P01': REFUSED,
  28000: REFUSED,
  // invalid_catalog_name
  '3D000': NO_DATABASE,
  WL001: [
    'ERR_WEB_LOCKS_ISOLATION',
    'Transactions of this connection are not READ COMMITTED, although web-locks has set that ' +
      `for the connection: ${POOLER}. ${DIRECTLY}`,
  ],
  // read_only_sql_transaction: the primary was demoted, or the role is read only.
  25006: [
    'ERR_WEB_LOCKS_STANDBY',
    'The server or the role is read-only, so web-locks cannot change locks. Connect to the ' +
      'primary, with a role that may write.',
  ],
  53300: [
    'ERR_WEB_LOCKS_UNREACHABLE',
    'The server has no connections left: raise max_connections, or lower the `max` of your pools.',
  ],
  // lock_not_available, query_canceled
  '55P03': [
    BUSY,
    'Another transaction has locked rows or tables of web-locks for too long. pg_locks lists its ' +
      'process.',
  ],
  57014: [
    BUSY,
    'The server canceled a web-locks statement: the statement exceeded `statement_timeout`, or ' +
      'somebody called pg_cancel_backend.',
  ],
};

/** SQLSTATEs: invalid_schema_name, undefined_table, undefined_function, and one of sql/. */
const MISSING = ['3F000', '42P01', '42883', 'WL002'];
const INSUFFICIENT_PRIVILEGE = '42501';

/** @param {any} error @param {string} schema @returns {Advice | undefined} */
function adviceOf(error, schema) {
  const { code, message } = Object(error);
  if (MISSING.includes(code)) return [NO_TABLES, noTablesError(schema).message];
  if (code === INSUFFICIENT_PRIVILEGE) {
    return [
      'ERR_WEB_LOCKS_RIGHTS',
      `The database user lacks the privileges to use or create the schema "${schema}". Ask an ` +
        'administrator to run the SQL and the GRANTs of docs/CLUSTER.md.',
    ];
  }
  if (BY_STATE[code]) return BY_STATE[code];
  return isOfTls(error) ? NO_TLS : BY_TEXT.find(([is]) => is.test(String(message)))?.[1];
}

/**
 * Adds a code and advice to an error, unless it has a code of this library.
 * @param {any} error @param {string} schema @returns {Error}
 */
function explain(error, schema) {
  if (String(error?.code).startsWith('ERR_WEB_LOCKS_')) return error;
  const known = adviceOf(error, schema);
  if (known) return plainError(`${known[1]} (${error.message})`, known[0], { cause: error });
  const [what, code] =
    isOfServer(error) && !/^(57P|08)/.test(error.code)
      ? ['PostgreSQL rejected the request', 'ERR_WEB_LOCKS_POSTGRES']
      : isLocal(error)
        ? ['The request cannot be sent to PostgreSQL', 'ERR_WEB_LOCKS_POSTGRES']
        : ['PostgreSQL cannot be reached', 'ERR_WEB_LOCKS_UNREACHABLE'];
  return plainError(`${what}: ${error?.message ?? error}`, code, { cause: error });
}

module.exports = {
  classify,
  endedPoolError,
  examinedError,
  exhaustedError,
  explain,
  guardedError,
  lacksTables,
  noNotifyError,
  noTablesError,
  notReplicatedError,
  oldServerError,
  oldSnapshotError,
  schemaError,
  smallPoolError,
  standbyError,
};
