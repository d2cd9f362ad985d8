'use strict';

/**
 * Keeps track of the locks that enclose the running code. The callbacks of requests that reject
 * deadlocks or are reentrant run in an async context that contains their locks. Other requests are
 * not tracked, and cost nothing more.
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

/** @param {RequestOptions} options */
const rejectsDeadlocks = (options) => everywhere || options.deadlock !== undefined;

let isWarned = false;

/** Warns once that WEB_LOCKS_DEADLOCK has no effect on locks of the machine or of a cluster. */
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
    const { backend, isGranted, options } = inside[i];
    // The core would take the tag of another scope's request for a request of its own.
    const counts = isGranted && backend.findsDeadlocks && rejectsDeadlocks(options);
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
 * @param {Backend} backend @param {string} name
 * @returns {Backend} the enclosing reentrant lock of that name; without one, `backend`
 */
function reentrantBackend(backend, name) {
  const inside = backend.closed === undefined ? (storage?.getStore() ?? []) : [];
  for (let i = 0; i < inside.length; i++) {
    const lock = inside[i];
    if (lock.name !== name || !lock.options.reentrant || lock.backend.id !== backend.id) continue;
    const outer = lock.rootLock;
    if (!lock.isGranted || !outer.isGranted) continue;
    // The thread may not know yet that the lock was stolen, or that its lease has ended.
    outer.backend.catchUp?.(outer);
    if (lock.checkHeld() && outer.checkHeld()) return new ReentrantParent(outer, backend);
  }
  return backend;
}

/** @param {Request[]} locks @param {(argument: any) => any} callback @param {any} argument */
function callEnclosed(locks, callback, argument) {
  storage ??= new AsyncLocalStorage();
  // Released locks are left out, so that the list stays short when each callback starts the next.
  /** @type {Request[]} */
  const inside = [];
  addHeld(inside, locks);
  addHeld(inside, storage.getStore() ?? []);
  return storage.run(inside, () => callback(argument));
}

/** @param {Request[]} to @param {Request[]} from */
function addHeld(to, from) {
  for (let i = 0; i < from.length; i++) if (from[i].isGranted) to[to.length] = from[i];
}

/**
 * Makes the deadlock search treat the request as if it were made in the callback of the lock.
 * Neither may have been requested yet.
 * @param {Request} lock @param {Request} request
 */
function declareEnclosed(lock, request) {
  lock.inside ??= [];
  request.inside ??= [];
  addOnce(request.inside, lock);
}

/** @param {RequestOptions} options */
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
