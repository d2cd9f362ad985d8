'use strict';

/**
 * The parts of the language and of Node.js that the library uses. They are read once, so that code
 * that replaces a global later (a polyfill, zone.js, fake timers) does not affect locks.
 */

const { AsyncLocalStorage, AsyncResource } = require('node:async_hooks');
const { performance } = require('node:perf_hooks');
const process = require('node:process');
const timers = require('node:timers');

/**
 * @template {(...args: any[]) => any} F @param {F} method
 * @returns {(self: any, ...args: Parameters<F>) => ReturnType<F>}
 */
const uncurry = (method) => Function.prototype.call.bind(method);

/** Async functions return native promises even if the global `Promise` was replaced. */
const promisePrototype = Object.getPrototypeOf((async () => {})());
/** @type {PromiseConstructor} */
const Promise = promisePrototype.constructor;

/** @type {(promise: any, onFulfilled: any, onRejected?: any) => any} */
const then = uncurry(promisePrototype.then);

const { species } = Symbol;

/** Whether `then` returns native promises: it reads a constructor that user code may replace. */
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
 * Returns a promise that is rejected; for a RangeError only a microtask later, because Node.js
 * cannot record a rejection during a stack overflow.
 * @param {unknown} error @returns {Promise<never>}
 */
const rejected = async (error) => {
  if (error instanceof RangeError) await undefined;
  throw error;
};

/** Has no constructor, so that its `then` never reads one that user code has replaced. */
const RESOLVED = Object.defineProperty(Promise.resolve(), 'constructor', { value: undefined });

/**
 * This is not an async function, because a stack overflow would then become an unhandled rejection
 * instead of an exception, and the caller would wait for ever.
 * @param {() => void} call
 * @throws {RangeError} on a stack overflow; `call` will then not be called
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
 * Makes the error an uncaught exception, as Node.js does for errors of event listeners.
 * @param {unknown} error
 */
function report(error) {
  try {
    nextTick(() => {
      throw error;
    });
  } catch {
    // On a stack overflow, `nextTick` has thrown, and the error cannot be reported.
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
