'use strict';

/**
 * Computes when the session's lease ends in this process (R6). The continuous clock is the most
 * reliable one, because it also counts while the machine sleeps, and nobody can set it. The
 * monotonic and the wall clock are also read, and the lease ends as soon as it has ended by any of
 * the three clocks. If the keeper's thread has extended the lease as well (lease-cells.js), the
 * later of the two ends counts.
 */

/** @import { Clock } from './clock.js' */

/**
 * @typedef {object} Times the time at which a call was sent, by each clock
 * @property {number} sent on the monotonic clock
 * @property {number} continuousSent
 * @property {number} wallSent
 */

/**
 * Returns the current times, for a call that is sent now.
 * @param {Pick<Clock, 'monotonic' | 'continuous' | 'wall'>} clock @returns {Times}
 */
const timesOf = (clock) => ({
  sent: clock.monotonic(),
  continuousSent: clock.continuous(),
  wallSent: clock.wall(),
});

class Lease {
  /**
   * The cells that the keeper's thread writes to; undefined without a keeper.
   * @type {InstanceType<typeof import('./lease-cells.js').LeaseCells> | undefined}
   */
  cells;
  #clock;
  #margin;
  #end = 0;
  #continuousEnd = 0;
  #wallEnd = 0;

  /**
   * @param {Clock} clock @param {number} margin the fraction of the server's `ttl` for which the
   *   lease lasts here
   */
  constructor(clock, margin) {
    this.#clock = clock;
    this.#margin = margin;
  }

  times() {
    return timesOf(this.#clock);
  }

  /**
   * Extends the lease and returns its end on the monotonic clock. The lease begins when the
   * answered call was sent, since the lease on the server begins later.
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
    return this.cells?.isDead ? 0 : this.#restByClocks();
  }

  /** Whether the server has ended the session before its lease was over. */
  get isEndedByServer() {
    return this.cells?.isDead === true && this.#restByClocks() > 0;
  }

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
