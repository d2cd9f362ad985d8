'use strict';

/**
 * Which locks a piece of code runs inside of, for requests that reject deadlocks: an async context
 * that the callbacks of such requests run in. Other requests cost and count nothing.
 */

const { AsyncLocalStorage } = require('../platform/intrinsics.js');

/** @typedef {InstanceType<typeof import('./request.js').Request>} Request */

/** @type {import('node:async_hooks').AsyncLocalStorage<Request[]> | undefined} */
let storage;

/**
 * The locks whose callbacks the caller runs inside of, innermost first; those that are not held any
 * more are left out.
 * @returns {Request[]}
 */
function locksInside() {
  return (storage?.getStore() ?? []).filter((lock) => lock.held);
}

/**
 * Calls a callback inside of locks.
 * @param {Request[]} locks
 * @param {(argument: any) => any} callback
 * @param {any} argument
 * @returns {any} what it returned
 */
function callInside(locks, callback, argument) {
  storage ??= new AsyncLocalStorage();
  // Not a list of lists: a loop that goes on from callback to callback is inside of few locks.
  return storage.run([...locks, ...locksInside()], () => callback(argument));
}

module.exports = { callInside, locksInside };
