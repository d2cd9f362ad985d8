'use strict';

/**
 * Renews the lease of a session. At each renewal it compares the server's list with ours, and
 * updates the session's keeper, if there is one. While a request waits, it also makes the server
 * check for expired leases (expiry-checks.js).
 */

const { ExpiryChecks } = require('./expiry-checks.js');
const { LeaseCells } = require('./lease-cells.js');

/** @import { Renewal } from '../adapter.js' */
/** @import { Times } from './lease.js' */
/** @import { KeptLease } from './lease-keeper.js' */
/** @typedef {InstanceType<typeof import('./parts.js').SessionParts>} Parts */

/** A session shows its keeper at least this often, in milliseconds, that its event loop turns. */
const TURN = 1000;

/**
 * While a request is not granted, a renewal is sent at least this often, in milliseconds, to find
 * out whether the connection was dropped silently. If the renewal is not answered within this time,
 * the session reconnects.
 */
const SIGN_OF_LIFE = 5000;

class Renewing {
  #parts;
  #expiryChecks;
  /** Undefined without a lease or without a keeper. @type {KeptLease | undefined} */
  #keptLease;
  /** Whether to renew again at once after the renewal under way, which may miss recent changes. */
  #isAgain = false;
  /** The end of the quarantine, on the monotonic clock. */
  #grantsFrom = 0;

  /** @param {Parts} parts */
  constructor(parts) {
    this.#parts = parts;
    this.#expiryChecks = new ExpiryChecks(parts.adapter.can.endsLeases === true);
  }

  /** Milliseconds until the quarantine ends; 0 for none. */
  get grantsIn() {
    return Math.max(this.#grantsFrom - this.#parts.clock.monotonic(), 0);
  }

  /** @param {number} milliseconds until the end of the quarantine; 0 for none */
  noteQuarantine(milliseconds) {
    this.#grantsFrom = this.#parts.clock.monotonic() + milliseconds;
  }

  /** Must be called when the connection fails or a session opens: a quarantine may have begun. */
  expectQuarantine() {
    this.#expiryChecks.expectQuarantine();
  }

  /** @param {Times} times when the answered call was sent */
  extendLease(times) {
    this.#parts.timers.set('deadline', this.#parts.lease.extend(times, this.#parts.status.ttl));
  }

  /** Must be called when the connection drops, so that no renewal follows the one under way. */
  forgetRenewals() {
    this.#isAgain = false;
  }

  renewIfOpen() {
    if (this.#parts.status.isOpen) this.renew();
  }

  /** If a renewal is under way, another one follows it; without a lease, nothing is sent. */
  renew() {
    if (!this.#parts.status.hasSession) return;
    if (this.#parts.calls.has('renew')) {
      this.#isAgain = true;
      return;
    }
    const times = this.#parts.lease.times();
    const { changes } = this.#parts.requests;
    this.#parts.grants.forgetEnds();
    this.renewAfter(times);
    this.#parts.calls.make(
      'renew',
      Math.min(this.#parts.status.ttl / 6, SIGN_OF_LIFE),
      () => this.#parts.adapter.renew({ ...this.#parts.status.seen }),
      (renewal) => this.#handleRenewal(renewal, times, changes),
    );
  }

  /**
   * Sets the timer of the next renewal, which comes sooner while a request is not granted.
   * @param {Times} times the time at which the last renewal, or the opening, was sent
   */
  renewAfter({ sent }) {
    const longest = this.#parts.requests.unheld > 0 ? SIGN_OF_LIFE : Number.POSITIVE_INFINITY;
    this.#parts.timers.set('renew', sent + Math.min(this.#parts.status.ttl / 3, longest));
  }

  /**
   * @param {Renewal} renewal @param {Times} times when the renewal was sent
   * @param {number} changes the request table's count of changes at that time
   */
  #handleRenewal(renewal, times, changes) {
    const status = this.#parts.status;
    if (!renewal.alive) {
      this.#parts.reactions.handleDeath();
      return;
    }
    status.seen.life = renewal.life;
    this.extendLease(times);
    this.#parts.outage.noteRenewed();
    if (status.isCutOff) this.#parts.sending.takeBackMissedSteps(renewal.step);
    if (this.#parts.rules.compares) this.#parts.grants.compareWithServer(renewal, changes);
    // The keeper may extend the lease in a new epoch only after this comparison.
    this.#keptLease?.update({ ...status.seen });
    if (renewal.step !== undefined) this.#parts.sendQueue.markDone(renewal.step);
    if (status.isCutOff) {
      status.set('open');
      this.#parts.readiness.resolve();
      this.checkExpirySoon();
    }
    this.noteQuarantine(renewal.grantsIn);
    const now = this.#parts.clock.monotonic();
    const { waiting } = this.#parts.requests;
    const next = this.#expiryChecks.handleRenewal(renewal, { now, ttl: status.ttl, waiting });
    if (next !== undefined) this.#parts.timers.set('sweep', next);
    if (this.#isAgain) {
      this.#isAgain = false;
      this.renew();
    }
  }

  /**
   * Must be called when a request begins to wait. The sessions that block it may expire, and this
   * session does not know yet when.
   */
  checkExpirySoon() {
    if (this.#expiryChecks.areGrantsPushed) return;
    this.#parts.timers.setBy('look', this.#parts.clock.monotonic() + this.#parts.status.ttl / 10);
  }

  /** Sends a check for expired leases if one is wanted, and renews after its answer. */
  sweep() {
    if (!this.#parts.status.isOpen || this.#parts.calls.has('sweep')) return;
    if (!this.#expiryChecks.isWanted(this.#parts.requests.waiting)) return;
    this.#expiryChecks.noteCheck(this.#parts.clock.monotonic());
    this.#parts.timers.clear('look');
    this.#parts.calls.make(
      'sweep',
      this.#parts.status.ttl / 3,
      () => this.#parts.adapter.sweep(),
      () => this.renew(),
    );
  }

  /** Has the keeper, if there is one, extend the lease while the event loop is blocked. */
  startKeeping() {
    const keeper = this.#parts.keeper;
    if (keeper === undefined) return;
    const cells = new LeaseCells();
    cells.isOpen = true;
    this.#parts.lease.cells = cells;
    this.showTurn();
    const keeping = {
      ticket: this.#parts.adapter.keeperTicket?.(),
      seen: { ...this.#parts.status.seen },
      ttl: this.#parts.status.ttl,
      margin: this.#parts.rules.margin,
      maxBlocked: keeper.maxBlocked,
    };
    this.#keptLease = keeper.keep(keeping, cells);
  }

  /** @returns {Promise<void> | undefined} resolves when the keeper no longer extends the lease */
  stopKeeping() {
    const keptLease = this.#keptLease;
    this.#keptLease = undefined;
    this.#parts.lease.cells = undefined;
    this.#parts.timers.clear('turn');
    return keptLease?.stop();
  }

  /** Shows the keeper that the event loop turns, and sets the timer of the next such sign. */
  showTurn() {
    const { cells } = this.#parts.lease;
    if (!cells || !this.#parts.keeper) return;
    const now = this.#parts.clock.monotonic();
    cells.lastTurn = now;
    this.#parts.timers.set('turn', now + Math.min(TURN, this.#parts.keeper.maxBlocked / 4));
  }
}

module.exports = { Renewing, SIGN_OF_LIFE };
