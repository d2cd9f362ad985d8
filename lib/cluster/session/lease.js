'use strict';

/**
 * Computes when the session's lease ends in this process (R6): when it has ended by any of three
 * clocks. The continuous clock counts while the machine sleeps, and nobody can set it; on a system
 * without one, the wall clock counts the sleep. If the keeper's thread has extended the lease as
 * well (lease-cells.js), the later of the two ends counts.
 */

/** @import { Clock } from './clock.js' */
/** @typedef {InstanceType<typeof import('./lease-cells.js').LeaseCells>} LeaseCells */

/**
 * @typedef {object} Times the time at which a call was sent, by each clock
 * @property {number} sent on the monotonic clock
 * @property {number} continuousSent @property {number} wallSent
 */

/** @param {Pick<Clock, 'monotonic' | 'continuous' | 'wall'>} clock @returns {Times} */
const timesOf = (clock) => ({
  sent: clock.monotonic(),
  continuousSent: clock.continuous(),
  wallSent: clock.wall(),
});

class Lease {
  /** Written by the keeper's thread; undefined without a keeper. @type {LeaseCells | undefined} */
  cells;
  #clock;
  #margin;
  #end = 0;
  #continuousEnd = 0;
  #wallEnd = 0;

  /** @param {Clock} clock @param {number} margin see `Rules` in session.js */
  constructor(clock, margin) {
    this.#clock = clock;
    this.#margin = margin;
  }

  /** The current time by each clock, for a call that is about to be sent. */
  times() {
    return timesOf(this.#clock);
  }

  /**
   * The lease lasts a fraction (`margin`) of the `ttl`. It begins when the answered call was sent,
   * because the server's lease begins later.
   * @param {Times} times @param {number} ttl milliseconds @returns the end on the monotonic clock
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
    return this.cells?.isDead ? 0 : this.#restByClocks();
  }

  /** Whether the server has ended the session before its lease was over. */
  get isEndedByServer() {
    return this.cells?.isDead === true && this.#restByClocks() > 0;
  }

  /** The longer of the session's and the keeper's rest, even if the server ended the session. */
  #restByClocks() {
    const { cells } = this;
    const rest = this.#ownRest();
    return cells === undefined ? rest : Math.max(rest, cells.rest(this.#clock));
  }

  #ownRest() {
    const clock = this.#clock;
    return Math.min(
      this.#continuousEnd - clock.continuous(),
      this.#end - clock.monotonic(),
      this.#wallEnd - clock.wall(),
    );
  }
}

module.exports = { Lease, timesOf };
