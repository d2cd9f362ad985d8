'use strict';

/**
 * The clocks and timers of this process, as an object, so that tests can have others.
 */

const intrinsics = require('../../platform/intrinsics.js');

/**
 * @typedef {object} Clock
 * @property {() => number} monotonic milliseconds; never goes back, and may stand still while the
 *   machine sleeps
 * @property {() => number} continuous milliseconds; counts the time that the machine sleeps, and
 *   nobody sets it. The monotonic clock, where the system has none such
 * @property {() => number} wall milliseconds; may be set, to earlier and later times
 * @property {(callback: () => void, milliseconds: number) => any} setTimeout
 * @property {(callback: () => void) => void} setImmediate calls when this turn of the event loop is
 *   over
 * @property {(callback: () => void) => void} nextTick calls when what runs now, and what it has
 *   resolved, is over
 * @property {(timer: any) => void} clearTimeout
 * @property {(timer: any) => void} ref the timer keeps the event loop alive, as a new one does
 * @property {(timer: any) => void} unref it does not
 * @property {() => number} random 0 to 1
 */

/** @returns {Clock['continuous']} */
function continuousClock() {
  try {
    const { continuousNow } = require('../../backend/addon.js').addon;
    if (continuousNow() >= 0) return continuousNow;
  } catch {
    // Whoever needs the addon is told why it cannot be loaded. This room does without.
  }
  return intrinsics.now;
}

/**
 * Ticks come before what promises have to do, unless that has begun.
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
