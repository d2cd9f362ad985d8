'use strict';

/**
 * Decides when to check for expired leases. No server reports that a quarantine has ended, and most
 * do not report that a lease has expired; both can make waiting requests grantable. The first check
 * is made even if nothing waits, and removes what expired sessions have left behind.
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

  /** Must be called when the connection fails or a session opens: a quarantine may have begun. */
  expectQuarantine() {
    this.#mayBeQuarantined = true;
  }

  /** Whether checks are needed. @param {number} waiting how many requests wait */
  isWanted(waiting) {
    return this.#isFirst || waiting > 0;
  }

  /** @param {number} now */
  noteCheck(now) {
    this.#isFirst = false;
    this.#last = now;
  }

  /**
   * Returns the time of the next check; undefined for none.
   * @param {Renewal} renewal
   * @param {{ now: number, ttl: number, waiting: number }} state `waiting`: how many requests wait
   */
  handleRenewal({ nextExpiryIn, grantsIn }, { now, ttl, waiting }) {
    // If the quarantine has just ended, check at once: the last check may have come before its end.
    const isOver = this.#mayBeQuarantined && grantsIn <= 0;
    this.#mayBeQuarantined = grantsIn > 0;
    if (this.#isFirst) return now;
    if (waiting === 0) return undefined;
    const grants = isOver || grantsIn > 0 ? grantsIn : Number.POSITIVE_INFINITY;
    const rest = Math.min(nextExpiryIn, grants);
    if (rest === Number.POSITIVE_INFINITY) return undefined;
    // The pause between checks is for an expired session that the server cannot end yet: it must
    // not cause one check after another.
    return Math.max(now + Math.max(rest, 0) + 1, this.#last + ttl / 20);
  }
}

module.exports = { ExpiryChecks };
