'use strict';

/**
 * The parts of the language and of Node.js that the library uses, taken once, when it is loaded.
 * Code that replaces a global later (a polyfill, zone.js, fake timers) does not change locks. Each
 * part comes from a place where nobody replaces it, if there is one.
 */

const { AsyncLocalStorage, AsyncResource } = require('node:async_hooks');
const { performance } = require('node:perf_hooks');
const process = require('node:process');
const timers = require('node:timers');

/**
 * @template {(...args: any[]) => any} F @param {F} method
 * @returns {(self: any, ...args: Parameters<F>) => ReturnType<F>} takes `this` first
 */
const uncurry = (method) => Function.prototype.call.bind(method);

/** Async functions return promises with this prototype, whatever the global `Promise` is. */
const promisePrototype = Object.getPrototypeOf((async () => {})());
/** @type {PromiseConstructor} */
const Promise = promisePrototype.constructor;

/** @type {(promise: any, onFulfilled: any, onRejected?: any) => any} */
const then = uncurry(promisePrototype.then);

const { species } = Symbol;

/**
 * Whether `then` makes native promises: it reads their constructor, which users' code may replace.
 */
const arePromisesNative = () => {
  try {
    return (
      promisePrototype.constructor === Promise && /** @type {any} */ (Promise)[species] === Promise
    );
  } catch {
    return false;
  }
};

/**
 * Rejects with the error. A RangeError takes a microtask, because Node.js cannot record a rejection
 * at the end of the stack.
 * @param {unknown} error @returns {Promise<never>}
 */
const rejected = async (error) => {
  if (error instanceof RangeError) await undefined;
  throw error;
};

/** Without a constructor, its `then` never reads one that users' code has replaced. */
const RESOLVED = Object.defineProperty(Promise.resolve(), 'constructor', { value: undefined });

/**
 * Calls in a microtask. An async function would fail with an unhandled rejection at the end of the
 * stack, and code that expects the call would wait for ever.
 * @param {() => void} call
 * @throws {RangeError} the stack is full, and there will be no call
 */
const callInMicrotask = (call) => {
  then(RESOLVED, call);
};

const { clearTimeout, setImmediate, setTimeout } = timers;
const { nextTick } = process;
const now = performance.now.bind(performance);

const toNumber = Number;
const { bigint: hrtime } = process.hrtime;

/** Milliseconds of a monotonic clock that all threads share; `now()` starts at 0 in each thread. */
const threadsNow = () => toNumber(hrtime()) / 1e6;

/** @type {{ ref: (timer: any) => void, unref: (timer: any) => void }} */
const { ref, unref } = (() => {
  const timer = setTimeout(() => {}, 0);
  clearTimeout(timer);
  const prototype = Object.getPrototypeOf(timer);
  return { ref: uncurry(prototype.ref), unref: uncurry(prototype.unref) };
})();

/**
 * Reports an exception of users' code that no caller can catch, as the platform does for listeners.
 * @param {unknown} error
 */
function report(error) {
  try {
    nextTick(() => {
      throw error;
    });
  } catch {
    // At the end of the stack `nextTick` throws the error that was to be reported.
  }
}

module.exports = {
  AsyncLocalStorage,
  AsyncResource,
  Promise,
  arePromisesNative,
  clearTimeout,
  nextTick,
  now,
  ref,
  rejected,
  report,
  setImmediate,
  setTimeout,
  callInMicrotask,
  then,
  threadsNow,
  uncurry,
  unref,
};
