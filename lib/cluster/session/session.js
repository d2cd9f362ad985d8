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
const { Timers } = require('./timers.js');
const { InFlightCalls } = require('./in-flight-calls.js');
const { systemClock } = require('./clock.js');
const { reasonError, isOwnReason, unreachableError } = require('../errors.js');
const { KeepAlive } = require('./keep-alive.js');
const { Lease } = require('./lease.js');
const { LeaseCells } = require('./lease-cells.js');
const { SendQueue } = require('./send-queue.js');
const { outcomeOnSessionEnd } = require('./outcomes.js');
const { Grants } = require('./grants.js');
const { BusyRetries } = require('./busy-retries.js');
const {
  GRANTED_PARTIAL,
  ASKED,
  ENDING,
  GONE,
  HELD,
  WAITING,
  waits,
} = require('./tracked-request.js');
const { RequestTable } = require('./request-table.js');
const { Queries } = require('./queries.js');
const { Readiness } = require('./readiness.js');
const { ExpiryChecks } = require('./expiry-checks.js');
const { within } = require('./within.js');

/** @import { Adapter, Answer, Entry, Op, Renewal, SessionInfo } from '../adapter.js' */
/** @import { Call, CallTimeout } from './in-flight-calls.js' */
/** @import { Clock } from './clock.js' */
/** @import { Times } from './lease.js' */
/** @import { Keeper, KeptLease } from './lease-keeper.js' */
/** @typedef {InstanceType<typeof import('./tracked-request.js').TrackedRequest>} TrackedRequest */
/** @typedef {NonNullable<InstanceType<typeof SendQueue>['first']>} SentStep */

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
 *   for an ended request that should have marked its name, if the mark is missing or unknown
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

/** @type {ConnectionTimer[]} */
const STEPS = ['renew', 'sweep', 'look', 'reconnect', 'open'];

const UNKNOWN = 'The server did not say whether the lock was stolen';

// The pause between attempts to connect, in milliseconds, doubles from the first to the last value.
const FIRST_RETRY = 50;
const LAST_RETRY = 2000;
/** The longest pause while the server refuses this client and there is no lease. */
const LAST_REFUSED = 60_000;

/** A session shows its keeper at least this often, in milliseconds, that its event loop turns. */
const TURN = 1000;

/**
 * While a request is not granted, a renewal is sent at least this often, in milliseconds. If a
 * renewal is not answered within this time, the connection may have been dropped silently.
 */
const SIGN_OF_LIFE = 5000;

class Session {
  /** @type {State} */
  state = 'new';
  #readiness = new Readiness();

  #adapter;
  #listener;
  #clock;
  #rules;
  #info;
  #ttl;
  /** The id of the session; '' for none. */
  #session = '';
  /** The id of the previous session, until the server has confirmed its end. */
  #previous = '';
  /** @type {Promise<{ session: string } | undefined> | undefined} */
  #opening;
  /** The error, or `true`, of a new connection that failed before its use. @type {unknown} */
  #earlyBreak;
  #lease;
  #keeper;
  /** Undefined without a lease or without a keeper. @type {KeptLease | undefined} */
  #keptLease;
  /** How many attempts in a row have not led to a session that was renewed. */
  #attempts = 0;
  /** How many attempts in a row to reconnect this session have failed. */
  #retries = 0;
  /** Why the server refuses this client. @type {unknown} */
  #refusal;
  #refusals = 0;
  /** @type {unknown} */
  #lastError;
  #lastErrorAt = 0;

  #requests = new RequestTable();
  /** @type {import('../adapter.js').Seen} */
  #seen = { life: '', token: 0n };
  #grants;
  #sendQueue;
  #busyRetries = new BusyRetries();
  #timers;
  #calls;
  #renewAgain = false;
  #expiryChecks;
  /** The end of the quarantine, on the monotonic clock. */
  #grantsFrom = 0;
  #isSending = false;
  #keepAlive;
  #queries;
  /** Why the session is closed. @type {unknown} */
  #closeReason;
  /** @type {Promise<void> | undefined} */
  #closed;

  /**
   * @param {object} options @param {Adapter} options.adapter for this session alone
   * @param {SessionInfo} options.info @param {number} options.ttl @param {Clock} [options.clock]
   * @param {Partial<Rules>} [options.rules] @param {Keeper} [options.keeper]
   * @param {Listener} listener
   */
  constructor({ adapter, info, ttl, clock = systemClock, rules, keeper }, listener) {
    this.#adapter = adapter;
    this.#info = info;
    this.#ttl = ttl;
    this.#clock = clock;
    this.#rules = { ...RULES, ...rules };
    this.#lease = new Lease(clock, this.#rules.margin);
    this.#keeper = keeper;
    this.#listener = listener;
    this.#timers = new Timers(clock, (/** @type {Item[]} */ due) => this.#handleDue(due));
    this.#calls = new InFlightCalls(
      clock,
      this.#timers,
      (work) => this.#react(work),
      (call, error) => this.#handleRejection(call, error),
    );
    this.#sendQueue = new SendQueue(adapter.can.window ?? 1);
    this.#expiryChecks = new ExpiryChecks(adapter.can.endsLeases === true);
    this.#grants = new Grants({
      requests: this.#requests,
      sendQueue: this.#sendQueue,
      listener,
      clientId: info.clientId,
      seen: this.#seen,
      onQueued: () => this.#checkExpirySoon(),
      onBusy: (op) => this.#repeatLater(op),
    });
    const isWaiting = () => this.#requests.unheld > 0 || this.#readiness.isAwaited;
    this.#keepAlive = new KeepAlive(clock, isWaiting, () => this.state === 'closed');
    this.#queries = new Queries(
      {
        ...{ adapter, info, clock },
        requests: this.#requests,
        sendQueue: this.#sendQueue,
        keepAlive: this.#keepAlive,
      },
      this.#viewForQueries(),
    );
    adapter.events = {
      granted: (ref, token) => this.#react(() => this.#grants.handleGrantHint(ref, token)),
      stolen: (ref, thief) => this.#react(() => this.#grants.handleTheftHint(ref, thief)),
      changed: () => this.#react(() => this.#renewSoon()),
      down: (error) => this.#react(() => this.#handleDown(error)),
    };
  }

  /** @returns {import('./queries.js').Session} */
  #viewForQueries() {
    const session = this;
    return {
      get state() {
        return session.state;
      },
      get error() {
        return session.error;
      },
      get ttl() {
        return session.#ttl;
      },
      get connection() {
        return session.#calls.connection;
      },
      within: (promise, milliseconds) => session.#within(promise, milliseconds),
      handleDisconnect(error, connection) {
        session.#react(
          () => connection === session.#calls.connection && session.#handleDisconnect(error),
        );
      },
    };
  }

  start() {
    this.#awaitReady();
    this.#awaitSession();
    this.#open();
    this.#keepAlive.update();
  }

  /** If the session is not open and no promise is pending, this makes one and retries soon. */
  get ready() {
    const isReadable = this.state === 'open' || this.state === 'closed';
    if (!isReadable && !this.#readiness.isAwaited) {
      this.#awaitReady();
      this.#retrySoon();
      this.#keepAlive.update();
    }
    return this.#readiness.promise;
  }

  #awaitReady() {
    this.#readiness.begin(this.#now() + this.#ttl);
    this.#timers.setBy('unanswered', this.#readiness.by);
  }

  #awaitSession() {
    this.#timers.setBy('unopened', this.#now() + this.#ttl);
  }

  #retrySoon() {
    const step = this.#hasLease ? 'reconnect' : 'open';
    const isTrying = ['open', 'hello', 'renew'].some((call) =>
      this.#calls.has(/** @type {Call} */ (call)),
    );
    if (!isTrying) this.#timers.setBy(step, this.#now() + this.#randomDelay(0, LAST_RETRY));
  }

  get closed() {
    return this.#closeReason;
  }

  /** Why new requests fail at once; undefined if they do not. */
  get error() {
    return this.#closeReason ?? this.#refusal;
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
    const isFirstTry = this.#outageReason === undefined && ['new', 'opening'].includes(this.state);
    const isSilent = this.#calls.isServerSilent || this.#queries.isServerSilent;
    return (isOpen || isFirstTry) && !isSilent ? undefined : reasonError(this.#outageReason);
  }

  /** Adds a request or a group. Check `error` before. @param {TrackedRequest[]} requests */
  request(requests) {
    for (const tracked of requests) {
      tracked.asked = this.#now();
      this.#requests.enter(tracked);
      if (!waits(tracked.op)) this.#timers.setBy('unanswered', tracked.asked + this.#ttl);
    }
    this.#sendQueue.add(requests.map(({ op }) => op));
    this.#sendSoon();
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
    this.#sendSoon();
    this.#keepAlive.update();
    return tracked.ended;
  }

  /** @param {TrackedRequest} tracked neither held nor ended */
  progress({ op, state }) {
    if (state === WAITING) return 'waiting';
    if (state === GRANTED_PARTIAL) return 'allotted';
    return this.#sendQueue.isInFlight(op) ? 'sent' : 'unsent';
  }

  /** Milliseconds until the locks are lost. If the lease has ended, this call loses them. */
  remaining() {
    if (!this.#hasLease) return 0;
    const rest = this.#lease.rest();
    if (rest > 0) return rest;
    this.#handleExpiry();
    this.#settleSoon();
    return 0;
  }

  async #settleSoon() {
    await undefined;
    this.#react(() => {});
  }

  /** The server no longer has this lock, as a guard found. @param {TrackedRequest} tracked */
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

  /**
   * Returns the holders of a name, without locks that the server has granted to this session but
   * that are not held here: such a lock may belong to the request that waits. The result is
   * undefined if only such locks are held, or if the server does not answer in time.
   * @param {string} name @param {number} milliseconds
   */
  async queryHolders(name, milliseconds) {
    const holders = await this.#queries.queryHolders(name, milliseconds);
    const others = holders?.filter((holder) => !this.#isOwnUnheld(holder));
    return others?.length || !holders?.length ? others : undefined;
  }

  /**
   * A lock of this client is not held here before its grant arrives, while its group is incomplete,
   * and after its end.
   * @param {Entry} entry
   */
  #isOwnUnheld({ clientId, ref, token }) {
    const tracked = this.#requests.get(ref);
    const isKnown = tracked?.token === token && tracked.state !== GRANTED_PARTIAL;
    return clientId === this.#info.clientId && !isKnown;
  }

  /** @param {TrackedRequest} tracked held */
  queryMark(tracked) {
    return this.#queries.queryMark(tracked);
  }

  /** The listener receives all its calls before the promise resolves; the promise never rejects. */
  close() {
    // If the session has never opened, the error says why.
    const cause = this.#readiness.isReached ? this.#refusal : this.#outageReason;
    this.#closed ??= this.#stop('closed', bucketClosedError(cause), undefined);
    return this.#closed;
  }

  get grantsIn() {
    return Math.max(this.#grantsFrom - this.#now(), 0);
  }

  #now() {
    return this.#clock.monotonic();
  }

  get #hasLease() {
    return this.#session !== '';
  }

  /** Whether there is a lease that cannot be renewed now. */
  get #isCutOff() {
    return this.#hasLease && this.state !== 'open';
  }

  /** @param {Times} times when the answered call was sent */
  #extendLease(times) {
    this.#timers.set('deadline', this.#lease.extend(times, this.#ttl));
  }

  /** @param {Item[]} due */
  #handleDue(due) {
    for (const item of due) this.#react(() => this.#handleTimer(item));
  }

  /** @param {Item} item */
  #handleTimer(item) {
    if (item === 'renew') this.#renew();
    else if (item === 'sweep' || item === 'look') this.#sweep();
    else if (item === 'reconnect') this.#reconnect();
    else if (item === 'open') this.#open();
    else if (item === 'unanswered') this.#failUnanswered();
    else if (item === 'busy') this.#repeatBusy();
    else if (item === 'unopened') this.#warnSoon();
    else if (item === 'turn') this.#showTurn();
    else if (item === 'no open')
      this.#openLater(this.#timeoutError(this.#calls.describeTimeout(item)));
    else if (item !== 'deadline')
      this.#handleDisconnect(this.#timeoutError(this.#calls.describeTimeout(item)));
    // `#react` has already handled an expired lease, so this lease lasts longer than its timer did:
    // set the timer again.
    else if (this.#hasLease)
      this.#timers.set('deadline', this.#now() + Math.max(this.#lease.rest(), 1));
  }

  /** @param {string} what */
  #timeoutError(what) {
    return unreachableError(what, this.#outageReason);
  }

  /** If the lease has ended, the locks are lost before the work. @param {() => void} work */
  #react(work) {
    if (this.state === 'closed') return;
    if (this.#hasLease) {
      const rest = this.#lease.rest();
      if (rest <= 0) this.#handleExpiry();
      // The timer does not count the time while the machine slept, but the lease does.
      else this.#timers.setBy('deadline', this.#now() + rest);
    }
    work();
    this.#sendSoon();
    this.#keepAlive.update();
    this.#listener.settled();
  }

  #dropConnection() {
    this.#calls.dropConnection();
    this.#sendQueue.requeueAfterDisconnect();
    this.#renewAgain = false;
    for (const step of STEPS) this.#timers.clear(step);
  }

  /** @param {Call} call @param {unknown} error */
  #handleRejection(call, error) {
    const kind = this.#adapter.classify(error);
    if (call === 'open') this.#opening = undefined;
    // Once the session has been open, a local error may come from a broken connection, so retry.
    const isMisuse = kind === 'misuse' || (kind === 'local' && !this.#readiness.isReached);
    if (isMisuse) this.#failForGood(error);
    else if (isRefusal(kind) && call !== 'sweep') this.#handleRefusal(error);
    else if (call === 'open') this.#openLater(error);
    else if (kind === 'dead') this.#loseSession('failover', error);
    else this.#handleDisconnect(error);
  }

  /** @param {unknown} error */
  #handleRefusal(error) {
    this.#refusal = error;
    for (const tracked of this.#requests.all())
      if (tracked.state === ASKED) this.#giveUp(tracked, error, error);
    if (this.#hasLease) this.#reconnectLater(error);
    else this.#openLater(error);
    if (this.state !== 'refused') this.#setState('refused', undefined, error);
    this.#readiness.reject(error);
  }

  /** @param {unknown} error */
  #noteError(error) {
    if (!isOwnReason(error)) return;
    this.#lastError = error;
    this.#lastErrorAt = this.#now();
  }

  /** Why the server does not answer; undefined if that is unknown. */
  get #outageReason() {
    const isRecent = this.#now() - this.#lastErrorAt <= Math.max(this.#ttl, 2 * LAST_RETRY);
    return this.#refusal ?? (isRecent ? this.#lastError : undefined);
  }

  /** @param {number} failures how many attempts in a row have failed */
  #retryDelay(failures) {
    if (this.#refusal === undefined) return this.#randomDelay(failures, LAST_RETRY);
    const most = this.#hasLease ? Math.max(this.#ttl / 10, LAST_RETRY) : LAST_REFUSED;
    return this.#randomDelay(this.#refusals++, most);
  }

  /** @param {number} failures @param {number} most milliseconds */
  #randomDelay(failures, most) {
    const milliseconds = Math.min(FIRST_RETRY * 2 ** failures, most);
    return Math.min(milliseconds * (0.5 + this.#clock.random()), LAST_REFUSED);
  }

  /** @param {State} state @param {Reason} [reason] @param {unknown} [cause] */
  #setState(state, reason, cause) {
    this.state = state;
    if (this.#lease.cells) this.#lease.cells.isOpen = state === 'open';
    if (state !== 'refused' && state !== 'lost') {
      this.#refusal = undefined;
      this.#refusals = 0;
    }
    this.#listener.changed(state, reason, cause);
    this.#queries.handleChange();
  }

  #open() {
    this.#dropConnection();
    const times = this.#lease.times();
    if (this.state !== 'opening' && this.state !== 'refused') this.#setState('opening');
    const opening = this.#openAndClosePrevious(times.sent);
    this.#opening = opening;
    this.#calls.make(
      'open',
      this.#ttl,
      () => opening,
      ({ session, ttl, life, grantsIn = 0 }) => {
        this.#opening = undefined;
        this.#seen.life = life;
        this.#grantsFrom = this.#now() + grantsIn;
        this.#handleOpened(session, ttl, times);
      },
    );
  }

  /** @param {number} sent */
  async #openAndClosePrevious(sent) {
    const opened = await this.#adapter.open(this.#info, this.#ttl, { ...this.#seen });
    this.#earlyBreak = undefined;
    await this.#closePrevious(sent);
    return opened;
  }

  /**
   * The new session waits for the close of the previous one for at most a sixth of a `ttl`, and not
   * once half a `ttl` has passed since `sent`. It does not wait if it has been closed meanwhile.
   * @param {number} sent when the opening of the new session began
   */
  async #closePrevious(sent) {
    const session = this.#previous;
    if (!session) return;
    try {
      const rest = this.state === 'closed' ? 0 : sent + this.#ttl / 2 - this.#now();
      await this.#within(this.#adapter.close(session), Math.min(this.#ttl / 6, rest));
      if (this.#previous === session) this.#previous = '';
    } catch {
      // If the server cannot be reached, the session expires by itself.
    }
  }

  /** @param {string} session @param {number} ttl @param {Times} times */
  #handleOpened(session, ttl, times) {
    this.#session = session;
    this.#ttl = ttl;
    this.#retries = 0;
    this.#expiryChecks.expectQuarantine();
    this.#grants.forgetEnds();
    this.#extendLease(times);
    if (this.#lease.rest() <= 0) {
      this.#forgetSession();
      this.#openLater(this.#timeoutError('The lease expired while the session was being opened'));
      return;
    }
    this.#renewAfter(times);
    this.#timers.clear('unopened');
    this.#setState('open');
    this.#keepLease();
    this.#readiness.resolve();
    if (this.#earlyBreak !== undefined) this.#handleDisconnect(this.#earlyBreak);
  }

  /** @param {unknown} error */
  #openLater(error) {
    if (this.state === 'refused' && error !== this.#refusal) this.#setState('opening');
    this.#noteError(error);
    this.#dropConnection();
    this.#timers.clear('deadline');
    this.#timers.set('open', this.#now() + this.#retryDelay(this.#attempts++));
  }

  #forgetSession() {
    this.#previous = this.#session;
    this.#session = '';
    this.#stopKeeping();
  }

  #keepLease() {
    const keeper = this.#keeper;
    if (keeper === undefined) return;
    const cells = new LeaseCells();
    cells.isOpen = true;
    this.#lease.cells = cells;
    this.#showTurn();
    const keeping = {
      ticket: this.#adapter.keeperTicket?.(),
      seen: { ...this.#seen },
      ttl: this.#ttl,
      margin: this.#rules.margin,
      maxBlocked: keeper.maxBlocked,
    };
    this.#keptLease = keeper.keep(keeping, cells);
  }

  #stopKeeping() {
    const keptLease = this.#keptLease;
    this.#keptLease = undefined;
    this.#lease.cells = undefined;
    this.#timers.clear('turn');
    return keptLease?.stop();
  }

  #showTurn() {
    const { cells } = this.#lease;
    if (!cells || !this.#keeper) return;
    const now = this.#now();
    cells.lastTurn = now;
    this.#timers.set('turn', now + Math.min(TURN, this.#keeper.maxBlocked / 4));
  }

  #handleExpiry() {
    if (this.#lease.isEndedByServer) this.#loseSession('failover', undefined);
    else if (this.#isCutOff) this.#loseSession('unreachable', this.#outageReason);
    else this.#loseSession('expired', undefined);
  }

  /** @param {Reason} reason @param {unknown} cause */
  #loseSession(reason, cause) {
    const refusal = this.#refusal;
    const outcomes = this.#requests.all().map((tracked) => ({
      tracked,
      outcome: outcomeOnSessionEnd(tracked, 'lost', this.#sendQueue.isInFlight(tracked.op)),
    }));
    this.#dropConnection();
    this.#timers.clear('deadline');
    this.#clearSendQueue();
    const pending = [];
    for (const { tracked, outcome } of outcomes) {
      this.#requests.leave(tracked);
      if (outcome === 'lost') this.#listener.lost(tracked, reason, cause);
      else if (outcome === 'failed') this.#listener.failed(tracked, this.#timeoutError(UNKNOWN));
      else if (outcome !== 'again') continue;
      else if (refusal === undefined) pending.push(tracked);
      else this.#listener.failed(tracked, refusal);
    }
    for (const group of grouped(pending)) this.#grants.requestAgain(group);
    this.#setState('lost', reason, cause);
    this.#forgetSession();
    this.#awaitSession();
    if (refusal !== undefined) this.#setState('refused', undefined, refusal);
    // The pause prevents a rapid series of sessions that end before their first renewal.
    if (this.#attempts++ === 0) this.#open();
    else this.#openLater(cause);
  }

  /** @param {unknown} error */
  #handleDown(error) {
    if (this.state === 'open') this.#handleDisconnect(error);
    else if (!this.#hasLease) this.#earlyBreak = error ?? true;
  }

  /** @param {unknown} error */
  #handleDisconnect(error) {
    if (!this.#hasLease) return;
    this.#reconnectLater(error);
    if (this.state !== 'suspect') this.#setState('suspect', undefined, error);
  }

  /** @param {unknown} error */
  #reconnectLater(error) {
    this.#noteError(error);
    this.#dropConnection();
    this.#expiryChecks.expectQuarantine();
    this.#timers.set('reconnect', this.#now() + this.#retryDelay(this.#retries++));
  }

  #reconnect() {
    if (!this.#isCutOff) return;
    this.#dropConnection();
    this.#calls.make(
      'hello',
      this.#ttl / 4,
      () => this.#adapter.hello({ ...this.#seen }),
      () => this.#renew(),
    );
  }

  #renewSoon() {
    if (this.state === 'open') this.#renew();
  }

  #renew() {
    if (!this.#hasLease) return;
    if (this.#calls.has('renew')) {
      this.#renewAgain = true;
      return;
    }
    const times = this.#lease.times();
    const news = this.#requests.news;
    this.#grants.forgetEnds();
    this.#renewAfter(times);
    this.#calls.make(
      'renew',
      Math.min(this.#ttl / 6, SIGN_OF_LIFE),
      () => this.#adapter.renew({ ...this.#seen }),
      (renewal) => this.#handleRenewal(renewal, times, news),
    );
  }

  /** @param {Times} times the time at which the last renewal, or the opening, was sent */
  #renewAfter({ sent }) {
    const longest = this.#requests.unheld > 0 ? SIGN_OF_LIFE : Number.POSITIVE_INFINITY;
    this.#timers.set('renew', sent + Math.min(this.#ttl / 3, longest));
  }

  /**
   * @param {Renewal} renewal @param {Times} times when the renewal was sent
   * @param {number} news the request table's count of changes at that time
   */
  #handleRenewal(renewal, times, news) {
    if (!renewal.alive) {
      this.#loseSession('failover', undefined);
      return;
    }
    this.#seen.life = renewal.life;
    this.#extendLease(times);
    this.#attempts = this.#retries = 0;
    // The server will never execute the steps that it missed over the old connection.
    if (this.#isCutOff) this.#dropMissedSteps(renewal.step);
    if (this.#rules.compares) this.#grants.compareWithServer(renewal, news);
    // The keeper may extend the lease in a new epoch only after this comparison.
    this.#keptLease?.update({ ...this.#seen });
    if (renewal.step !== undefined) this.#sendQueue.markDone(renewal.step);
    if (this.#isCutOff) {
      this.#setState('open');
      this.#readiness.resolve();
      this.#checkExpirySoon();
    }
    const now = this.#now();
    this.#grantsFrom = now + renewal.grantsIn;
    const state = { now, ttl: this.#ttl, waiting: this.#requests.waiting };
    const next = this.#expiryChecks.handleRenewal(renewal, state);
    if (next !== undefined) this.#timers.set('sweep', next);
    if (this.#renewAgain) {
      this.#renewAgain = false;
      this.#renew();
    }
  }

  /** This session does not know yet when the sessions of the requests ahead expire. */
  #checkExpirySoon() {
    if (this.#expiryChecks.areGrantsPushed) return;
    this.#timers.setBy('look', this.#now() + this.#ttl / 10);
  }

  #sweep() {
    if (this.state !== 'open' || this.#calls.has('sweep')) return;
    if (!this.#expiryChecks.isWanted(this.#requests.waiting)) return;
    this.#expiryChecks.noteCheck(this.#now());
    this.#timers.clear('look');
    this.#calls.make(
      'sweep',
      this.#ttl / 3,
      () => this.#adapter.sweep(),
      () => this.#renew(),
    );
  }

  /**
   * Sends queued operations in one step, since a step costs more than its operations, after the
   * promise jobs of the current code. If another step is under way or user callbacks are due, more
   * operations may follow, so the step is sent only after this turn of the event loop.
   */
  #sendSoon() {
    if (this.#isSending || this.state !== 'open' || !this.#sendQueue.isReady) return;
    const isMoreToCome = this.#sendQueue.first !== undefined || this.#listener.hasPendingAnswers();
    const later = isMoreToCome ? this.#clock.setImmediate : this.#clock.nextTick;
    later(() => {
      this.#isSending = false;
      this.#sendSteps();
    });
    this.#isSending = true;
  }

  #sendSteps() {
    if (this.state !== 'open') return;
    for (;;) {
      const step = this.#sendQueue.takeNext();
      if (!step) return;
      this.#send(step);
    }
  }

  /** @param {SentStep} step */
  #send(step) {
    const { number, ops } = step;
    const before = this.#sendQueue.numberBefore(step);
    this.#timers.setBy('renew', this.#now() + SIGN_OF_LIFE);
    this.#calls.make(
      'step',
      this.#ttl / 3,
      () => this.#adapter.step(ops, number, before),
      (answers) => this.#handleReply(step, answers),
      (error) => this.#handleUnexecuted(step, error),
    );
  }

  /** Answers may arrive in another order. @param {SentStep} step @param {Answer[]} answers */
  #handleReply(step, answers) {
    step.answers = answers;
    step.isAnswered = true;
    for (let { first } = this.#sendQueue; first?.isAnswered; { first } = this.#sendQueue) {
      this.#grants.handleAnswers(first.ops, first.answers);
      this.#sendQueue.removeFirst();
      // A lock that a repeated step granted may have been stolen since; a renewal finds that out.
      if (first.isAgain) this.#renewSoon();
    }
  }

  /** @param {SentStep} step @param {unknown} error */
  #handleUnexecuted(step, error) {
    // An earlier step was refused, so these operations will be sent in other steps.
    if (!this.#sendQueue.has(step)) return;
    const kind = this.#adapter.classify(error);
    // If a step was sent only once and is rejected as `dead`, nothing of it was executed.
    if (kind === 'dead' && !step.isAgain) this.#sendQueue.takeBack(step);
    if (!isRefusal(kind) && kind !== 'local') this.#handleRejection('step', error);
    // The server has already executed this step; it only refuses to repeat the answer (R1).
    else if (step.isDone) this.#handleDisconnect(error);
    else for (const op of this.#sendQueue.halveOrDrop(step)) this.#grants.handleRefusal(op, error);
  }

  /** @param {number | undefined} done the last executed step; undefined if unknown */
  #dropMissedSteps(done) {
    if (done === undefined) return;
    const isWanted = (/** @type {Op} */ op) => this.#isWanted(op);
    const ops = this.#sendQueue.dropMissedSteps(done, isWanted, this.#now(), this.#ttl);
    const error = this.#timeoutError(
      `The server did not answer this request within ${this.#ttl} ms, although it answered others`,
    );
    for (const op of ops) this.#grants.handleRefusal(op, error);
  }

  /** @param {Op} op */
  #repeatLater(op) {
    this.#timers.setBy('busy', this.#busyRetries.add(op, this.#now()));
  }

  #repeatBusy() {
    for (const op of this.#busyRetries.takeDue(this.#now())) {
      if (this.#isWanted(op)) this.#sendQueue.add([op]);
    }
    const { next } = this.#busyRetries;
    if (next < Number.POSITIVE_INFINITY) this.#timers.set('busy', next);
  }

  /** Its request may be withdrawn, or granted by a hint before a failover. @param {Op} op */
  #isWanted(op) {
    return op.kind === 'end' || this.#requests.get(op.ref)?.state === ASKED;
  }

  #clearSendQueue() {
    this.#busyRetries.clear();
    this.#timers.clear('busy');
    this.#sendQueue.clear();
  }

  /** Rejects `ready`, and fails each request that does not wait, a `ttl` after it was made. */
  #failUnanswered() {
    const now = this.#now();
    let next = Number.POSITIVE_INFINITY;
    const { by, isAwaited } = this.#readiness;
    if (isAwaited && by > now) next = by;
    else if (isAwaited)
      this.#readiness.reject(
        this.#timeoutError(`The bucket could not be opened within ${this.#ttl} ms`),
      );
    for (const tracked of this.#requests.all()) {
      if (waits(tracked.op) || tracked.state !== ASKED) continue;
      const end = tracked.asked + this.#ttl;
      if (end > now) {
        next = Math.min(next, end);
        continue;
      }
      const { obstacle = this.#outageReason } = tracked;
      this.#giveUp(
        tracked,
        unreachableError(`The server did not execute the request within ${this.#ttl} ms`, obstacle),
        obstacle,
      );
    }
    if (next < Number.POSITIVE_INFINITY) this.#timers.set('unanswered', next);
  }

  /**
   * If a theft was sent, the server may still execute it; its error says so and has this `cause`.
   * @param {TrackedRequest} tracked @param {unknown} error @param {unknown} cause
   */
  #giveUp(tracked, error, cause) {
    const isUnknown = tracked.op.kind === 'steal' && this.#sendQueue.isInFlight(tracked.op);
    this.end(tracked);
    this.#listener.failed(tracked, isUnknown ? unreachableError(UNKNOWN, cause) : error);
  }

  /** A user who closes the bucket when `ready` rejects must not get a warning, hence the delay. */
  #warnSoon() {
    this.#clock.setImmediate(() =>
      this.#react(() => {
        if (!this.#hasLease) this.#listener.unopened(this.#outageReason);
      }),
    );
  }

  /** @template T @param {Promise<T>} promise @param {number} milliseconds */
  #within(promise, milliseconds) {
    const late = () =>
      this.#timeoutError(`The server did not answer the query within ${milliseconds} ms`);
    return within(this.#clock, promise, milliseconds, late);
  }

  /** @param {unknown} error an error that every further attempt would get */
  #failForGood(error) {
    this.#closed ??= this.#stop('unreachable', error, error);
  }

  /** @param {Reason} reason for locks @param {unknown} error for requests @param {unknown} cause */
  async #stop(reason, error, cause) {
    const session = this.#session;
    const opening = this.#opening;
    const patience = Math.max(this.#hasLease ? this.#lease.rest() : 0, this.#ttl / 3);
    const requests = this.#requests.all();
    const isLost = cause !== undefined && this.#hasLease;
    // From now on `ready` must reject with this error, and not with an earlier error.
    if (!this.#readiness.isAwaited) this.#awaitReady();
    this.#dropConnection();
    this.#timers.clearAll();
    this.#session = '';
    const keeping = this.#stopKeeping();
    this.#closeReason = error;
    const ending = [];
    for (const tracked of requests) {
      const outcome = outcomeOnSessionEnd(tracked, 'closed', false);
      if (outcome === 'kept') {
        ending.push(tracked);
        continue;
      }
      this.#requests.leave(tracked);
      if (outcome === 'lost') this.#listener.lost(tracked, reason, cause);
      else this.#listener.failed(tracked, error);
    }
    if (isLost) this.#setState('lost', reason, cause);
    this.#setState('closed', reason, cause);
    this.#readiness.reject(error);
    this.#clearSendQueue();
    await this.#keepAlive.during(async () => {
      await this.#closeAtServer(session, opening, patience);
      await keeping;
    });
    for (const tracked of ending) this.#requests.leave(tracked);
    this.#keepAlive.update();
  }

  /**
   * @param {string} session '' for none @param {number} patience milliseconds
   * @param {Promise<{ session: string } | undefined> | undefined} opening
   */
  async #closeAtServer(session, opening, patience) {
    try {
      const opened = opening && (await this.#within(opening, patience));
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

/** @param {import('../adapter.js').Meaning} kind */
const isRefusal = (kind) => kind === 'fatal' || kind === 'refused';

/** Puts the members of each group together. @param {TrackedRequest[]} requests */
function grouped(requests) {
  /** @type {TrackedRequest[][]} */
  const groups = [];
  for (const tracked of requests) {
    const last = groups.at(-1);
    if (last && tracked.op.group !== 0 && last[0].op.group === tracked.op.group) last.push(tracked);
    else groups.push([tracked]);
  }
  return groups;
}

module.exports = { Session };
