'use strict';

/** All calls of the API, with values of all options, for options.test.js and programs.js. */

const { CALLS } = require('../../lib/extensions/options.js');

const PERMITS = 3;

const EXCLUSIVE = { mode: 'exclusive' };
const SHARED = { mode: 'shared' };
const UNITS = { ...SHARED, limit: PERMITS };
const AT_ONCE = { ifAvailable: true };

/** The calls: their kind in the table of options, how they give the lock, and fixed options. */
const KINDS = Object.fromEntries(
  [
    ['request', 'request', 'callback'],
    ['acquire', 'request', 'handle'],
    ['requestAll', 'several', 'callback'],
    ['acquireAll', 'several', 'handle'],
    ['acquireSync', 'acquireSync', 'sync'],
    ['tryAcquireSync', 'tryAcquireSync', 'sync', AT_ONCE],
    ['elect', 'elect', 'callback'],
    ['once', 'once', 'callback'],
    ['Mutex.acquire', 'mutex', 'handle', EXCLUSIVE],
    ['Mutex.runExclusive', 'mutex', 'callback', EXCLUSIVE],
    ['RWLock.acquireShared', 'mutex', 'handle', SHARED],
    ['RWLock.acquireExclusive', 'mutex', 'handle', EXCLUSIVE],
    ['RWLock.runShared', 'mutex', 'callback', SHARED],
    ['RWLock.runExclusive', 'mutex', 'callback', EXCLUSIVE],
    ['Mutex.tryAcquire', 'tryMutex', 'handle', AT_ONCE],
    ['Semaphore.acquire', 'semaphore', 'handle', UNITS],
    ['Semaphore.run', 'semaphore', 'callback', UNITS],
    ['Semaphore.tryAcquire', 'trySemaphore', 'handle', { ...UNITS, ...AT_ONCE }],
    ['Mutex.waitForUnlock', 'wait', 'wait'],
  ].map(([name, as, form, fixed]) => [name, { as, form, fixed, several: as === 'several' }]),
);

/** Times are multiples of 100 ms, warnings between them, so no two things happen at once. */
const VALUES = {
  ifAvailable: [true, true, false],
  mode: ['shared', 'shared', 'exclusive'],
  /** The numbers of signals; the last one never aborts. */
  signal: [0, 1, 2, 3],
  steal: [true, true, false],
  blocking: [false, false, true],
  deadlock: ['reject'],
  holdTimeout: [100, 200, 200, 300, 0],
  keep: [600_000],
  label: ['label'],
  limit: [3, 3, 2],
  maxPending: [0, 1, 2],
  maxTotal: [100, 200, 200, 400],
  priority: [-1, 1, 2, 0],
  reentrant: [true],
  timeout: [0, 200, 300],
  warnAfter: [150, 350],
  weight: [1, 2, 2, 4],
};

/** @returns the Mutex, RWLock or Semaphore that a call is a method of */
function objectOf(library, kind, name, locks) {
  const [Class, method] = kind.split('.');
  const more = Class === 'Semaphore' ? { permits: PERMITS } : {};
  return method && new library[Class](name, { locks, ...more });
}

/**
 * Makes a call.
 * @param on the lock manager and, for a method of another class, the object
 * @param names the requested names: a list for the calls that take one
 */
function make(kind, { locks, object }, names, options, work) {
  const { form } = KINDS[kind];
  const [name, method] = kind.split('.');
  if (method) return form === 'callback' ? object[method](work, options) : object[method](options);
  return form === 'callback' ? locks[name](names, options, work) : locks[name](names, options);
}

/** The names of all calls, as in messages. */
const OPERATIONS = Object.values(CALLS).flat();

/** @returns {string} the name of a call, as in messages */
const operationOf = (kind) => {
  const [method, of = 'LockManager'] = kind.split('.').reverse();
  return `'${method}' on '${of}'`;
};

module.exports = { KINDS, OPERATIONS, VALUES, make, objectOf, operationOf };
