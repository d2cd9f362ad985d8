'use strict';

/**
 * When the session's lease ends here (R6). The continuous clock decides: it counts sleep, and
 * nobody sets it. Where the system lacks it, the monotonic clock stands in, which may stop during
 * sleep. The monotonic and the wall clock are checked, too, and the earliest end counts.
 */

/** @typedef {import('./clock.js').Clock} Clock */

/**
 * @typedef {object} Times when a call was sent, by each clock
 * @property {number} sent on the monotonic clock
 * @property {number} continuousSent
 * @property {number} wallSent
 */

class Lease {
  #clock;
  #margin;
  #end = 0;
  #continuousEnd = 0;
  #wallEnd = 0;

  /** @param {Clock} clock @param {number} margin the part of the server's `ttl` that counts here */
  constructor(clock, margin) {
    this.#clock = clock;
    this.#margin = margin;
  }

  times() {
    const clock = this.#clock;
    return {
      sent: clock.monotonic(),
      continuousSent: clock.continuous(),
      wallSent: clock.wall(),
    };
  }

  /**
   * @param {Times} times when the answered call was sent
   * @param {number} ttl milliseconds from the server's answer on
   * @returns {number} the end on the monotonic clock
   */
  extend({ sent, continuousSent, wallSent }, ttl) {
    const time = this.#margin * ttl;
    this.#end = sent + time;
    this.#continuousEnd = continuousSent + time;
    this.#wallEnd = wallSent + time;
    return this.#end;
  }

  /** Milliseconds until the lease ends; 0 or less if it has ended. */
  rest() {
    const clock = this.#clock;
    return Math.min(
      this.#continuousEnd - clock.continuous(),
      this.#end - clock.monotonic(),
      this.#wallEnd - clock.wall(),
    );
  }
}

module.exports = { Lease };
