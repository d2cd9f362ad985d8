'use strict';

/**
 * The clocks and timers of this process, as an object, so that tests can have others.
 */

const intrinsics = require('../../platform/intrinsics.js');

/**
 * @typedef {object} Clock
 * @property {() => number} monotonic milliseconds; never goes back, and may stand still while the
 *   machine sleeps
 * @property {() => number} wall milliseconds; may be set, to earlier and later times
 * @property {(callback: () => void, milliseconds: number) => any} setTimeout
 * @property {(timer: any) => void} clearTimeout
 * @property {(timer: any) => void} unref the timer does not keep the event loop alive
 * @property {() => number} random 0 to 1
 */

/** @type {Clock} */
const systemClock = {
  monotonic: intrinsics.now,
  wall: Date.now,
  setTimeout: intrinsics.setTimeout,
  clearTimeout: intrinsics.clearTimeout,
  unref: intrinsics.unref,
  random: Math.random,
};

module.exports = { systemClock };
