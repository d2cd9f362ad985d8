'use strict';

/**
 * Until when a session is sure to have what it has. The continuous clock says so: it counts the
 * time that the machine sleeps, and nobody sets it. Where the system has none, the monotonic clock
 * stands for it, which may stand still meanwhile. The monotonic clock and the wall clock, which may
 * be set, are a second opinion: whichever says first that the end is there.
 */

/** @typedef {import('./clock.js').Clock} Clock */

/**
 * @typedef {object} Times when something was sent, on each clock
 * @property {number} sent on the monotonic one
 * @property {number} continuousSent
 * @property {number} wallSent
 */

class Lease {
  #clock;
  #margin;
  #end = 0;
  #continuousEnd = 0;
  #wallEnd = 0;

  /**
   * @param {Clock} clock
   * @param {number} margin of what the server gives, how much of it is counted on here
   */
  constructor(clock, margin) {
    this.#clock = clock;
    this.#margin = margin;
  }

  /** @returns {Times} of now */
  times() {
    const clock = this.#clock;
    return {
      sent: clock.monotonic(),
      continuousSent: clock.continuous(),
      wallSent: clock.wall(),
    };
  }

  /**
   * @param {Times} times when what was answered was sent
   * @param {number} ttl milliseconds that the server gives from its answer on
   * @returns {number} the end, on the monotonic clock
   */
  extend({ sent, continuousSent, wallSent }, ttl) {
    const time = this.#margin * ttl;
    this.#end = sent + time;
    this.#continuousEnd = continuousSent + time;
    this.#wallEnd = wallSent + time;
    return this.#end;
  }

  /** @returns {number} milliseconds until it ends; 0 or less if it has ended */
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
