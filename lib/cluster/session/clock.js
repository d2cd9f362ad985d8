'use strict';

/** The clocks and timers of this process, as an object that tests replace. */

const intrinsics = require('../../platform/intrinsics.js');

/**
 * @typedef {object} Clock
 * @property {() => number} monotonic milliseconds; never goes back, may stop during sleep
 * @property {() => number} continuous milliseconds; counts sleep, and nobody sets it. The monotonic
 *   clock stands in for it where the system lacks it
 * @property {() => number} wall milliseconds; users may set it in both directions
 * @property {(callback: () => void, milliseconds: number) => any} setTimeout
 * @property {(callback: () => void) => void} setImmediate calls after this turn of the event loop
 * @property {(callback: () => void) => void} nextTick calls after the current code and the promise
 *   jobs that it caused
 * @property {(timer: any) => void} clearTimeout
 * @property {(timer: any) => void} ref lets the timer keep the event loop alive, as a new one does
 * @property {(timer: any) => void} unref
 * @property {() => number} random 0 to 1
 */

/** @returns {Clock['continuous']} */
function continuousClock() {
  try {
    const { continuousNow } = require('../../backend/addon.js').addon;
    if (continuousNow() >= 0) return continuousNow;
  } catch {
    // A load error of the addon is not reported here, since this clock has a substitute.
  }
  return intrinsics.now;
}

/**
 * Waits for a promise job first: ticks run before promise jobs, unless those have begun.
 * @type {Clock['nextTick']}
 */
const nextTick = (callback) => intrinsics.soon(() => intrinsics.nextTick(callback));

/** @type {Clock} */
const systemClock = {
  monotonic: intrinsics.now,
  continuous: continuousClock(),
  wall: Date.now,
  setTimeout: intrinsics.setTimeout,
  clearTimeout: intrinsics.clearTimeout,
  setImmediate: intrinsics.setImmediate,
  nextTick,
  ref: intrinsics.ref,
  unref: intrinsics.unref,
  random: Math.random,
};

module.exports = { systemClock };
