'use strict';

/**
 * Until when a session is sure to have what it has. The end is looked for on the monotonic clock,
 * which may stand still while a machine sleeps, and on the wall clock, which may be set: whichever
 * says so first.
 */

/** @typedef {import('./clock.js').Clock} Clock */

/** @typedef {{ sent: number, wallSent: number }} Times when something was sent, on both clocks */

class Lease {
  #clock;
  #margin;
  #end = 0;
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
    return { sent: this.#clock.monotonic(), wallSent: this.#clock.wall() };
  }

  /**
   * @param {Times} times when what was answered was sent
   * @param {number} ttl milliseconds that the server gives from its answer on
   * @returns {number} the end, on the monotonic clock
   */
  extend({ sent, wallSent }, ttl) {
    this.#end = sent + this.#margin * ttl;
    this.#wallEnd = wallSent + this.#margin * ttl;
    return this.#end;
  }

  /** @returns {number} milliseconds until it ends; 0 or less if it has ended */
  rest() {
    return Math.min(this.#end - this.#clock.monotonic(), this.#wallEnd - this.#clock.wall());
  }
}

module.exports = { Lease };
