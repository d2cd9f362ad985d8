'use strict';

const { Promise } = require('../../platform/intrinsics.js');

/** @import { Clock } from './clock.js' */

/**
 * Settles like the promise, but rejects with `late()` if the promise takes longer than this time.
 * The timer does not keep the event loop alive.
 * @template T @param {Clock} clock @param {Promise<T>} promise @param {number} milliseconds
 * @param {() => unknown} late @returns {Promise<T>}
 */
function within(clock, promise, milliseconds, late) {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimeout(() => reject(late()), Math.max(Math.ceil(milliseconds), 0));
    clock.unref(timer);
    settleWith(promise, resolve, reject, () => clock.clearTimeout(timer));
  });
}

/**
 * @template T @param {Promise<T>} promise @param {(value: T) => void} resolve
 * @param {(error: unknown) => void} reject @param {() => void} done is called first
 */
async function settleWith(promise, resolve, reject, done) {
  try {
    const value = await promise;
    done();
    resolve(value);
  } catch (error) {
    done();
    reject(error);
  }
}

module.exports = { within };
