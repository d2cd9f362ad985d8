'use strict';

/**
 * When the leases of others are looked at, which nobody tells of: what waits may be granted by the
 * end of one of them, or of a quarantine. What dead sessions have left is swept away once at the
 * beginning, even if nothing waits for it.
 */

/** @typedef {import('../adapter.js').Renewal} Renewal */

class Sweeps {
  #isFirst = true;
  #endsLeases;
  /** Whether no renewal of the session has told that there is no quarantine since there was one. */
  #mayBeQuarantined = true;
  #last = Number.NEGATIVE_INFINITY;

  /** @param {boolean} endsLeases whether the engine does, and tells of it */
  constructor(endsLeases) {
    this.#endsLeases = endsLeases;
  }

  /**
   * Whether what waits is told of all that it may be granted by: there are no leases to look at,
   * and no quarantine.
   */
  get isTold() {
    return this.#endsLeases && !this.#mayBeQuarantined;
  }

  /** There is another session, or will be another connection: what was before it nobody told. */
  begin() {
    this.#mayBeQuarantined = true;
  }

  /**
   * @param {number} waiting how many requests wait
   * @returns {boolean} whether there is anything to sweep for
   */
  isWanted(waiting) {
    return this.#isFirst || waiting > 0;
  }

  /** @param {number} now it is done */
  done(now) {
    this.#isFirst = false;
    this.#last = now;
  }

  /**
   * @param {Renewal} renewal
   * @param {object} state
   * @param {number} state.now
   * @param {number} state.ttl
   * @param {number} state.waiting how many requests wait
   * @returns {number | undefined} when the next one is; undefined if none has to be
   */
  next({ nextExpiryIn, grantsIn }, { now, ttl, waiting }) {
    // The sweep before may have come too early.
    const isOver = this.#mayBeQuarantined && grantsIn <= 0;
    this.#mayBeQuarantined = grantsIn > 0;
    if (this.#isFirst) return now;
    if (waiting === 0) return undefined;
    const grants = isOver || grantsIn > 0 ? grantsIn : Number.POSITIVE_INFINITY;
    const rest = Math.min(nextExpiryIn, grants);
    if (rest === Number.POSITIVE_INFINITY) return undefined;
    // What cannot be swept yet is not tried all the time.
    return Math.max(now + Math.max(rest, 0) + 1, this.#last + ttl / 20);
  }
}

module.exports = { Sweeps };
