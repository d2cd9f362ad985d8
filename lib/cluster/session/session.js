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
 * `hello` for a new connection, renews, compares the server's list with ours, and repeats the
 * unanswered steps.
 * Refused: the server rejects this client. Locks and queued requests stay until the lease ends;
 * other requests fail with the server's error until another attempt to connect succeeds.
 */

const { bucketClosedError } = require('../../platform/errors.js');
const { reasonError } = require('../errors.js');
const { Connection } = require('./connection.js');
const { Grants } = require('./grants.js');
const { InFlightCalls } = require('./in-flight-calls.js');
const { KeepAlive } = require('./keep-alive.js');
const { Lease } = require('./lease.js');
const { Losses } = require('./losses.js');
const { Outage } = require('./outage.js');
const { Publications } = require('./publications.js');
const { Queries } = require('./queries.js');
const { Readiness } = require('./readiness.js');
const { Renewing } = require('./renewing.js');
const { RequestTable } = require('./request-table.js');
const { SendQueue } = require('./send-queue.js');
const { Sending, isRefusal } = require('./sending.js');
const { Status } = require('./status.js');
const { Timers } = require('./timers.js');
const { systemClock } = require('./clock.js');
const {
  GRANTED_PARTIAL,
  ASKED,
  ENDING,
  GONE,
  HELD,
  WAITING,
  waits,
} = require('./tracked-request.js');

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
 * @property {(place: TrackedRequest) => void} granted
 * @property {(place: TrackedRequest) => void} passed the request ended instead of being granted
 * @property {(place: TrackedRequest, answer: Answer) => void} refused `answer.code` says why
 * @property {(place: TrackedRequest, thief: string) => void} stolen
 * @property {(place: TrackedRequest, reason: Reason, cause: unknown) => void} lost is also called
 *   for an ended request that should have marked its name, if it did not, or if that is unknown
 * @property {(place: TrackedRequest, error: unknown) => void} failed
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

/** @typedef {InstanceType<typeof Timers<Item>>} SessionTimers */

class Session {
  #adapter;
  #clock;
  #listener;
  #readiness = new Readiness();
  #requests = new RequestTable();
  #status;
  #outage;
  #lease;
  #timers;
  #calls;
  #sendQueue;
  #publications;
  #grants;
  #renewing;
  #connection;
  #sending;
  #losses;
  #keepAlive;
  #queries;
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
    this.#adapter = adapter;
    this.#clock = clock;
    this.#listener = listener;
    this.#status = new Status(ttl, (...change) => this.#handleChange(...change));
    this.#outage = new Outage(clock, this.#status);
    this.#lease = new Lease(clock, rules.margin);
    this.#timers = new Timers(clock, (/** @type {Item[]} */ due) => this.#handleDue(due));
    this.#calls = new InFlightCalls(
      clock,
      this.#timers,
      (work) => this.#react(work),
      (call, error) => this.#handleRejection(call, error),
    );
    this.#sendQueue = new SendQueue(adapter.can.window ?? 1);
    const { seen } = this.#status;
    this.#publications = new Publications(this.#requests, this.#sendQueue, seen, () =>
      this.#renewing.renewIfOpen(),
    );
    this.#grants = new Grants({
      publications: this.#publications,
      requests: this.#requests,
      sendQueue: this.#sendQueue,
      listener,
      clientId: info.clientId,
      seen,
      onQueued: () => this.#renewing.checkExpirySoon(),
      onBusy: (op) => this.#sending.repeatLater(op),
    });
    const isWaiting = () => this.#requests.unheld > 0 || this.#readiness.isAwaited;
    this.#keepAlive = new KeepAlive(clock, isWaiting, () => this.state === 'closed');
    const parts = {
      ...{ adapter, clock, info, keeper, listener, rules },
      calls: this.#calls,
      grants: this.#grants,
      keepAlive: this.#keepAlive,
      lease: this.#lease,
      outage: this.#outage,
      readiness: this.#readiness,
      requests: this.#requests,
      sendQueue: this.#sendQueue,
      status: this.#status,
      timers: this.#timers,
    };
    this.#renewing = new Renewing(parts, {
      dropMissedSteps: (done) => this.#sending.dropMissedSteps(done),
      handleDeath: () => this.#loseSession('failover', undefined),
    });
    const renewing = this.#renewing;
    this.#connection = new Connection({ ...parts, renewing }, (error) =>
      this.#handleRejection('open', error),
    );
    this.#sending = new Sending(parts, {
      renewIfOpen: () => renewing.renewIfOpen(),
      handleRejection: (error) => this.#handleRejection('step', error),
      handleDisconnect: (error) => this.#connection.handleDisconnect(error),
    });
    this.#losses = new Losses(parts, (tracked) => this.end(tracked));
    this.#queries = new Queries(parts, (error, connection) => {
      const isCurrent = () => connection === this.#calls.connection;
      this.#react(() => isCurrent() && this.#connection.handleDisconnect(error));
    });
    adapter.events = {
      granted: (ref, token) => this.#react(() => this.#grants.handleGrantHint(ref, token)),
      stolen: (ref, thief) => this.#react(() => this.#grants.handleTheftHint(ref, thief)),
      changed: () => this.#react(() => renewing.renewIfOpen()),
      down: (error) => this.#react(() => this.#connection.handleDown(error)),
    };
  }

  get state() {
    return this.#status.state;
  }

  start() {
    this.#makeReadyPromise();
    this.#setOutageTimer();
    this.#connection.open();
    this.#keepAlive.update();
  }

  /** If the session is not open and no promise is pending, this makes one and retries soon. */
  get ready() {
    const isReadable = this.state === 'open' || this.state === 'closed';
    if (!isReadable && !this.#readiness.isAwaited) {
      this.#makeReadyPromise();
      this.#connection.retrySoon();
      this.#keepAlive.update();
    }
    return this.#readiness.promise;
  }

  #makeReadyPromise() {
    this.#readiness.begin(this.#now() + this.#status.ttl);
    this.#timers.setBy('unanswered', this.#readiness.by);
  }

  /** Warns users if there is no session after a `ttl`. */
  #setOutageTimer() {
    this.#timers.setBy('unopened', this.#now() + this.#status.ttl);
  }

  /** The error of all requests once the session is closed; undefined until then. */
  get closed() {
    return this.#outage.closeReason;
  }

  /** Why new requests fail at once; undefined if they do not. */
  get error() {
    return this.#outage.rejection;
  }

  /**
   * Returns why the server has not answered a request. Returns undefined if it may still answer: if
   * a time limit is shorter than a round trip, a missing answer proves nothing about the server.
   * @param {TrackedRequest} [tracked]
   */
  outage(tracked) {
    const { error } = this;
    if (error !== undefined) return error;
    const isOpen = this.state === 'open';
    if (isOpen && tracked?.state === ASKED && tracked.obstacle !== undefined)
      return tracked.obstacle;
    const isFirstTry = this.#outage.reason === undefined && ['new', 'opening'].includes(this.state);
    const isSilent = this.#calls.isServerSilent || this.#queries.isServerSilent;
    return (isOpen || isFirstTry) && !isSilent ? undefined : reasonError(this.#outage.reason);
  }

  /** Adds a request or a group. Check `error` before. @param {TrackedRequest[]} requests */
  request(requests) {
    for (const tracked of requests) {
      tracked.asked = this.#now();
      this.#requests.enter(tracked);
      if (!waits(tracked.op)) this.#timers.setBy('unanswered', tracked.asked + this.#status.ttl);
    }
    this.#sendQueue.add(requests.map(({ op }) => op));
    this.#sending.sendSoon();
    this.#keepAlive.update();
  }

  /**
   * Withdraws a request, or releases its lock and marks the name for `keep` milliseconds (0 for no
   * mark). The promise resolves when the server has ended the request or no longer needs to; it
   * never rejects. The result is undefined if the server has nothing to end.
   * @param {TrackedRequest} tracked @param {number} [keep] @returns {Promise<void> | undefined}
   */
  end(tracked, keep = 0) {
    if (tracked.state === GONE) return undefined;
    if (tracked.state === ENDING) return tracked.ended;
    if (tracked.state === ASKED && this.#sendQueue.remove(tracked.op)) {
      this.#requests.leave(tracked);
      this.#keepAlive.update();
      return undefined;
    }
    this.#requests.move(tracked, ENDING);
    tracked.keep = keep;
    const { ref, name } = tracked.op;
    this.#sendQueue.add([{ kind: 'end', ref, name, keep }]);
    this.#sending.sendSoon();
    this.#keepAlive.update();
    return tracked.ended;
  }

  /**
   * Publishes data of a lock, at most one text at a time (publications.js).
   * @param {TrackedRequest} tracked held @param {string} text JSON; '' removes the data
   * @returns {Promise<boolean>} false if the lock has ended; rejects only if the server refuses
   */
  publish(tracked, text) {
    return this.#keepAlive.during(() => {
      const outcome = this.#publications.publish(tracked, text);
      this.#sending.sendSoon();
      return outcome;
    });
  }

  /**
   * Returns the request's stage; 'allotted' means granted, while its group is incomplete.
   * @param {TrackedRequest} tracked neither held nor ended
   */
  progress({ op, state }) {
    if (state === WAITING) return 'waiting';
    if (state === GRANTED_PARTIAL) return 'allotted';
    return this.#sendQueue.isInFlight(op) ? 'sent' : 'unsent';
  }

  /** Milliseconds until the locks are lost. If the lease has ended, this call loses them. */
  remaining() {
    if (!this.#status.hasLease) return 0;
    const rest = this.#lease.rest();
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
      this.#requests.leave(tracked);
      this.#listener.lost(tracked, 'failover', undefined);
    });
  }

  /** @param {string} [name] */
  query(name) {
    return this.#queries.query(name);
  }

  /** @param {string} name @param {number} milliseconds how long to wait for the answer */
  queryHolders(name, milliseconds) {
    return this.#queries.queryHolders(name, milliseconds);
  }

  /** @param {TrackedRequest} tracked held */
  queryMark(tracked) {
    return this.#queries.queryMark(tracked);
  }

  /** The listener receives all its calls before the promise resolves; the promise never rejects. */
  close() {
    // If the session has never opened, the error says why.
    const cause = this.#readiness.isReached ? this.#outage.refusal : this.#outage.reason;
    this.#closed ??= this.#stop('closed', bucketClosedError(cause), undefined);
    return this.#closed;
  }

  /** Milliseconds until the quarantine ends; 0 for none. */
  get grantsIn() {
    return this.#renewing.grantsIn;
  }

  #now() {
    return this.#clock.monotonic();
  }

  /** @param {Item[]} due */
  #handleDue(due) {
    for (const item of due) this.#react(() => this.#handleTimer(item));
  }

  /** @param {Item} item */
  #handleTimer(item) {
    if (item === 'renew') this.#renewing.renew();
    else if (item === 'sweep' || item === 'look') this.#renewing.sweep();
    else if (item === 'reconnect') this.#connection.reconnect();
    else if (item === 'open') this.#connection.open();
    else if (item === 'unanswered') this.#failUnanswered();
    else if (item === 'busy') this.#sending.repeatBusy();
    else if (item === 'unopened') this.#warnSoon();
    else if (item === 'turn') this.#renewing.showTurn();
    else if (item === 'no open')
      this.#connection.openLater(this.#outage.timeoutError(this.#calls.describeTimeout(item)));
    else if (item !== 'deadline')
      this.#connection.handleDisconnect(
        this.#outage.timeoutError(this.#calls.describeTimeout(item)),
      );
    // `#react` has already handled an expired lease, so this lease lasts longer than its timer did:
    // set the timer again.
    else if (this.#status.hasLease)
      this.#timers.set('deadline', this.#now() + Math.max(this.#lease.rest(), 1));
  }

  /**
   * Does the work and everything that follows from it; nothing once the session is closed. If the
   * lease has ended, the locks are lost before the work.
   * @param {() => void} work
   */
  #react(work) {
    if (this.state === 'closed') return;
    if (this.#status.hasLease) {
      const rest = this.#lease.rest();
      if (rest <= 0) this.#handleExpiry();
      // The timer does not count the time while the machine slept, but the lease does.
      else this.#timers.setBy('deadline', this.#now() + rest);
    }
    work();
    this.#sending.sendSoon();
    this.#keepAlive.update();
    this.#listener.settled();
  }

  /**
   * After a misuse, closes the session for good; otherwise reconnects or opens another session.
   * @param {Call} call @param {unknown} error
   */
  #handleRejection(call, error) {
    const kind = this.#adapter.classify(error);
    // Once the session has been open, a local error may come from a broken connection, so retry.
    const isMisuse = kind === 'misuse' || (kind === 'local' && !this.#readiness.isReached);
    if (isMisuse) this.#failForGood(error);
    else if (isRefusal(kind) && call !== 'sweep') this.#handleRefusal(error);
    else if (call === 'open') this.#connection.openLater(error);
    else if (kind === 'dead') this.#loseSession('failover', error);
    else this.#connection.handleDisconnect(error);
  }

  /** Fails `ready` and unanswered requests, and tries again later. @param {unknown} error */
  #handleRefusal(error) {
    this.#outage.refusal = error;
    this.#losses.refuse(error);
    if (this.#status.hasLease) this.#connection.reconnectLater(error);
    else this.#connection.openLater(error);
    if (this.state !== 'refused') this.#status.set('refused', undefined, error);
    this.#readiness.reject(error);
  }

  /**
   * Notifies the listener, the keeper and the queries. In most states, an earlier refusal is over.
   * @param {State} state @param {Reason} [reason] @param {unknown} [cause]
   */
  #handleChange(state, reason, cause) {
    const { cells } = this.#lease;
    if (cells) cells.isOpen = state === 'open';
    if (state !== 'refused' && state !== 'lost') this.#outage.endRefusal();
    this.#listener.changed(state, reason, cause);
    this.#queries.handleChange();
  }

  #handleExpiry() {
    if (this.#lease.isEndedByServer) this.#loseSession('failover', undefined);
    else if (this.#status.isCutOff) this.#loseSession('unreachable', this.#outage.reason);
    else this.#loseSession('expired', undefined);
  }

  /** Opens the next session as well. @param {Reason} reason @param {unknown} cause */
  #loseSession(reason, cause) {
    const { refusal } = this.#outage;
    const planned = this.#losses.plan();
    this.#connection.drop();
    this.#timers.clear('deadline');
    this.#sending.clear();
    this.#losses.carryOut(planned, reason, cause);
    this.#status.set('lost', reason, cause);
    this.#connection.forgetSession();
    this.#setOutageTimer();
    if (refusal !== undefined) this.#status.set('refused', undefined, refusal);
    this.#connection.openAgain(cause);
  }

  /** Rejects `ready` and fails requests that must not wait, each a `ttl` after it began. */
  #failUnanswered() {
    const now = this.#now();
    const { by, isAwaited } = this.#readiness;
    const isLate = isAwaited && by <= now;
    if (isLate) {
      const what = `The bucket could not be opened within ${this.#status.ttl} ms`;
      this.#readiness.reject(this.#outage.timeoutError(what));
    }
    const next = this.#losses.failUnanswered(now);
    if (next < Number.POSITIVE_INFINITY) this.#timers.set('unanswered', next);
    if (isAwaited && !isLate) this.#timers.setBy('unanswered', by);
  }

  /** A user who closes the bucket when `ready` rejects must not get a warning, hence the delay. */
  #warnSoon() {
    this.#clock.setImmediate(() =>
      this.#react(() => {
        if (!this.#status.hasLease) this.#listener.unopened(this.#outage.reason);
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
    const { hasLease, id, ttl } = this.#status;
    const patience = Math.max(hasLease ? this.#lease.rest() : 0, ttl / 3);
    // From now on `ready` must reject with this error, and not with an earlier error.
    if (!this.#readiness.isAwaited) this.#makeReadyPromise();
    this.#connection.drop();
    this.#timers.clearAll();
    this.#status.id = '';
    const keeping = this.#renewing.stopKeeping();
    this.#outage.closeReason = error;
    const ending = this.#losses.endAll(reason, error, cause);
    if (cause !== undefined && hasLease) this.#status.set('lost', reason, cause);
    this.#status.set('closed', reason, cause);
    this.#readiness.reject(error);
    this.#sending.clear();
    await this.#keepAlive.during(async () => {
      await this.#connection.close(id, patience);
      await keeping;
    });
    for (const tracked of ending) this.#requests.leave(tracked);
    this.#keepAlive.update();
  }
}

module.exports = { Session };
