'use strict';

/**
 * The connection of a session. It opens a session and closes the one before it. If a connection
 * fails, it makes a new connection for the same session.
 */

const { within } = require('./within.js');

/** @import { Adapter, SessionInfo } from '../adapter.js' */
/** @import { Call } from './in-flight-calls.js' */
/** @import { Clock } from './clock.js' */
/** @import { Times } from './lease.js' */
/** @import { ConnectionTimer, SessionTimers } from './session.js' */

/** Cleared when the connection is dropped. @type {ConnectionTimer[]} */
const TIMERS = ['renew', 'sweep', 'look', 'reconnect', 'open'];

/** The calls by which a connection is made. @type {Call[]} */
const CONNECTING = ['open', 'hello', 'renew'];

class Connection {
  #adapter;
  #calls;
  #clock;
  #grants;
  #info;
  #lease;
  #outage;
  #readiness;
  #renewing;
  #sendQueue;
  #status;
  #timers;
  #handleRejection;
  /** The id of the previous session, until the server has confirmed its end. */
  #previous = '';
  /** @type {Promise<{ session: string } | undefined> | undefined} */
  #opening;
  /**
   * Set if a new connection failed before its session was open: the error, or `true` if there is
   * none.
   * @type {unknown}
   */
  #earlyBreak;

  /**
   * @param {object} parts of the session @param {Adapter} parts.adapter
   * @param {InstanceType<typeof import('./in-flight-calls.js').InFlightCalls>} parts.calls
   * @param {Clock} parts.clock
   * @param {InstanceType<typeof import('./grants.js').Grants>} parts.grants
   * @param {SessionInfo} parts.info
   * @param {InstanceType<typeof import('./lease.js').Lease>} parts.lease
   * @param {InstanceType<typeof import('./outage.js').Outage>} parts.outage
   * @param {InstanceType<typeof import('./readiness.js').Readiness>} parts.readiness
   * @param {InstanceType<typeof import('./renewing.js').Renewing>} parts.renewing
   * @param {InstanceType<typeof import('./send-queue.js').SendQueue>} parts.sendQueue
   * @param {InstanceType<typeof import('./status.js').Status>} parts.status
   * @param {SessionTimers} parts.timers
   * @param {(error: unknown) => void} handleRejection of an opening
   */
  constructor(parts, handleRejection) {
    this.#adapter = parts.adapter;
    this.#calls = parts.calls;
    this.#clock = parts.clock;
    this.#grants = parts.grants;
    this.#info = parts.info;
    this.#lease = parts.lease;
    this.#outage = parts.outage;
    this.#readiness = parts.readiness;
    this.#renewing = parts.renewing;
    this.#sendQueue = parts.sendQueue;
    this.#status = parts.status;
    this.#timers = parts.timers;
    this.#handleRejection = handleRejection;
  }

  /** Ignores further answers over the connection, and prepares its steps for the next one. */
  drop() {
    this.#calls.dropConnection();
    this.#sendQueue.requeueAfterDisconnect();
    this.#renewing.forgetRenewals();
    for (const timer of TIMERS) this.#timers.clear(timer);
  }

  /** Drops the connection, opens the next session, and closes the previous one. */
  open() {
    const status = this.#status;
    this.drop();
    const times = this.#lease.times();
    if (status.state !== 'opening' && status.state !== 'refused') status.set('opening');
    const opening = this.#openAndClosePrevious(times.sent);
    this.#opening = opening;
    this.#calls.make(
      'open',
      status.ttl,
      () => opening,
      ({ session, ttl, life, grantsIn = 0 }) => {
        this.#opening = undefined;
        status.seen.life = life;
        this.#renewing.noteQuarantine(grantsIn);
        this.#handleOpened(session, ttl, times);
      },
      (error) => {
        this.#opening = undefined;
        this.#handleRejection(error);
      },
    );
  }

  /** @param {number} sent */
  async #openAndClosePrevious(sent) {
    const { seen, ttl } = this.#status;
    const opened = await this.#adapter.open(this.#info, ttl, { ...seen });
    this.#earlyBreak = undefined;
    await this.#closePrevious(sent);
    return opened;
  }

  /**
   * Closes the previous session. The new session waits for that for at most a sixth of a `ttl`, and
   * at most until half a `ttl` has passed since `sent`. If the bucket has been closed meanwhile, it
   * does not wait at all.
   * @param {number} sent when the opening of the new session began
   */
  async #closePrevious(sent) {
    const session = this.#previous;
    if (!session) return;
    const { state, ttl } = this.#status;
    try {
      const rest = state === 'closed' ? 0 : sent + ttl / 2 - this.#clock.monotonic();
      await this.#within(this.#adapter.close(session), Math.min(ttl / 6, rest));
      if (this.#previous === session) this.#previous = '';
    } catch {
      // If the server cannot be reached, the session expires by itself.
    }
  }

  /**
   * Begins to use the session; if its lease has already expired, another one is opened later.
   * @param {string} session @param {number} ttl @param {Times} times
   */
  #handleOpened(session, ttl, times) {
    const status = this.#status;
    status.id = session;
    status.ttl = ttl;
    this.#outage.noteOpened();
    this.#renewing.expectQuarantine();
    this.#grants.forgetEnds();
    this.#renewing.extendLease(times);
    if (this.#lease.rest() <= 0) {
      this.forgetSession();
      const what = 'The lease expired while the session was being opened';
      this.openLater(this.#outage.timeoutError(what));
      return;
    }
    this.#renewing.renewAfter(times);
    this.#timers.clear('unopened');
    status.set('open');
    this.#renewing.startKeeping();
    this.#readiness.resolve();
    if (this.#earlyBreak !== undefined) this.handleDisconnect(this.#earlyBreak);
  }

  /** Drops the connection, and opens a session after a pause. @param {unknown} error */
  openLater(error) {
    const status = this.#status;
    if (status.state === 'refused' && error !== this.#outage.refusal) status.set('opening');
    this.#outage.noteError(error);
    this.drop();
    this.#timers.clear('deadline');
    this.#timers.set('open', this.#clock.monotonic() + this.#outage.nextOpenDelay());
  }

  /**
   * Opens the next session after a loss; after a pause if the lost session was never renewed.
   * @param {unknown} cause
   */
  openAgain(cause) {
    // The pause prevents a rapid series of sessions that end before their first renewal.
    if (this.#outage.noteLost()) this.open();
    else this.openLater(cause);
  }

  /** Stops the keeper; the next opening closes the session on the server. */
  forgetSession() {
    this.#previous = this.#status.id;
    this.#status.id = '';
    this.#renewing.stopKeeping();
  }

  /**
   * Defers the handling if the session is still being opened. While `hello` replaces the
   * connection, there is nothing to do: its answer tells whether the new one works.
   * @param {unknown} error
   */
  handleDown(error) {
    if (this.#status.isOpen) this.handleDisconnect(error);
    else if (!this.#status.hasLease) this.#earlyBreak = error ?? true;
    else if (this.#calls.has('renew')) this.reconnectLater(error);
  }

  /** Reconnects after a pause if there is a lease. @param {unknown} error */
  handleDisconnect(error) {
    const status = this.#status;
    if (!status.hasLease) return;
    this.reconnectLater(error);
    if (status.state !== 'suspect') status.set('suspect', undefined, error);
  }

  /** Drops the connection, and calls `hello` after a pause. @param {unknown} error */
  reconnectLater(error) {
    this.#outage.noteError(error);
    this.drop();
    this.#renewing.expectQuarantine();
    this.#timers.set('reconnect', this.#clock.monotonic() + this.#outage.nextReconnectDelay());
  }

  /** If the session is cut off, connects by a call of `hello`, and renews after its answer. */
  reconnect() {
    const status = this.#status;
    if (!status.isCutOff) return;
    this.drop();
    this.#calls.make(
      'hello',
      status.ttl / 4,
      () => this.#adapter.hello({ ...status.seen }),
      () => this.#renewing.renew(),
    );
  }

  /** Makes the next attempt soon, unless one is under way. */
  retrySoon() {
    if (CONNECTING.some((call) => this.#calls.has(call))) return;
    const timer = this.#status.hasLease ? 'reconnect' : 'open';
    this.#timers.setBy(timer, this.#clock.monotonic() + this.#outage.soonDelay());
  }

  /**
   * Callers ignore the error of the time limit.
   * @template T @param {Promise<T>} promise @param {number} milliseconds
   */
  #within(promise, milliseconds) {
    return within(this.#clock, promise, milliseconds, () => undefined);
  }

  /**
   * Ends the session on the server, and disposes the adapter. If a session is just being opened,
   * this waits for it and ends that session.
   * @param {string} session '' for none @param {number} patience milliseconds
   */
  async close(session, patience) {
    try {
      const opened = this.#opening && (await this.#within(this.#opening, patience));
      const last = opened?.session || session || this.#previous;
      if (last) await this.#within(this.#adapter.close(last), patience);
    } catch {
      // If the server cannot be reached, the session expires by itself.
    }
    // If `open` is answered later, `#closePrevious` must not call the disposed adapter.
    this.#previous = '';
    try {
      await this.#adapter.dispose();
    } catch {
      // Nobody could do anything about this error.
    }
  }
}

module.exports = { Connection };
