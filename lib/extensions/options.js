'use strict';

/**
 * The options of requests, each described once: OPTIONS. What differs from call to call is derived
 * from that: the defaults, what a call refuses, what the classes of locks take. The conversion is
 * written out for speed, one line an option. Tests compare it, the declarations and docs/API.md
 * with OPTIONS (test/lib/options.test.js).
 */

const { argumentError, notSupportedError, typeError } = require('../platform/errors.js');
const { checkOptions } = require('../standard/lock-manager.js');
const {
  defaultOptions: standardDefaults,
  describe,
  toDOMString,
  toLockOptions,
} = require('../standard/webidl.js');

const { freeze, keys } = Object;

/** @typedef {keyof typeof CALLS} Kind a kind of call */
/** @typedef {'process' | 'host' | 'cluster'} Scope what shares the locks */

/**
 * What options are converted to.
 * @typedef {object} Extensions
 * @property {boolean | undefined} blocking
 * @property {'reject' | undefined} deadlock
 * @property {number | undefined} holdTimeout milliseconds
 * @property {number | undefined} keep milliseconds
 * @property {string | undefined} label
 * @property {number | undefined} limit
 * @property {number | undefined} maxPending
 * @property {number | undefined} maxTotal milliseconds
 * @property {number} priority
 * @property {boolean} reentrant
 * @property {number | undefined} timeout milliseconds
 * @property {number | undefined} warnAfter milliseconds
 * @property {number | undefined} weight
 */
/** @typedef {Readonly<import('../standard/webidl.js').LockOptions & Extensions>} RequestOptions */

/** The calls that take options of requests. Calls of a kind take the same options. */
const CALLS = freeze({
  request: [on('request'), on('acquire')],
  several: [on('requestAll'), on('acquireAll')],
  acquireSync: [on('acquireSync')],
  tryAcquireSync: [on('tryAcquireSync')],
  elect: [on('elect')],
  once: [on('once')],
  mutex: [
    on('acquire', 'Mutex'),
    on('runExclusive', 'Mutex'),
    on('acquireShared', 'RWLock'),
    on('acquireExclusive', 'RWLock'),
    on('runShared', 'RWLock'),
    on('runExclusive', 'RWLock'),
  ],
  tryMutex: [on('tryAcquire', 'Mutex')],
  semaphore: [on('acquire', 'Semaphore'), on('run', 'Semaphore')],
  trySemaphore: [on('tryAcquire', 'Semaphore')],
  wait: [on('waitForUnlock', 'Mutex')],
});

/**
 * @param {string} method
 * @param {string} [of] its class
 * @returns {string} for messages
 */
function on(method, of = 'LockManager') {
  return `'${method}' on '${of}'`;
}

/** @type {Readonly<Record<Kind, readonly Scope[]>>} */
const SCOPES_OF_CALLS = freeze({
  request: ['process', 'host', 'cluster'],
  several: ['process', 'host', 'cluster'],
  // A thread cannot block for what only its event loop hears.
  acquireSync: ['process', 'host'],
  tryAcquireSync: ['process', 'host'],
  elect: ['process', 'host', 'cluster'],
  // A segment has no room for the marks of names that nobody uses.
  once: ['process', 'cluster'],
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
/** @type {readonly Kind[]} Those that wait for a lock, and do not say how it is held. */
const WAITS = ['elect', 'once', 'wait'];

/**
 * @typedef {object} Option
 * @property {string} does what it does, for docs/API.md
 * @property {readonly Kind[]} calls that take it. Others refuse it: none is silently left out
 * @property {readonly Scope[]} [scopes] where it can be had, if not everywhere
 * @property {readonly string[]} [notIn] engines that have not got it, of a cluster's
 * @property {readonly string[]} [not] options that it cannot be given together with
 * @property {string} [needs] what has to be given as well, as docs/API.md says it
 * @property {true} [isStandard] of the specification
 * @property {true} [isForBackend] the backend looks at it, and not only at what follows from it:
 *   see Requester
 */

/** @type {Readonly<Record<keyof RequestOptions, Option>>} */
const OPTIONS = freeze({
  ifAvailable: {
    does: 'does not wait: there is no lock (`null`) if it is not free',
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
    does: 'ends the wait when it is aborted',
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
    does: '`false`: rejects with a `LockError` if it is not free',
    calls: ['mutex', 'semaphore'],
    not: ['ifAvailable'],
  },
  deadlock: {
    does: "`'reject'`: rejects if the request would wait for itself",
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
    does: 'names the purpose in details, errors and warnings',
    calls: ['request', 'several', ...SYNC, ...WAITS, ...OBJECTS],
    isForBackend: true,
  },
  limit: {
    does: 'limits the units of the name that are held at a time',
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
    does: 'higher ones wait ahead of lower ones; 0 by default',
    calls: ['request', 'several', ...SYNC, ...WAITS, ...OBJECTS],
    notIn: ['etcd'],
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
    does: 'the number of units that it takes; 1 by default',
    calls: ['request', 'several', ...SYNC, 'semaphore', 'trySemaphore'],
    needs: '`limit`',
    isForBackend: true,
  },
});

/**
 * Like `toLockOptions`. Ours come after the standard's members, whose reading they must not change;
 * what is neither is not read, as of any WebIDL dictionary.
 * @param {any} value
 * @param {string} operation for the messages
 * @param {(signal: any) => boolean} [isAbortSignal]
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
    holdTimeout: toLimit(value.holdTimeout, operation, "The 'holdTimeout' option"),
    keep: toKeep(value.keep, operation),
    label: toLabel(value.label, operation),
    limit: toCount(value.limit, 1, operation, "The 'limit' option"),
    maxPending: toCount(value.maxPending, 0, operation, "The 'maxPending' option"),
    maxTotal: toLimit(value.maxTotal, operation, "The 'maxTotal' option"),
    priority: toPriority(value.priority, operation),
    reentrant: Boolean(value.reentrant),
    timeout: toMilliseconds(value.timeout, operation, "The 'timeout' option"),
    warnAfter: toMilliseconds(value.warnAfter, operation, "The 'warnAfter' option"),
    weight: toCount(value.weight, 1, operation, "The 'weight' option"),
  };
}

/** @param {any} value */
const toBlocking = (value) => (value === undefined ? undefined : Boolean(value));

/**
 * @param {any} value
 * @param {string} operation for the message
 * @returns {'reject' | undefined}
 */
function toDeadlock(value, operation) {
  if (value === undefined || value === 'reject') return value;
  throw typeError(operation, `The 'deadlock' option is ${describe(value)}, not 'reject'.`);
}

/**
 * @param {any} value
 * @param {string} operation for the message
 * @param {string} what the argument is, for the message
 */
function toLimit(value, operation, what) {
  const limit = toMilliseconds(value, operation, what);
  if (limit !== 0) return limit;
  throw typeError(operation, `${what} is 0; expected more than 0 milliseconds.`);
}

/** The longest time that a mark is kept, in milliseconds: 100 years. */
const LONGEST_KEEP = 100 * 365.25 * 86_400_000;

/**
 * @param {any} value
 * @param {string} operation for the message
 * @returns {number | undefined}
 */
function toKeep(value, operation) {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value > 0 && value <= LONGEST_KEEP) return value;
  const wanted = 'a number of milliseconds, more than 0 and at most 100 years';
  throw typeError(operation, `The 'keep' option is ${describe(value)}, not ${wanted}.`);
}

/**
 * @param {any} value
 * @param {string} operation for the message
 * @returns {string | undefined}
 */
const toLabel = (value, operation) =>
  value === undefined ? undefined : toDOMString(value, operation, "The 'label' option");

/** The most that a count, or a priority, can be. */
const MOST = 2 ** 31 - 1;

/** The least that a priority can be: it is behind all. */
const LEAST_PRIORITY = -(2 ** 31);

/**
 * @param {any} value
 * @param {number} least
 * @param {string} operation for the message
 * @param {string} what the argument is, for the message
 * @returns {number | undefined} a whole number from `least` to MOST, or undefined
 */
function toCount(value, least, operation, what) {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value >= least && value <= MOST && value % 1 === 0) return value;
  const wanted = `a whole number from ${least} to 2^31 - 1`;
  throw typeError(operation, `${what} is ${describe(value)}, not ${wanted}.`);
}

/**
 * @param {any} value
 * @param {string} operation for the message
 * @returns {number} of 32 bits; 0 if it is not given
 */
function toPriority(value, operation) {
  if (value === undefined) return 0;
  // Also of -0.
  if (typeof value === 'number' && value >= LEAST_PRIORITY && value <= MOST && value % 1 === 0)
    return value | 0;
  const wanted = 'a whole number from -2^31 to 2^31 - 1';
  throw typeError(operation, `The 'priority' option is ${describe(value)}, not ${wanted}.`);
}

/**
 * @param {any} value
 * @param {string} operation for the message
 * @param {string} what the argument is, for the message
 * @returns {number | undefined} not negative and finite, or undefined
 */
function toMilliseconds(value, operation, what) {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value >= 0 && value < Number.POSITIVE_INFINITY) return value;
  throw typeError(operation, `${what} is ${describe(value)}, not a number of milliseconds.`);
}

/**
 * Options that fit together, as the standard's `checkOptions`.
 * @param {RequestOptions} options
 */
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

/** The names of the options that calls of a kind take, and of those that they refuse, by kind. */
const TAKEN = /** @type {Record<Kind, (keyof RequestOptions)[]>} */ ({});
const REFUSED = /** @type {Record<Kind, (keyof RequestOptions)[]>} */ ({});
for (const kind of /** @type {Kind[]} */ (keys(CALLS))) {
  const names = /** @type {(keyof RequestOptions)[]} */ (keys(OPTIONS));
  TAKEN[kind] = names.filter((name) => OPTIONS[name].calls.includes(kind));
  REFUSED[kind] = names.filter((name) => !OPTIONS[name].calls.includes(kind));
}

/** What undefined is converted to. */
const defaultOptions = freeze(toOptions({}, ''));

/**
 * Refuses what a call cannot do: an option of ours is never left out without a word.
 * @param {RequestOptions} options
 * @param {Kind} kind of the call
 * @param {string} operation for the message
 */
function refuseOthers(options, kind, operation) {
  const names = REFUSED[kind];
  for (let i = 0; i < names.length; i++) {
    if (options[names[i]] === defaultOptions[names[i]]) continue;
    throw notSupportedError(`The '${names[i]}' option cannot be used with ${operation}.`);
  }
}

module.exports = {
  CALLS,
  LEAST_PRIORITY,
  OPTIONS,
  SCOPES_OF_CALLS,
  TAKEN,
  checkRequest,
  defaultOptions,
  on,
  refuseOthers,
  toCount,
  toOptions,
};
