'use strict';

/**
 * The parts of the language and of Node.js that the library needs, taken once, when it is loaded.
 * Code that replaces a global later (a polyfill, zone.js, fake timers) does not change locks.
 * Taken from where nobody replaces it, where there is such a place.
 */

const { AsyncLocalStorage, AsyncResource } = require('node:async_hooks');
const { performance } = require('node:perf_hooks');
const process = require('node:process');
const timers = require('node:timers');

/**
 * @template {(...args: any[]) => any} F
 * @param {F} method
 * @returns {(self: any, ...args: Parameters<F>) => ReturnType<F>} the method as a function
 */
const uncurry = (method) => Function.prototype.call.bind(method);

/** The language's own, which the promises of async functions are of. */
const promisePrototype = Object.getPrototypeOf((async () => {})());
/** @type {PromiseConstructor} */
const Promise = promisePrototype.constructor;

/** @type {(promise: any, onFulfilled: any, onRejected?: any) => any} */
const then = uncurry(promisePrototype.then);

const { species } = Symbol;

/**
 * @returns {boolean} whether `then` makes promises of the language's own: it asks for their
 *   constructor where anybody can have put another one
 */
const arePromisesOurs = () => {
  try {
    return (
      promisePrototype.constructor === Promise && /** @type {any} */ (Promise)[species] === Promise
    );
  } catch {
    return false;
  }
};

/**
 * @param {unknown} error
 * @returns {Promise<never>} rejected with it; near the end of the stack, where Node.js cannot take
 *   note of a rejection, a moment later
 */
const rejected = async (error) => {
  if (error instanceof RangeError) await undefined;
  throw error;
};

/** Nobody's constructor is asked for by its `then`. */
const RESOLVED = Object.defineProperty(Promise.resolve(), 'constructor', { value: undefined });

/**
 * Calls in a microtask. An async function that waits for nothing would do, too, but not at the end
 * of the stack: there it fails by a rejection that nothing handles, and code that expects the call
 * would wait for it for ever.
 * @param {() => void} call
 * @throws {RangeError} if there is no stack for it; then there will be no call
 */
const soon = (call) => {
  then(RESOLVED, call);
};

const { clearTimeout, setImmediate, setTimeout } = timers;
const { nextTick } = process;
const now = performance.now.bind(performance);

const toNumber = Number;
const { bigint: hrtime } = process.hrtime;

/**
 * @returns {number} milliseconds of the monotonic clock that all threads of the process have in
 *   common: `now()` begins with each of them
 */
const threadsNow = () => toNumber(hrtime()) / 1e6;

/** @type {{ ref: (timer: any) => void, unref: (timer: any) => void }} */
const { ref, unref } = (() => {
  const timer = setTimeout(() => {}, 0);
  clearTimeout(timer);
  const prototype = Object.getPrototypeOf(timer);
  return { ref: uncurry(prototype.ref), unref: uncurry(prototype.unref) };
})();

/**
 * Reports an exception of users' code that no caller can catch, as the platform does for listeners
 * of events.
 * @param {unknown} error
 */
function report(error) {
  try {
    nextTick(() => {
      throw error;
    });
  } catch {
    // At the end of the stack: it is that error again.
  }
}

module.exports = {
  AsyncLocalStorage,
  AsyncResource,
  Promise,
  arePromisesOurs,
  clearTimeout,
  nextTick,
  now,
  ref,
  rejected,
  report,
  setImmediate,
  setTimeout,
  soon,
  then,
  threadsNow,
  uncurry,
  unref,
};
