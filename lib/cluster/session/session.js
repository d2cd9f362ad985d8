'use strict';

/**
 * The state machine of a manager's session with an engine. The backend calls `start`, `request` and
 * `end`, and the listener receives the results. The server may be slow, replaced or restored from
 * old data, and this process may be suspended for any length of time. No method throws.
 *
 *   new ─▶ opening ─▶ open ◀─▶ suspect          any ─▶ closed
 *             ▲         │          │
 *             └─ lost ◀─┴──────────┘              any but closed ◀─▶ refused
 *
 * Lease: the server keeps the session for `ttl` after it executes a renewal; here the lease lasts
 * 0.9 `ttl` from the time when the renewal was sent. So if clock rates differ by less than 10 %, a
 * lock ends here before the server grants it again. `#react` checks the lease before every event.
 * Lost: the locks are lost. The old session is closed, since its requests would otherwise stand
 * ahead of those of the next session. The next session repeats the requests that were not held yet,
 * in their order, with new `ref`s.
 * Suspect: the connection failed, and locks stay held until the lease ends. The session calls
 * `hello` for a new connection, renews, and compares the server's list with ours. It repeats the
 * unanswered steps, or, of those that the server missed, the operations that are still wanted.
 * Refused: the server rejects this client. Locks and queued requests stay until the lease ends;
 * other requests fail with the server's error until another attempt to connect succeeds.
 */

const { waits } = require('../adapter.js');
const { bucketClosedError } = require('../../platform/errors.js');
const { reasonError } = require('./outage.js');
const { SessionParts } = require('./parts.js');
const { isRefusal } = require('./sending.js');
const { systemClock } = require('./clock.js');
const { GRANTED_PARTIAL, ASKED, ENDING, GONE, HELD, WAITING } = require('./tracked-request.js');

/** @import { Adapter, Answer, SessionInfo } from '../adapter.js' */
/** @import { Call, CallTimeout } from './in-flight-calls.js' */
/** @import { Clock } from './clock.js' */
/** @import { Keeper } from './lease-keeper.js' */
/** @typedef {InstanceType<typeof import('./tracked-request.js').TrackedRequest>} TrackedRequest */

/** @typedef {'new' | 'opening' | 'open' | 'suspect' | 'refused' | 'lost' | 'closed'} State */
/**
 * Why a lock was lost; see `LossReason` in backend/contract.js. If a permanent error closes the
 * session, the reason is `unreachable`.
 * @typedef {'expired' | 'unreachable' | 'failover' | 'closed'} Reason
 */

/**
 * The listener's functions must not run user code, except `settled`, which is called at the end of
 * each event.
 * @typedef {object} Listener
 * @property {(tracked: TrackedRequest) => void} granted
 * @property {(tracked: TrackedRequest) => void} passed the request ended instead of being granted
 * @property {(tracked: TrackedRequest, answer: Answer) => void} denied `answer.code` says why
 * @property {(tracked: TrackedRequest, thief: string) => void} stolen
 * @property {(tracked: TrackedRequest, reason: Reason, cause: unknown) => void} lost is also called
 *   for an ended request that should have marked its name, if it did not, or if that is unknown
 * @property {(tracked: TrackedRequest, error: unknown) => void} failed
 * @property {(state: State, reason?: Reason, cause?: unknown) => void} changed
 * @property {(why: unknown) => void} unopened a `ttl` has passed without an open session
 * @property {() => void} settled
 * @property {() => boolean} hasPendingAnswers whether callbacks for answers have yet to be called
 */

/**
 * Rules that tests can switch off, to show that they matter.
 * @typedef {object} Rules
 * @property {number} margin the fraction of the `ttl` for which a lock is held here
 * @property {boolean} compares whether each renewal compares the server's list with ours
 */

const RULES = Object.freeze({ margin: 0.9, compares: true });

/**
 * When the connection is lost, every `ConnectionTimer` is cleared.
 * @typedef {'deadline' | 'unanswered' | 'busy' | 'unopened' | 'turn' | ConnectionTimer |
 *   CallTimeout} Item
 * @typedef {'renew' | 'sweep' | 'look' | 'reconnect' | 'open'} ConnectionTimer
 */

/** @typedef {InstanceType<typeof import('./timers.js').Timers<Item>>} SessionTimers */

class Session {
  #parts;
  /** @type {Promise<void> | undefined} */
  #closed;

  /**
   * @param {object} options @param {Adapter} options.adapter for this session alone
   * @param {SessionInfo} options.info @param {number} options.ttl @param {Clock} [options.clock]
   * @param {Partial<Rules>} [options.rules] @param {Keeper} [options.keeper]
   * @param {Listener} listener
   */
  constructor({ adapter, info, ttl, clock = systemClock, rules: given, keeper }, listener) {
    const rules = { ...RULES, ...given };
    this.#parts = new SessionParts({ adapter, info, ttl, clock, rules, keeper }, listener, {
      react: (work) => this.#react(work),
      handleDue: (due) => this.#handleDue(due),
      handleChange: (...change) => this.#handleChange(...change),
      handleRejection: (call, error) => this.#handleRejection(call, error),
      handleDeath: () => this.#loseSession('failover', undefined),
      end: (tracked) => this.end(tracked),
    });
    const { connection, grants, renewing } = this.#parts;
    adapter.events = {
      granted: (ref, token) => this.#react(() => grants.handleGrantHint(ref, token)),
      stolen: (ref, thief) => this.#react(() => grants.handleTheftHint(ref, thief)),
      changed: () => this.#react(() => renewing.renewIfOpen()),
      down: (error) => this.#react(() => connection.handleDown(error)),
    };
  }

  get state() {
    return this.#parts.status.state;
  }

  start() {
    this.#makeReadyPromise();
    this.#setOutageTimer();
    this.#parts.connection.open();
    this.#parts.keepAlive.update();
  }

  /** If the session is not open and no promise is pending, this makes one and retries soon. */
  get ready() {
    const isReadable = this.state === 'open' || this.state === 'closed';
    if (!isReadable && !this.#parts.readiness.isAwaited) {
      this.#makeReadyPromise();
      this.#parts.connection.retrySoon();
      this.#parts.keepAlive.update();
    }
    return this.#parts.readiness.promise;
  }

  #makeReadyPromise() {
    this.#parts.readiness.begin(this.#now() + this.#parts.status.ttl);
    this.#parts.timers.setBy('unanswered', this.#parts.readiness.by);
  }

  /** Warns users if there is no session after a `ttl`. */
  #setOutageTimer() {
    this.#parts.timers.setBy('unopened', this.#now() + this.#parts.status.ttl);
  }

  /** The error of all requests once the session is closed; undefined until then. */
  get closed() {
    return this.#parts.outage.closeReason;
  }

  /** Why new requests fail at once; undefined if they do not. */
  get error() {
    return this.#parts.outage.rejection;
  }

  /**
   * Returns why the server has not answered a request. Returns undefined if it may still answer: if
   * a time limit is shorter than a round trip, a missing answer proves nothing about the server.
   * @param {TrackedRequest} [tracked]
   */
  outage(tracked) {
    const { error } = this;
    const { calls, outage, queries } = this.#parts;
    if (error !== undefined) return error;
    const isOpen = this.state === 'open';
    if (isOpen && tracked?.state === ASKED && tracked.obstacle !== undefined)
      return tracked.obstacle;
    const isFirstTry = outage.reason === undefined && ['new', 'opening'].includes(this.state);
    const isSilent = calls.isServerSilent || queries.isServerSilent;
    return (isOpen || isFirstTry) && !isSilent ? undefined : reasonError(outage.reason);
  }

  /** Adds a request or a group. Check `error` before. @param {TrackedRequest[]} requests */
  request(requests) {
    const { status, timers } = this.#parts;
    for (const tracked of requests) {
      tracked.asked = this.#now();
      this.#parts.requests.enter(tracked);
      if (!waits(tracked.op)) timers.setBy('unanswered', tracked.asked + status.ttl);
    }
    this.#parts.sendQueue.add(requests.map(({ op }) => op));
    this.#parts.sending.sendSoon();
    this.#parts.keepAlive.update();
  }

  /**
   * Withdraws a request, or releases its lock and marks the name for `markFor` milliseconds (0: no
   * mark). The promise resolves when the server has ended the request or no longer needs to; it
   * never rejects. The result is undefined if the server has nothing to end.
   * @param {TrackedRequest} tracked @param {number} [markFor] @returns {Promise<void> | undefined}
   */
  end(tracked, markFor = 0) {
    if (tracked.state === GONE) return undefined;
    if (tracked.state === ENDING) return tracked.ended;
    if (tracked.state === ASKED && this.#parts.sendQueue.remove(tracked.op)) {
      this.#parts.requests.leave(tracked);
      this.#parts.keepAlive.update();
      return undefined;
    }
    this.#parts.requests.move(tracked, ENDING);
    tracked.markFor = markFor;
    const { ref, name } = tracked.op;
    this.#parts.sendQueue.add([{ kind: 'end', ref, name, markFor }]);
    this.#parts.sending.sendSoon();
    this.#parts.keepAlive.update();
    return tracked.ended;
  }

  /**
   * Publishes data of a lock, at most one text at a time (publications.js).
   * @param {TrackedRequest} tracked held @param {string} text JSON; '' removes the data
   * @returns {Promise<boolean>} false if the lock has ended; rejects only if the server refuses
   */
  publish(tracked, text) {
    return this.#parts.keepAlive.during(() => {
      const outcome = this.#parts.publications.publish(tracked, text);
      this.#parts.sending.sendSoon();
      return outcome;
    });
  }

  /**
   * Returns the request's stage; 'grantedPartial' means granted, while its group is incomplete.
   * @param {TrackedRequest} tracked neither held nor ended
   */
  progress({ op, state }) {
    if (state === WAITING) return 'waiting';
    if (state === GRANTED_PARTIAL) return 'grantedPartial';
    return this.#parts.sendQueue.isInFlight(op) ? 'sent' : 'unsent';
  }

  /** Milliseconds until the locks are lost. If the lease has ended, this call loses them. */
  remaining() {
    if (!this.#parts.status.hasSession) return 0;
    const rest = this.#parts.lease.rest();
    if (rest > 0) return rest;
    this.#handleExpiry();
    this.#settleSoon();
    return 0;
  }

  /** Lets the listener announce a loss in a microtask. */
  async #settleSoon() {
    await undefined;
    this.#react(() => {});
  }

  /** Must be called if the server no longer has a held lock. @param {TrackedRequest} tracked */
  loseMissing(tracked) {
    this.#react(() => {
      if (tracked.state !== HELD) return;
      this.#parts.requests.leave(tracked);
      this.#parts.listener.lost(tracked, 'failover', undefined);
    });
  }

  get queries() {
    return this.#parts.queries;
  }

  /** The listener receives all its calls before the promise resolves; the promise never rejects. */
  close() {
    // If the session has never opened, the error says why.
    const { outage, readiness } = this.#parts;
    const cause = readiness.isReached ? outage.refusal : outage.reason;
    this.#closed ??= this.#stop('closed', bucketClosedError(cause), undefined);
    return this.#closed;
  }

  /** Milliseconds until the quarantine ends; 0 for none. */
  get grantsIn() {
    return this.#parts.renewing.grantsIn;
  }

  #now() {
    return this.#parts.clock.monotonic();
  }

  /** @param {Item[]} due */
  #handleDue(due) {
    for (const item of due) this.#react(() => this.#handleTimer(item));
  }

  /** @param {Item} item */
  #handleTimer(item) {
    const { calls, connection, lease, losses, outage, renewing, sending } = this.#parts;
    if (item === 'renew') renewing.renew();
    else if (item === 'sweep' || item === 'look') renewing.sweep();
    else if (item === 'reconnect') connection.reconnect();
    else if (item === 'open') connection.open();
    else if (item === 'unanswered') losses.failUnanswered();
    else if (item === 'busy') sending.repeatBusy();
    else if (item === 'unopened') this.#warnSoon();
    else if (item === 'turn') renewing.showTurn();
    else if (item !== 'deadline') {
      const error = outage.timeoutError(calls.describeTimeout(item));
      if (item === 'no open') connection.openLater(error);
      else connection.handleDisconnect(error);
      // `#react` has already handled an expired lease, so this lease lasts longer than its timer
      // did: set the timer again.
    } else if (this.#parts.status.hasSession)
      this.#parts.timers.set('deadline', this.#now() + Math.max(lease.rest(), 1));
  }

  /**
   * Does the work and everything that follows from it; nothing once the session is closed. If the
   * lease has ended, the locks are lost before the work.
   * @param {() => void} work
   */
  #react(work) {
    if (this.state === 'closed') return;
    if (this.#parts.status.hasSession) {
      const rest = this.#parts.lease.rest();
      if (rest <= 0) this.#handleExpiry();
      // The timer does not count the time while the machine slept, but the lease does.
      else this.#parts.timers.setBy('deadline', this.#now() + rest);
    }
    work();
    this.#parts.sending.sendSoon();
    this.#parts.keepAlive.update();
    this.#parts.listener.settled();
  }

  /**
   * After a misuse, closes the session for good; otherwise reconnects or opens another session.
   * @param {Call} call @param {unknown} error
   */
  #handleRejection(call, error) {
    const meaning = this.#parts.adapter.classify(error);
    // Once the session has been open, a local error may come from a broken connection, so retry.
    const isMisuse =
      meaning === 'misuse' || (meaning === 'local' && !this.#parts.readiness.isReached);
    if (isMisuse) this.#failForGood(error);
    else if (isRefusal(meaning) && call !== 'sweep') this.#handleRefusal(error);
    else if (call === 'open') this.#parts.connection.openLater(error);
    else if (meaning === 'dead') this.#loseSession('failover', error);
    else this.#parts.connection.handleDisconnect(error);
  }

  /** Fails `ready` and unanswered requests, and tries again later. @param {unknown} error */
  #handleRefusal(error) {
    this.#parts.outage.refusal = error;
    this.#parts.losses.refuse(error);
    if (this.#parts.status.hasSession) this.#parts.connection.reconnectLater(error);
    else this.#parts.connection.openLater(error);
    if (this.state !== 'refused') this.#parts.status.set('refused', undefined, error);
    this.#parts.readiness.reject(error);
  }

  /**
   * Notifies the listener, the keeper and the queries. In most states, an earlier refusal is over.
   * @param {State} state @param {Reason} [reason] @param {unknown} [cause]
   */
  #handleChange(state, reason, cause) {
    const { cells } = this.#parts.lease;
    if (cells) cells.isOpen = state === 'open';
    if (state !== 'refused' && state !== 'lost') this.#parts.outage.endRefusal();
    this.#parts.listener.changed(state, reason, cause);
    this.#parts.queries.handleChange();
  }

  #handleExpiry() {
    const { lease, outage, status } = this.#parts;
    if (lease.isEndedByServer) this.#loseSession('failover', undefined);
    else if (status.isCutOff) this.#loseSession('unreachable', outage.reason);
    else this.#loseSession('expired', undefined);
  }

  /** Opens the next session as well. @param {Reason} reason @param {unknown} cause */
  #loseSession(reason, cause) {
    const { refusal } = this.#parts.outage;
    const planned = this.#parts.losses.plan();
    this.#parts.connection.drop();
    this.#parts.timers.clear('deadline');
    this.#parts.sending.clear();
    this.#parts.losses.carryOut(planned, reason, cause);
    this.#parts.status.set('lost', reason, cause);
    this.#parts.connection.forgetSession();
    this.#setOutageTimer();
    if (refusal !== undefined) this.#parts.status.set('refused', undefined, refusal);
    this.#parts.connection.openAgain(cause);
  }

  /** A user who closes the bucket when `ready` rejects must not get a warning, hence the delay. */
  #warnSoon() {
    const { clock, listener, outage, status } = this.#parts;
    clock.setImmediate(() =>
      this.#react(() => {
        if (!status.hasSession) listener.unopened(outage.reason);
      }),
    );
  }

  /** @param {unknown} error an error that every further attempt would get */
  #failForGood(error) {
    this.#closed ??= this.#stop('unreachable', error, error);
  }

  /**
   * Ends all requests at once, and then ends the session on the server.
   * @param {Reason} reason for locks @param {unknown} error for requests @param {unknown} cause
   */
  async #stop(reason, error, cause) {
    const { hasSession, id, ttl } = this.#parts.status;
    const patience = Math.max(hasSession ? this.#parts.lease.rest() : 0, ttl / 3);
    // From now on `ready` must reject with this error, and not with an earlier error.
    if (!this.#parts.readiness.isAwaited) this.#makeReadyPromise();
    this.#parts.connection.drop();
    this.#parts.timers.clearAll();
    this.#parts.status.id = '';
    const keeping = this.#parts.renewing.stopKeeping();
    this.#parts.outage.closeReason = error;
    const ending = this.#parts.losses.endAll(reason, error, cause);
    if (cause !== undefined && hasSession) this.#parts.status.set('lost', reason, cause);
    this.#parts.status.set('closed', reason, cause);
    this.#parts.readiness.reject(error);
    this.#parts.sending.clear();
    await this.#parts.keepAlive.during(async () => {
      await this.#parts.connection.close(id, patience);
      await keeping;
    });
    for (const tracked of ending) this.#parts.requests.leave(tracked);
    this.#parts.keepAlive.update();
  }
}

module.exports = { Session };
