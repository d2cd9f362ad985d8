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
  /** @type {Request[]} */
  const held = [];
  addHeld(held, storage?.getStore() ?? []);
  return held;
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

module.exports = { callInside, locksInside };
