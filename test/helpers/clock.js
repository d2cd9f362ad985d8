'use strict';

/**
 * A clock that the test owns, in place of the machine's, for everything that the library does in
 * this thread. Require it before the library. Time passes only by `advance` and `jump`. The native
 * code keeps its own clock, which decides nothing that a test of this clock looks at: the ages in
 * details, and how long the marks of `once` last.
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

/** @returns {Timer | undefined} the timer that fires next; of two at the same time the older one */
function nextTimer() {
  let next;
  for (const timer of timers) if (!next || timer.at < next.at) next = timer;
  return next;
}

/** Lets time pass, and fires the timers that are due by then, in order. */
function advance(milliseconds) {
  const end = now + milliseconds;
  for (let next = nextTimer(); next && next.at <= end; next = nextTimer()) {
    now = Math.max(now, next.at);
    timers.delete(next);
    next.call();
  }
  now = end;
}

/** Lets time pass for a thread that is blocked: timers that become due fire later. */
function jump(milliseconds) {
  now += milliseconds;
}

const clock = {
  advance,
  jump,
  now: () => now,
  /** @returns {number} milliseconds until a timer fires; Infinity if there is none */
  rest: () => (nextTimer()?.at ?? Number.POSITIVE_INFINITY) - now,
  setTimeout: setTimer,
  clearTimeout: clearTimer,
};

Object.assign(intrinsics, {
  now: clock.now,
  threadsNow: clock.now,
  setTimeout: setTimer,
  clearTimeout: clearTimer,
  ref: () => {},
  unref: () => {},
});
Object.assign(require('../../lib/cluster/session/clock.js').systemClock, {
  monotonic: clock.now,
  continuous: clock.now,
  wall: clock.now,
  setTimeout: setTimer,
  clearTimeout: clearTimer,
  ref: () => {},
  unref: () => {},
  random: () => 0.5,
});

module.exports = { clock };
