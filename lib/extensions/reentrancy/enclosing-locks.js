'use strict';

/**
 * Keeps track of the locks that enclose the running code, for requests that reject deadlocks and
 * for reentrant requests. The callbacks of these requests run in an async context that contains
 * their locks. Locks of other requests are not tracked, so these requests cost nothing more.
 */

const { readSetting, warn } = require('../../platform/environment.js');
const { AsyncLocalStorage } = require('../../platform/intrinsics.js');
const { ReentrantParent } = require('./reentrant-parent.js');

/** @import { Backend } from '../../backend/contract.js' */
/** @import { RequestOptions } from '../options.js' */
/** @typedef {InstanceType<typeof import('../request/request.js').Request>} Request */

/** Whether all requests of the process reject deadlocks. */
const everywhere =
  readSetting('WEB_LOCKS_DEADLOCK', (text) => text === 'reject' || undefined, "'reject'") ?? false;

/** @param {Readonly<RequestOptions>} options */
const rejectsDeadlocks = (options) => everywhere || options.deadlock !== undefined;

let isWarned = false;

/** Warns once that the environment variable has no effect on some locks. */
function warnOfDeadlocks() {
  if (isWarned) return;
  isWarned = true;
  warn(
    'WEB_LOCKS_DEADLOCK=reject finds only deadlocks between locks of this process. This ' +
      'program also uses locks of the machine or of a cluster: give their requests a timeout.',
    'WEB_LOCKS_NO_DEADLOCKS',
  );
}

/** @type {import('node:async_hooks').AsyncLocalStorage<Request[]> | undefined} */
let storage;

/** The held locks that enclose the caller and whose requests reject deadlocks, innermost first. */
function enclosingLocks() {
  /** @type {Request[]} */
  const locks = [];
  const inside = storage?.getStore() ?? [];
  for (let i = 0; i < inside.length; i++) {
    const { backend, held, options } = inside[i];
    // To the core, the tag of a request of another scope could mean another request.
    const counts = held && backend.findsDeadlocks && rejectsDeadlocks(options);
    if (counts) addOnce(locks, inside[i].rootLock);
  }
  return locks;
}

/** @param {Request[]} locks @param {Request} lock */
function addOnce(locks, lock) {
  for (let i = 0; i < locks.length; i++) if (locks[i] === lock) return;
  locks[locks.length] = lock;
}

/**
 * Finds the backend of a reentrant request: an enclosing lock of this name if there is one,
 * otherwise the given backend.
 * @param {Backend} backend @param {string} name @returns {Backend}
 */
function reentrantBackend(backend, name) {
  const inside = backend.closed === undefined ? (storage?.getStore() ?? []) : [];
  for (let i = 0; i < inside.length; i++) {
    const lock = inside[i];
    if (lock.name !== name || !lock.options.reentrant || lock.backend.id !== backend.id) continue;
    const outer = lock.rootLock;
    if (!lock.held || !outer.held) continue;
    // The thread may not know yet that the lock was stolen, or that its lease has ended.
    outer.backend.catchUp?.(outer);
    if (lock.holds && outer.holds) return new ReentrantParent(outer, backend);
  }
  return backend;
}

/** @param {Request[]} locks @param {(argument: any) => any} callback @param {any} argument */
function callEnclosed(locks, callback, argument) {
  storage ??= new AsyncLocalStorage();
  // The list is flat and leaves out released locks, so that it stays short in a loop that continues
  // from callback to callback.
  /** @type {Request[]} */
  const inside = [];
  addHeld(inside, locks);
  addHeld(inside, storage.getStore() ?? []);
  return storage.run(inside, () => callback(argument));
}

/** @param {Request[]} to @param {Request[]} from */
function addHeld(to, from) {
  for (let i = 0; i < from.length; i++) if (from[i].held) to[to.length] = from[i];
}

/**
 * Declares that a lock encloses a request, as if the request were made in the lock's callback, so
 * that deadlocks through both are found. Neither may have been requested yet.
 * @param {Request} lock @param {Request} request
 */
function declareEnclosed(lock, request) {
  lock.inside ??= [];
  request.inside ??= [];
  addOnce(request.inside, lock);
}

/**
 * Whether requests that are made in the callback of a lock with these options must know that lock.
 * @param {Readonly<RequestOptions>} options
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
