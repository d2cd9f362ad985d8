'use strict';

/**
 * The connection of a session. It opens a session and closes the one before it. If a connection
 * fails, it makes a new connection for the same session.
 */

const { within } = require('./within.js');

/** @import { Call } from './in-flight-calls.js' */
/** @import { Times } from './lease.js' */
/** @import { ConnectionTimer } from './session.js' */
/** @typedef {InstanceType<typeof import('./parts.js').SessionParts>} Parts */

/** Cleared when the connection is dropped. @type {ConnectionTimer[]} */
const TIMERS = ['renew', 'sweep', 'look', 'reconnect', 'open'];

/** The calls by which a connection is made. @type {Call[]} */
const CONNECTING = ['open', 'hello', 'renew'];

class Connection {
  #parts;
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

  /** @param {Parts} parts */
  constructor(parts) {
    this.#parts = parts;
  }

  /** Ignores further answers over the connection, and prepares its steps for the next one. */
  drop() {
    this.#parts.calls.dropConnection();
    this.#parts.sendQueue.requeueAfterDisconnect();
    this.#parts.renewing.forgetRenewals();
    for (const timer of TIMERS) this.#parts.timers.clear(timer);
  }

  /** Drops the connection, opens the next session, and closes the previous one. */
  open() {
    const status = this.#parts.status;
    this.drop();
    const times = this.#parts.lease.times();
    if (status.state !== 'opening' && status.state !== 'refused') status.set('opening');
    const opening = this.#openAndClosePrevious(times.sent);
    this.#opening = opening;
    this.#parts.calls.make(
      'open',
      status.ttl,
      () => opening,
      ({ session, ttl, life, grantsIn = 0 }) => {
        this.#opening = undefined;
        status.seen.life = life;
        this.#parts.renewing.noteQuarantine(grantsIn);
        this.#handleOpened(session, ttl, times);
      },
      (error) => {
        this.#opening = undefined;
        this.#parts.reactions.handleRejection('open', error);
      },
    );
  }

  /** @param {number} sent */
  async #openAndClosePrevious(sent) {
    const { seen, ttl } = this.#parts.status;
    const opened = await this.#parts.adapter.open(this.#parts.info, ttl, { ...seen });
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
    const { state, ttl } = this.#parts.status;
    try {
      const rest = state === 'closed' ? 0 : sent + ttl / 2 - this.#parts.clock.monotonic();
      await this.#within(this.#parts.adapter.close(session), Math.min(ttl / 6, rest));
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
    const status = this.#parts.status;
    status.id = session;
    status.ttl = ttl;
    this.#parts.outage.noteOpened();
    this.#parts.renewing.expectQuarantine();
    this.#parts.grants.forgetEnds();
    this.#parts.renewing.extendLease(times);
    if (this.#parts.lease.rest() <= 0) {
      this.forgetSession();
      const what = 'The lease expired while the session was being opened';
      this.openLater(this.#parts.outage.timeoutError(what));
      return;
    }
    this.#parts.renewing.renewAfter(times);
    this.#parts.timers.clear('unopened');
    status.set('open');
    this.#parts.renewing.startKeeping();
    this.#parts.readiness.resolve();
    if (this.#earlyBreak !== undefined) this.handleDisconnect(this.#earlyBreak);
  }

  /** Drops the connection, and opens a session after a pause. @param {unknown} error */
  openLater(error) {
    const status = this.#parts.status;
    if (status.state === 'refused' && error !== this.#parts.outage.refusal) status.set('opening');
    this.#parts.outage.noteError(error);
    this.drop();
    this.#parts.timers.clear('deadline');
    this.#setTimer('open', this.#parts.outage.nextOpenDelay());
  }

  /**
   * Opens the next session after a loss; after a pause if an attempt has failed since a renewal.
   * @param {unknown} cause
   */
  openAgain(cause) {
    // The pause prevents a rapid series of sessions that end before their first renewal.
    if (this.#parts.outage.noteLost()) this.open();
    else this.openLater(cause);
  }

  /** Stops the keeper; the next opening closes the session on the server. */
  forgetSession() {
    this.#previous = this.#parts.status.id;
    this.#parts.status.id = '';
    this.#parts.renewing.stopKeeping();
  }

  /**
   * Defers the handling if the session is still being opened. While `hello` replaces the
   * connection, there is nothing to do: its answer tells whether the new one works.
   * @param {unknown} error
   */
  handleDown(error) {
    if (this.#parts.status.isOpen) this.handleDisconnect(error);
    else if (!this.#parts.status.hasSession) this.#earlyBreak = error ?? true;
    else if (this.#parts.calls.has('renew')) this.reconnectLater(error);
  }

  /** Reconnects after a pause if there is a lease. @param {unknown} error */
  handleDisconnect(error) {
    const status = this.#parts.status;
    if (!status.hasSession) return;
    this.reconnectLater(error);
    if (status.state !== 'suspect') status.set('suspect', undefined, error);
  }

  /** Ignores errors of older connections. @param {number} connection @param {unknown} error */
  handleDisconnectOf(connection, error) {
    const { calls, reactions } = this.#parts;
    reactions.react(() => connection === calls.connection && this.handleDisconnect(error));
  }

  /** Drops the connection, and calls `hello` after a pause. @param {unknown} error */
  reconnectLater(error) {
    this.#parts.outage.noteError(error);
    this.drop();
    this.#parts.renewing.expectQuarantine();
    this.#setTimer('reconnect', this.#parts.outage.nextReconnectDelay());
  }

  /** If the session is cut off, connects by a call of `hello`, and renews after its answer. */
  reconnect() {
    const status = this.#parts.status;
    if (!status.isCutOff) return;
    this.drop();
    this.#parts.calls.make(
      'hello',
      status.ttl / 4,
      () => this.#parts.adapter.hello({ ...status.seen }),
      () => this.#parts.renewing.renew(),
    );
  }

  /** Makes the next attempt soon, unless one is under way. */
  retrySoon() {
    if (CONNECTING.some((call) => this.#parts.calls.has(call))) return;
    const timer = this.#parts.status.hasSession ? 'reconnect' : 'open';
    this.#setTimer(timer, this.#parts.outage.soonDelay());
  }

  /** Sets a timer unless it is due earlier. @param {ConnectionTimer} timer @param {number} delay */
  #setTimer(timer, delay) {
    this.#parts.timers.setBy(timer, this.#parts.clock.monotonic() + delay);
  }

  /**
   * Callers ignore the error of the time limit.
   * @template T @param {Promise<T>} promise @param {number} milliseconds
   */
  #within(promise, milliseconds) {
    return within(this.#parts.clock, promise, milliseconds, () => undefined);
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
      if (last) await this.#within(this.#parts.adapter.close(last), patience);
    } catch {
      // If the server cannot be reached, the session expires by itself.
    }
    // If `open` is answered later, `#closePrevious` must not call the disposed adapter.
    this.#previous = '';
    try {
      await this.#parts.adapter.dispose();
    } catch {
      // Nobody could do anything about this error.
    }
  }
}

module.exports = { Connection };
