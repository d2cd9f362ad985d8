'use strict';

/**
 * Decides when to check for expired leases. Nobody pushes an expiry, or the end of a quarantine,
 * and both can let waiting requests in. The first check of a session comes even if nothing waits,
 * and removes what expired sessions left.
 */

/** @import { Renewal } from '../adapter.js' */

class ExpiryChecks {
  #isFirst = true;
  #endsLeases;
  /** True until a renewal reports that there is no quarantine. */
  #mayBeQuarantined = true;
  #last = Number.NEGATIVE_INFINITY;

  /** @param {boolean} endsLeases whether the engine ends leases by itself and pushes the grants */
  constructor(endsLeases) {
    this.#endsLeases = endsLeases;
  }

  /** Whether the server pushes every grant, so that no checks are needed. */
  get areGrantsPushed() {
    return this.#endsLeases && !this.#mayBeQuarantined;
  }

  /** Called for a new session or connection, since a quarantine may have begun in between. */
  expectQuarantine() {
    this.#mayBeQuarantined = true;
  }

  /** @param {number} waiting how many requests wait */
  isWanted(waiting) {
    return this.#isFirst || waiting > 0;
  }

  /** @param {number} now */
  noteCheck(now) {
    this.#isFirst = false;
    this.#last = now;
  }

  /**
   * Returns when to check next; undefined for never.
   * @param {Renewal} renewal
   * @param {{ now: number, ttl: number, waiting: number }} state `waiting`: how many requests wait
   */
  handleRenewal({ nextExpiryIn, grantsIn }, { now, ttl, waiting }) {
    // The last check may have come before the quarantine was over.
    const isOver = this.#mayBeQuarantined && grantsIn <= 0;
    this.#mayBeQuarantined = grantsIn > 0;
    if (this.#isFirst) return now;
    if (waiting === 0) return undefined;
    const grants = isOver || grantsIn > 0 ? grantsIn : Number.POSITIVE_INFINITY;
    const rest = Math.min(nextExpiryIn, grants);
    if (rest === Number.POSITIVE_INFINITY) return undefined;
    // Without a pause, a session that the server cannot end yet would cause one check after
    // another.
    return Math.max(now + Math.max(rest, 0) + 1, this.#last + ttl / 20);
  }
}

module.exports = { ExpiryChecks };
