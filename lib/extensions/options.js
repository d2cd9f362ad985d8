'use strict';

/**
 * Converts and checks the options of requests. OPTIONS describes each option and says which calls
 * accept it. The conversion is written out for speed; test/lib/options.test.js compares it, the
 * declarations, docs/OPTIONS.md and docs/API.md with OPTIONS.
 */

const { FOR_EVER } = require('../backend/contract.js');
const { argumentError, notSupportedError, typeError } = require('../platform/errors.js');
const { checkOptions } = require('../standard/lock-manager.js');
const {
  defaultOptions: standardDefaults,
  describe,
  rejectUnknownOptions,
  toDOMString,
  toLockOptions,
} = require('../standard/webidl.js');

const { freeze, keys } = Object;

/** @typedef {keyof typeof CALLS} Kind a kind of call */
/** @typedef {'process' | 'host' | 'cluster'} Scope */

/**
 * The options that the specification lacks, after conversion; times are in milliseconds.
 * @typedef {{ blocking: boolean | undefined, deadlock: 'reject' | undefined,
 *   holdTimeout: number | undefined, keep: number | undefined, label: string | undefined,
 *   limit: number | undefined, maxPending: number | undefined, maxTotal: number | undefined,
 *   priority: number, reentrant: boolean, timeout: number | undefined,
 *   warnAfter: number | undefined, weight: number | undefined }} Extensions
 */
/** @typedef {Readonly<import('../standard/webidl.js').LockOptions & Extensions>} RequestOptions */

/** The calls of each kind, which accept the same options. */
const CALLS = freeze({
  request: [operationName('request'), operationName('acquire')],
  several: [operationName('requestAll'), operationName('acquireAll')],
  acquireSync: [operationName('acquireSync')],
  tryAcquireSync: [operationName('tryAcquireSync')],
  elect: [operationName('elect')],
  once: [operationName('once')],
  mutex: [
    operationName('acquire', 'Mutex'),
    operationName('runExclusive', 'Mutex'),
    operationName('acquireShared', 'RWLock'),
    operationName('acquireExclusive', 'RWLock'),
    operationName('runShared', 'RWLock'),
    operationName('runExclusive', 'RWLock'),
  ],
  tryMutex: [operationName('tryAcquire', 'Mutex')],
  semaphore: [operationName('acquire', 'Semaphore'), operationName('run', 'Semaphore')],
  trySemaphore: [operationName('tryAcquire', 'Semaphore')],
  wait: [operationName('waitForUnlock', 'Mutex')],
});

/** @param {string} method @param {string} [of] */
function operationName(method, of = 'LockManager') {
  return `'${method}' on '${of}'`;
}

/** @type {Readonly<Record<Kind, readonly Scope[]>>} */
const SCOPES_OF_CALLS = freeze({
  request: ['process', 'host', 'cluster'],
  several: ['process', 'host', 'cluster'],
  // A cluster's answers come through the event loop, which a blocked thread does not run.
  acquireSync: ['process', 'host'],
  tryAcquireSync: ['process', 'host'],
  elect: ['process', 'host', 'cluster'],
  once: ['process', 'host', 'cluster'],
  mutex: ['process', 'host', 'cluster'],
  tryMutex: ['process', 'host', 'cluster'],
  semaphore: ['process', 'host', 'cluster'],
  trySemaphore: ['process', 'host', 'cluster'],
  wait: ['process', 'host', 'cluster'],
});

/** @type {readonly Kind[]} */
const SYNC = ['acquireSync', 'tryAcquireSync'];
/** @type {readonly Kind[]} */
const OBJECTS = ['mutex', 'tryMutex', 'semaphore', 'trySemaphore'];
/** Calls that wait for a lock but cannot choose how it is held. @type {readonly Kind[]} */
const WAITS = ['elect', 'once', 'wait'];

/**
 * @typedef {object} Option
 * @property {string} does what the option does, for docs/API.md
 * @property {readonly Kind[]} calls the kinds of calls that accept it; all others refuse it
 * @property {readonly Scope[]} [scopes] the scopes that have it, if not all do
 * @property {readonly string[]} [not] options that exclude it
 * @property {string} [needs] what the option requires, in the words of docs/API.md
 * @property {true} [isStandard] whether the specification has it
 * @property {true} [isForBackend] whether the backend reads it: see Requester
 */

/** @type {Readonly<Record<keyof RequestOptions, Option>>} */
const OPTIONS = freeze({
  ifAvailable: {
    does: 'does not wait: the lock is `null` if it is not free',
    calls: ['request', 'several', 'mutex', 'semaphore'],
    not: ['steal', 'signal', 'timeout', 'blocking'],
    isStandard: true,
  },
  mode: {
    does: "`'exclusive'` (default) or `'shared'`",
    calls: ['request', 'several', ...SYNC],
    isStandard: true,
  },
  signal: {
    does: 'ends the wait when the signal is aborted',
    calls: ['request', 'several', ...WAITS, 'mutex', 'semaphore'],
    not: ['ifAvailable', 'steal'],
    isStandard: true,
  },
  steal: {
    does: 'takes the lock away from its holders',
    calls: ['request'],
    not: ['ifAvailable', 'signal', 'timeout', 'limit', 'priority'],
    needs: "`mode: 'exclusive'`",
    isStandard: true,
  },
  blocking: {
    does: '`false`: rejects with a `LockError` if the lock is not free',
    calls: ['mutex', 'semaphore'],
    not: ['ifAvailable'],
  },
  deadlock: {
    does: "`'reject'`: rejects if waiting would be a deadlock",
    calls: ['request', 'several', ...WAITS, ...OBJECTS],
    scopes: ['process'],
  },
  holdTimeout: {
    does: 'limits how long the lock is held; milliseconds',
    calls: ['request', 'several', ...SYNC, ...OBJECTS],
  },
  keep: {
    does: 'the time in which no other caller runs; milliseconds, required',
    calls: ['once'],
  },
  label: {
    does: 'says what the request is for, in details, errors and warnings',
    calls: ['request', 'several', ...SYNC, ...WAITS, ...OBJECTS],
    isForBackend: true,
  },
  limit: {
    does: 'limits how many units of the name can be held at once',
    calls: ['request', 'several', ...SYNC],
    not: ['steal'],
    needs: "`mode: 'shared'`",
    isForBackend: true,
  },
  maxPending: {
    does: 'limits the length of the queue that the request joins',
    calls: ['request', 'several', ...SYNC, ...WAITS, ...OBJECTS],
    isForBackend: true,
  },
  maxTotal: {
    does: 'limits the wait and the hold together; milliseconds',
    calls: ['request', 'several', 'acquireSync', 'mutex', 'semaphore'],
  },
  priority: {
    does: 'waits ahead of requests with a lower priority; 0 by default',
    calls: ['request', 'several', ...SYNC, ...WAITS, ...OBJECTS],
    not: ['steal'],
    isForBackend: true,
  },
  reentrant: {
    does: 'lets the holder acquire the lock again',
    calls: ['request', 'several', ...SYNC, ...OBJECTS],
  },
  timeout: {
    does: 'limits the wait; milliseconds',
    calls: ['request', 'several', 'acquireSync', 'once', 'wait', 'mutex', 'semaphore'],
    not: ['steal', 'ifAvailable'],
  },
  warnAfter: {
    does: 'warns if the wait or the hold takes longer; milliseconds',
    calls: ['request', 'several', ...SYNC, ...WAITS, ...OBJECTS],
  },
  weight: {
    does: 'the number of units that the lock takes; 1 by default',
    calls: ['request', 'several', ...SYNC, 'semaphore', 'trySemaphore'],
    needs: '`limit`',
    isForBackend: true,
  },
});

/**
 * Reads the standard options first, so that a getter of another option cannot change them. No other
 * members are read, as WebIDL requires for dictionaries.
 * @param {any} value @param {string} operation @param {(signal: any) => boolean} [isAbortSignal]
 * @returns {RequestOptions}
 */
function toOptions(value, operation, isAbortSignal) {
  const standard = toLockOptions(value, operation, isAbortSignal);
  if (standard === standardDefaults) return defaultOptions;
  const { ifAvailable, mode, signal, steal } = standard;
  return {
    ifAvailable,
    mode,
    signal,
    steal,
    blocking: toBlocking(value.blocking),
    deadlock: toDeadlock(value.deadlock, operation),
    holdTimeout: toPositiveMilliseconds(value.holdTimeout, operation, "The 'holdTimeout' option"),
    keep: toKeep(value.keep, operation),
    label: toLabel(value.label, operation),
    limit: toCount(value.limit, 1, operation, "The 'limit' option"),
    maxPending: toCount(value.maxPending, 0, operation, "The 'maxPending' option"),
    maxTotal: toPositiveMilliseconds(value.maxTotal, operation, "The 'maxTotal' option"),
    priority: toPriority(value.priority, operation),
    reentrant: Boolean(value.reentrant),
    timeout: toMilliseconds(value.timeout, operation, "The 'timeout' option"),
    warnAfter: toMilliseconds(value.warnAfter, operation, "The 'warnAfter' option"),
    weight: toCount(value.weight, 1, operation, "The 'weight' option"),
  };
}

/** @param {any} value */
const toBlocking = (value) => (value === undefined ? undefined : Boolean(value));

/** @param {any} value @param {string} operation @returns {'reject' | undefined} */
function toDeadlock(value, operation) {
  if (value === undefined || value === 'reject') return value;
  throw typeError(operation, `The 'deadlock' option is ${describe(value)}; expected 'reject'.`);
}

/** @param {any} value @param {string} operation @param {string} what */
function toPositiveMilliseconds(value, operation, what) {
  const limit = toMilliseconds(value, operation, what);
  if (limit !== 0) return limit;
  throw typeError(operation, `${what} is 0; expected more than 0 milliseconds.`);
}

/** @param {any} value @param {string} operation @returns {number | undefined} */
function toKeep(value, operation) {
  if (value === undefined) return undefined;
  if (value === Number.POSITIVE_INFINITY) return FOR_EVER;
  if (typeof value === 'number' && value > 0 && value <= FOR_EVER) return value;
  const wanted = 'Infinity, or more than 0 milliseconds and at most 100 years';
  throw typeError(operation, `The 'keep' option is ${describe(value)}; expected ${wanted}.`);
}

/** @param {any} value @param {string} operation @returns {string | undefined} */
const toLabel = (value, operation) =>
  value === undefined ? undefined : toDOMString(value, operation, "The 'label' option");

/** The maximum of counts and priorities. */
const MOST = 2 ** 31 - 1;

const LEAST_PRIORITY = -(2 ** 31);

/** @param {any} value @param {number} least @param {string} operation @param {string} what */
function toCount(value, least, operation, what) {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value >= least && value <= MOST && value % 1 === 0) return value;
  const wanted = `a whole number from ${least} to 2^31 - 1`;
  throw typeError(operation, `${what} is ${describe(value)}; expected ${wanted}.`);
}

/** @param {any} value @param {string} operation @returns {number} */
function toPriority(value, operation) {
  if (value === undefined) return 0;
  // The `| 0` turns -0 into 0.
  if (typeof value === 'number' && value >= LEAST_PRIORITY && value <= MOST && value % 1 === 0)
    return value | 0;
  const wanted = 'a whole number from -2^31 to 2^31 - 1';
  throw typeError(operation, `The 'priority' option is ${describe(value)}; expected ${wanted}.`);
}

/** @param {any} value @param {string} operation @param {string} what */
function toMilliseconds(value, operation, what) {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value >= 0 && value < Number.POSITIVE_INFINITY) return value;
  throw typeError(operation, `${what} is ${describe(value)}; expected a number of milliseconds.`);
}

/** Checks that the options fit together. @param {RequestOptions} options */
function checkRequest(options) {
  checkOptions(options);
  if (options.limit !== undefined || options.weight !== undefined) checkUnits(options);
  const { blocking, ifAvailable, priority, steal, timeout } = options;
  if (blocking !== undefined && ifAvailable) {
    throw argumentError(
      "The 'blocking' and 'ifAvailable' options cannot be used together: for a lock that is not " +
        "free, 'blocking: false' rejects and 'ifAvailable' gives null.",
    );
  }
  if (steal && priority !== 0) {
    throw notSupportedError("The 'priority' and 'steal' options cannot be used together.");
  }
  if (timeout === undefined || !(steal || ifAvailable)) return;
  throw notSupportedError(
    `The 'timeout' and '${steal ? 'steal' : 'ifAvailable'}' options cannot be used together.`,
  );
}

/** @param {RequestOptions} options */
function checkUnits({ limit, mode, weight = 1 }) {
  if (limit === undefined) throw argumentError("The 'weight' option needs a 'limit'.");
  if (mode !== 'shared') throw argumentError("The 'limit' option needs the mode 'shared'.");
  if (weight > limit) {
    throw argumentError(
      `The 'weight' option is ${weight}; expected at most the 'limit', which is ${limit}.`,
    );
  }
}

/** The options that calls of each kind accept, and the options that they refuse. */
const TAKEN = /** @type {Record<Kind, (keyof RequestOptions)[]>} */ ({});
const REFUSED = /** @type {Record<Kind, (keyof RequestOptions)[]>} */ ({});
for (const kind of /** @type {Kind[]} */ (keys(CALLS))) {
  const names = /** @type {(keyof RequestOptions)[]} */ (keys(OPTIONS));
  TAKEN[kind] = names.filter((name) => OPTIONS[name].calls.includes(kind));
  REFUSED[kind] = names.filter((name) => !OPTIONS[name].calls.includes(kind));
}

const defaultOptions = freeze(toOptions({}, ''));

/** @param {RequestOptions} options @param {Kind} kind @param {string} operation */
function refuseOthers(options, kind, operation) {
  const names = REFUSED[kind];
  for (let i = 0; i < names.length; i++) {
    if (options[names[i]] === defaultOptions[names[i]]) continue;
    throw notSupportedError(`The '${names[i]}' option cannot be used with ${operation}.`);
  }
}

/** @param {RequestOptions} options @param {string} operation */
function requireKeep({ keep }, operation) {
  if (keep !== undefined) return;
  throw typeError(operation, "'keep' is missing; expected a number of milliseconds, or Infinity.");
}

/**
 * Checks options that a later call of `once` will get. Unlike that call, it refuses options that no
 * call has.
 * @param {any} value @param {string} operation
 */
function checkOnceOptions(value, operation) {
  const options = toOptions(value, operation);
  rejectUnknownOptions(value, keys(OPTIONS), operation);
  refuseOthers(options, 'once', operation);
  requireKeep(options, operation);
  checkRequest(options);
}

/**
 * Checks options of which `timeout` is the only one.
 * @param {any} value @param {string} operation
 */
function checkTimeoutOptions(value, operation) {
  if (value === undefined) return;
  if (typeof value !== 'object' || value === null)
    throw typeError(operation, `'options' is ${describe(value)}; expected an object.`);
  rejectUnknownOptions(value, ['timeout'], operation);
  toMilliseconds(value.timeout, operation, "The 'timeout' option");
}

module.exports = {
  CALLS,
  LEAST_PRIORITY,
  OPTIONS,
  SCOPES_OF_CALLS,
  TAKEN,
  checkOnceOptions,
  checkRequest,
  checkTimeoutOptions,
  defaultOptions,
  operationName,
  refuseOthers,
  requireKeep,
  toCount,
  toOptions,
};
