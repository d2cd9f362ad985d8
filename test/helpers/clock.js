'use strict';

/**
 * A clock that the test controls, instead of the machine's, for all JavaScript of the library in
 * this thread. Require it before the library. Time passes only by `advance` and `jump`. The native
 * code keeps its own clock, for the ages in details and for the marks of `once`.
 */

const intrinsics = require('../../lib/platform/intrinsics.js');

/** @typedef {{ at: number, call: () => void, unref(): Timer, ref(): Timer }} Timer */

/** @type {Set<Timer>} */
const timers = new Set();
let now = 1_000_000;

function setTimer(call, milliseconds) {
  const timer = { at: now + milliseconds, call, unref: () => timer, ref: () => timer };
  timers.add(timer);
  return timer;
}

const clearTimer = (timer) => timers.delete(timer);

/** @returns {Timer | undefined} the timer that fires next; the older one of two at the same time */
function nextTimer() {
  let next;
  for (const timer of timers) if (!next || timer.at < next.at) next = timer;
  return next;
}

/** Fires the next timer. @param {Timer} next */
function fire(next) {
  now = Math.max(now, next.at);
  timers.delete(next);
  next.call();
}

/** Lets time pass, and fires the timers that become due, in order. */
function advance(milliseconds) {
  const end = now + milliseconds;
  for (let next = nextTimer(); next && next.at <= end; next = nextTimer()) fire(next);
  now = end;
}

/**
 * Fires the timers that are due. What one of them queues runs before the next one, as in Node.js.
 * @param {() => Promise<void>} turn
 */
async function fireDue(turn) {
  for (let next = nextTimer(); next && next.at <= now; next = nextTimer()) {
    fire(next);
    await turn();
  }
}

/** Lets time pass as in a blocked thread: timers that become due fire later. */
function jump(milliseconds) {
  now += milliseconds;
}

const clock = {
  advance,
  fireDue,
  jump,
  now: () => now,
  /** @returns {number} milliseconds until a timer fires; Infinity if there is none */
  rest: () => (nextTimer()?.at ?? Number.POSITIVE_INFINITY) - now,
  setTimeout: setTimer,
  clearTimeout: clearTimer,
};

const timing = { setTimeout: setTimer, clearTimeout: clearTimer, ref() {}, unref() {} };
Object.assign(intrinsics, { ...timing, now: clock.now, threadsNow: clock.now });
Object.assign(require('../../lib/cluster/session/clock.js').systemClock, {
  ...timing,
  monotonic: clock.now,
  continuous: clock.now,
  wall: clock.now,
  random: () => 0.5,
});

module.exports = { clock };
