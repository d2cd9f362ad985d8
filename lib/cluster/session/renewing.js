'use strict';

/**
 * Renews the lease of a session. At each renewal it compares the server's list with ours, and
 * updates the session's keeper, if there is one. While a request waits, it also makes the server
 * check for expired leases (expiry-checks.js).
 */

const { ExpiryChecks } = require('./expiry-checks.js');
const { LeaseCells } = require('./lease-cells.js');

/** @import { Adapter, Renewal } from '../adapter.js' */
/** @import { Clock } from './clock.js' */
/** @import { Times } from './lease.js' */
/** @import { Keeper, KeptLease } from './lease-keeper.js' */
/** @import { Rules, SessionTimers } from './session.js' */

/** A session shows its keeper at least this often, in milliseconds, that its event loop turns. */
const TURN = 1000;

/**
 * While a request is not granted, a renewal is sent at least this often, in milliseconds, to find
 * out whether the connection was dropped silently. If the renewal is not answered within this time,
 * the session reconnects.
 */
const SIGN_OF_LIFE = 5000;

class Renewing {
  #adapter;
  #calls;
  #clock;
  #grants;
  #keeper;
  #lease;
  #outage;
  #readiness;
  #requests;
  #rules;
  #sendQueue;
  #status;
  #timers;
  #session;
  #expiryChecks;
  /** Undefined without a lease or without a keeper. @type {KeptLease | undefined} */
  #keptLease;
  /** Whether to renew again at once after the renewal under way, which may miss recent changes. */
  #isAgain = false;
  /** The end of the quarantine, on the monotonic clock. */
  #grantsFrom = 0;

  /**
   * @param {object} parts of the session @param {Adapter} parts.adapter
   * @param {InstanceType<typeof import('./in-flight-calls.js').InFlightCalls>} parts.calls
   * @param {Clock} parts.clock
   * @param {InstanceType<typeof import('./grants.js').Grants>} parts.grants
   * @param {Keeper | undefined} parts.keeper
   * @param {InstanceType<typeof import('./lease.js').Lease>} parts.lease
   * @param {InstanceType<typeof import('./outage.js').Outage>} parts.outage
   * @param {InstanceType<typeof import('./readiness.js').Readiness>} parts.readiness
   * @param {InstanceType<typeof import('./request-table.js').RequestTable>} parts.requests
   * @param {Rules} parts.rules
   * @param {InstanceType<typeof import('./send-queue.js').SendQueue>} parts.sendQueue
   * @param {InstanceType<typeof import('./status.js').Status>} parts.status
   * @param {SessionTimers} parts.timers
   * @param {object} session
   * @param {(done: number | undefined) => void} session.dropMissedSteps
   * @param {() => void} session.handleDeath called if the server has ended the session
   */
  constructor(parts, session) {
    this.#adapter = parts.adapter;
    this.#calls = parts.calls;
    this.#clock = parts.clock;
    this.#grants = parts.grants;
    this.#keeper = parts.keeper;
    this.#lease = parts.lease;
    this.#outage = parts.outage;
    this.#readiness = parts.readiness;
    this.#requests = parts.requests;
    this.#rules = parts.rules;
    this.#sendQueue = parts.sendQueue;
    this.#status = parts.status;
    this.#timers = parts.timers;
    this.#session = session;
    this.#expiryChecks = new ExpiryChecks(parts.adapter.can.endsLeases === true);
  }

  /** Milliseconds until the quarantine ends; 0 for none. */
  get grantsIn() {
    return Math.max(this.#grantsFrom - this.#clock.monotonic(), 0);
  }

  /** @param {number} milliseconds until the end of the quarantine; 0 for none */
  noteQuarantine(milliseconds) {
    this.#grantsFrom = this.#clock.monotonic() + milliseconds;
  }

  /** Must be called when the connection fails or a session opens: a quarantine may have begun. */
  expectQuarantine() {
    this.#expiryChecks.expectQuarantine();
  }

  /** @param {Times} times when the answered call was sent */
  extendLease(times) {
    this.#timers.set('deadline', this.#lease.extend(times, this.#status.ttl));
  }

  /** Must be called when the connection drops, so that no renewal follows the one under way. */
  forgetRenewals() {
    this.#isAgain = false;
  }

  renewIfOpen() {
    if (this.#status.isOpen) this.renew();
  }

  /** If a renewal is under way, another one follows it; without a lease, nothing is sent. */
  renew() {
    if (!this.#status.hasLease) return;
    if (this.#calls.has('renew')) {
      this.#isAgain = true;
      return;
    }
    const times = this.#lease.times();
    const { news } = this.#requests;
    this.#grants.forgetEnds();
    this.renewAfter(times);
    this.#calls.make(
      'renew',
      Math.min(this.#status.ttl / 6, SIGN_OF_LIFE),
      () => this.#adapter.renew({ ...this.#status.seen }),
      (renewal) => this.#handleRenewal(renewal, times, news),
    );
  }

  /**
   * Sets the timer of the next renewal, which comes sooner while a request is not granted.
   * @param {Times} times the time at which the last renewal, or the opening, was sent
   */
  renewAfter({ sent }) {
    const longest = this.#requests.unheld > 0 ? SIGN_OF_LIFE : Number.POSITIVE_INFINITY;
    this.#timers.set('renew', sent + Math.min(this.#status.ttl / 3, longest));
  }

  /**
   * @param {Renewal} renewal @param {Times} times when the renewal was sent
   * @param {number} news the request table's count of changes at that time
   */
  #handleRenewal(renewal, times, news) {
    const status = this.#status;
    if (!renewal.alive) {
      this.#session.handleDeath();
      return;
    }
    status.seen.life = renewal.life;
    this.extendLease(times);
    this.#outage.noteRenewed();
    if (status.isCutOff) this.#session.dropMissedSteps(renewal.step);
    if (this.#rules.compares) this.#grants.compareWithServer(renewal, news);
    // The keeper may extend the lease in a new epoch only after this comparison.
    this.#keptLease?.update({ ...status.seen });
    if (renewal.step !== undefined) this.#sendQueue.markDone(renewal.step);
    if (status.isCutOff) {
      status.set('open');
      this.#readiness.resolve();
      this.checkExpirySoon();
    }
    this.noteQuarantine(renewal.grantsIn);
    const now = this.#clock.monotonic();
    const { waiting } = this.#requests;
    const next = this.#expiryChecks.handleRenewal(renewal, { now, ttl: status.ttl, waiting });
    if (next !== undefined) this.#timers.set('sweep', next);
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
    this.#timers.setBy('look', this.#clock.monotonic() + this.#status.ttl / 10);
  }

  /** Sends a check for expired leases if one is wanted, and renews after its answer. */
  sweep() {
    if (!this.#status.isOpen || this.#calls.has('sweep')) return;
    if (!this.#expiryChecks.isWanted(this.#requests.waiting)) return;
    this.#expiryChecks.noteCheck(this.#clock.monotonic());
    this.#timers.clear('look');
    this.#calls.make(
      'sweep',
      this.#status.ttl / 3,
      () => this.#adapter.sweep(),
      () => this.renew(),
    );
  }

  /** Has the keeper, if there is one, extend the lease while the event loop is blocked. */
  startKeeping() {
    const keeper = this.#keeper;
    if (keeper === undefined) return;
    const cells = new LeaseCells();
    cells.isOpen = true;
    this.#lease.cells = cells;
    this.showTurn();
    const keeping = {
      ticket: this.#adapter.keeperTicket?.(),
      seen: { ...this.#status.seen },
      ttl: this.#status.ttl,
      margin: this.#rules.margin,
      maxBlocked: keeper.maxBlocked,
    };
    this.#keptLease = keeper.keep(keeping, cells);
  }

  /** @returns {Promise<void> | undefined} resolves when the keeper no longer extends the lease */
  stopKeeping() {
    const keptLease = this.#keptLease;
    this.#keptLease = undefined;
    this.#lease.cells = undefined;
    this.#timers.clear('turn');
    return keptLease?.stop();
  }

  /** Shows the keeper that the event loop turns, and sets the timer of the next such sign. */
  showTurn() {
    const { cells } = this.#lease;
    if (!cells || !this.#keeper) return;
    const now = this.#clock.monotonic();
    cells.lastTurn = now;
    this.#timers.set('turn', now + Math.min(TURN, this.#keeper.maxBlocked / 4));
  }
}

module.exports = { Renewing, SIGN_OF_LIFE };
