'use strict';

/** The clocks and timers of this process, as an object that tests replace. */

const intrinsics = require('../../platform/intrinsics.js');

/**
 * @typedef {object} Clock times in milliseconds
 * @property {() => number} monotonic never goes back, and may stop while the machine sleeps
 * @property {() => number} continuous also counts while the machine sleeps, and nobody can set it;
 *   if the system has no clock like that, it is the monotonic clock
 * @property {() => number} wall can be set by users, in both directions
 * @property {(callback: () => void, milliseconds: number) => any} setTimeout
 * @property {(callback: () => void) => void} setImmediate after this turn of the event loop
 * @property {(callback: () => void) => void} nextTick after the current code and the promise jobs
 *   that it caused
 * @property {(timer: any) => void} clearTimeout
 * @property {(timer: any) => void} ref lets the timer keep the event loop alive, like a new timer
 * @property {(timer: any) => void} unref @property {() => number} random 0 to 1
 */

function continuousClock() {
  try {
    const { continuousNow } = require('../../backend/addon.js').addon;
    if (continuousNow() >= 0) return continuousNow;
  } catch {
    // The load error of the addon is reported elsewhere; here the monotonic clock replaces the
    // continuous one.
  }
  return intrinsics.now;
}

/** A tick alone would run before the promise jobs. @type {Clock['nextTick']} */
const nextTick = (callback) => intrinsics.callInMicrotask(() => intrinsics.nextTick(callback));

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
