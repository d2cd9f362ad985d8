'use strict';

/**
 * Which locks a piece of code runs inside of, for requests that reject deadlocks and for reentrant
 * ones: an async context that the callbacks of such requests run in. Other requests cost and count
 * nothing.
 */

const process = require('node:process');
const { AsyncLocalStorage, report } = require('../platform/intrinsics.js');
const { ReentrantParent, rootLock } = require('./reentrant-parent.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('./options.js').RequestOptions} RequestOptions */
/** @typedef {InstanceType<typeof import('./request.js').Request>} Request */

/** Whether each request of the process rejects deadlocks. */
const everywhere = process.env.WEB_LOCKS_DEADLOCK === 'reject';

/** @param {Readonly<RequestOptions>} options */
const rejectsDeadlocks = (options) => everywhere || options.deadlock !== undefined;

let isWarned = false;

/** Says once that the environment variable does nothing for some locks. */
function warnOfDeadlocks() {
  if (isWarned) return;
  isWarned = true;
  try {
    process.emitWarning(
      'WEB_LOCKS_DEADLOCK=reject finds only deadlocks between locks of this process. This program ' +
        'also uses locks of the machine or of a cluster: give their requests a timeout.',
      { type: 'LockWarning', code: 'WEB_LOCKS_NO_DEADLOCKS' },
    );
  } catch (error) {
    report(error);
  }
}

/** @type {import('node:async_hooks').AsyncLocalStorage<Request[]> | undefined} */
let storage;

/**
 * The locks whose callbacks the caller runs inside of and whose requests reject deadlocks,
 * innermost first; those that are not held any more are left out.
 * @returns {Request[]}
 */
function enclosingLocks() {
  /** @type {Request[]} */
  const locks = [];
  const inside = storage?.getStore() ?? [];
  for (let i = 0; i < inside.length; i++) {
    const { backend, held, options } = inside[i];
    // The tags of other backends mean other requests.
    const counts = held && backend.findsDeadlocks && rejectsDeadlocks(options);
    if (counts) addOnce(locks, rootLock(inside[i]));
  }
  return locks;
}

/**
 * @param {Request[]} locks
 * @param {Request} lock
 */
function addOnce(locks, lock) {
  for (let i = 0; i < locks.length; i++) if (locks[i] === lock) return;
  locks[locks.length] = lock;
}

/**
 * @param {Backend} backend
 * @param {string} name the resource name
 * @returns {Backend} what serves a reentrant request: the lock of that name that the caller runs
 *   inside of, or the backend where there is none, or where that is closed
 */
function reentrantBackend(backend, name) {
  const inside = backend.closed === undefined ? (storage?.getStore() ?? []) : [];
  for (let i = 0; i < inside.length; i++) {
    const lock = inside[i];
    if (lock.name !== name || !lock.options.reentrant || lock.backend.id !== backend.id) continue;
    const outer = rootLock(lock);
    if (!lock.held || !outer.held) continue;
    // It may have been stolen since this thread last heard of anything, or its lease has ended.
    outer.backend.catchUp?.(outer);
    if (lock.holds && outer.holds) return new ReentrantParent(outer, backend);
  }
  return backend;
}

/**
 * Calls a callback inside of locks.
 * @param {Request[]} locks
 * @param {(argument: any) => any} callback
 * @param {any} argument
 * @returns {any} what it returned
 */
function callEnclosed(locks, callback, argument) {
  storage ??= new AsyncLocalStorage();
  // Not a list of lists: a loop that goes on from callback to callback is inside of few locks.
  /** @type {Request[]} */
  const inside = [];
  addHeld(inside, locks);
  addHeld(inside, storage.getStore() ?? []);
  return storage.run(inside, () => callback(argument));
}

/**
 * @param {Request[]} to
 * @param {Request[]} from
 */
function addHeld(to, from) {
  for (let i = 0; i < from.length; i++) if (from[i].held) to[to.length] = from[i];
}

/**
 * Says that a lock waits for a request, as if that were made inside of it: then requests that
 * reject deadlocks find those that lead through the two.
 * @param {Request} lock not asked for yet
 * @param {Request} request not made yet
 */
function declareEnclosed(lock, request) {
  lock.inside ??= [];
  request.inside ??= [];
  addOnce(request.inside, lock);
}

/**
 * @param {Readonly<RequestOptions>} options
 * @returns {boolean} whether it counts for others that they are inside of such a request's callback
 */
const countsAsEnclosing = (options) => rejectsDeadlocks(options) || options.reentrant;

module.exports = {
  addOnce,
  callEnclosed,
  countsAsEnclosing,
  declareEnclosed,
  enclosingLocks,
  rejectsDeadlocks,
  reentrantBackend,
  warnOfDeadlocks,
};
