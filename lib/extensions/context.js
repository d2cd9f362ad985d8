'use strict';

/**
 * Which locks a piece of code runs inside of, for requests that reject deadlocks: an async context
 * that each callback of `request()` runs in. It costs something, so it is kept only from the first
 * such request of this thread on.
 */

const { AsyncLocalStorage } = require('node:async_hooks');

/** @typedef {InstanceType<typeof import('../standard/lock-request.js').LockRequest>} LockRequest */
/** @typedef {{ locks: LockRequest[], outer: Inside | undefined }} Inside */

/** @type {AsyncLocalStorage<Inside> | undefined} */
let storage;

/**
 * The locks whose callbacks the caller runs inside of, innermost first; those that are not held any
 * more are left out.
 * @returns {LockRequest[]}
 */
function locksInside() {
  storage ??= new AsyncLocalStorage();
  const locks = [];
  for (let inside = storage.getStore(); inside; inside = inside.outer) {
    locks.push(...inside.locks.filter((lock) => lock.held));
  }
  return locks;
}

/**
 * Calls a callback inside of its lock.
 * @param {LockRequest} request
 * @param {(lock: any) => any} callback
 * @param {any} lock
 * @returns {any} what it returned
 */
function callInside(request, callback, lock) {
  return storage ? callInsideAll([request], callback, lock) : callback(lock);
}

/**
 * @param {LockRequest[]} locks
 * @param {(argument: any) => any} callback
 * @param {any} argument
 * @returns {any} what it returned
 */
function callInsideAll(locks, callback, argument) {
  if (!storage) return callback(argument);
  return storage.run({ locks, outer: storage.getStore() }, callback, argument);
}

module.exports = { callInside, callInsideAll, locksInside };
