'use strict';

/**
 * When the session's lease ends in this process (R6). The continuous clock decides, because it
 * counts sleep and nobody can set it. The monotonic and the wall clock are read, too, and the
 * earliest of the three ends counts.
 */

/** @import { Clock } from './clock.js' */

/**
 * @typedef {object} Times the time at which a call was sent, by each clock
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
   * Extends the lease and returns its end on the monotonic clock. The time counts from when the
   * answered call was sent, since the server's lease begins later.
   * @param {Times} times @param {number} ttl milliseconds
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
