'use strict';

/**
 * A manager's session with an engine: the state machine that makes places in queues, and locks, of
 * a server that may be slow, gone, replaced or forgetful, and a process that may be stopped at any
 * time.
 *
 *   new ─▶ opening ─▶ open ◀─▶ suspect          any ─▶ closed
 *             ▲         │          │
 *             └─ lost ◀─┴──────────┘              any but closed ◀─▶ refused
 *
 * The lease. The server keeps the session for `ttl` from when it answers a renewal; here it counts
 * from when that renewal was sent, and for 0.9 of it. So what is held here ends before the server
 * grants it to anybody else, as long as clocks agree about how long a second is to 10 %. The end is
 * looked for before anything that happens, so a grant that comes too late is none.
 *
 * Lost. Locks are lost; what waits is asked for again, in its order, in the next session. A request
 * has another `ref` there, so nothing that is said of the old one is taken for news of the new one.
 * The old session is ended at the server first, as far as that can be done: its own requests would
 * be in the way of the new ones until its lease is over there, too.
 *
 * Suspect. While the connection is away locks are held until the lease ends. A new one says
 * `hello`, renews, compares what the server has with what is known here, and sends what was not
 * answered once more.
 *
 * Refused. The server answers that it does not serve this client (a login, a database, a version).
 * What is granted or queued there stays until the lease ends. Other requests fail at once with the
 * server's error, until it serves again. The pauses between attempts grow to a minute. Only a
 * misuse, such as a client that was ended, closes the session.
 *
 * The listener is told of changes of state first (`granted`, `lost` and so on: it runs no users'
 * code then), and by `settled` that they are complete.
 *
 * Threads: one. Errors: none is thrown; what goes wrong ends requests, or the session.
 */

const { bucketClosedError } = require('../../platform/errors.js');
const { Agenda } = require('./agenda.js');
const { Calls } = require('./calls.js');
const { systemClock } = require('./clock.js');
const { reasonError, tellsWhy, unreachableError } = require('../errors.js');
const { KeepAlive } = require('./keep-alive.js');
const { Lease } = require('./lease.js');
const { Outbox } = require('./outbox.js');
const { fateOf } = require('./fates.js');
const { Grants } = require('./grants.js');
const { Obstructed } = require('./obstructed.js');
const { ALLOTTED, ASKED, ENDING, GONE, HELD, WAITING } = require('./place.js');
const { Places } = require('./places.js');
const { Questions } = require('./questions.js');
const { Readiness } = require('./readiness.js');
const { Sweeps } = require('./sweeps.js');
const { within } = require('./within.js');

/** @typedef {import('../adapter.js').Adapter} Adapter */
/** @typedef {import('../adapter.js').Answer} Answer */
/** @typedef {import('../adapter.js').Entry} Entry */
/** @typedef {import('../adapter.js').Op} Op */
/** @typedef {import('../adapter.js').Renewal} Renewal */
/** @typedef {import('../adapter.js').RequestOp} RequestOp */
/** @typedef {import('../adapter.js').SessionInfo} SessionInfo */
/** @typedef {import('./calls.js').Call} Call */
/** @typedef {import('./calls.js').Silence} Silence */
/** @typedef {import('./clock.js').Clock} Clock */
/** @typedef {import('./lease.js').Times} Times */
/** @typedef {InstanceType<typeof import('./place.js').Place>} Place */
/** @typedef {NonNullable<InstanceType<typeof Outbox>['first']>} SentStep */

/** @typedef {'new' | 'opening' | 'open' | 'suspect' | 'refused' | 'lost' | 'closed'} State */
/**
 * @typedef {'expired' | 'unreachable' | 'failover' | 'closed'} Reason why locks were lost: the
 *   lease ended while this process stood still, or while the server was away, which is also said
 *   of an end that was to mark the name and is not done; the server does not know of it any more;
 *   the bucket was closed
 */

/**
 * @typedef {object} Listener
 * @property {(place: Place) => void} granted
 * @property {(place: Place, answer: Answer) => void} refused its request was answered otherwise
 * @property {(place: Place, thief: string) => void} stolen
 * @property {(place: Place, reason: Reason, cause: unknown) => void} lost also after `end`, if that
 *   was to mark the name and has not, or it cannot be known
 * @property {(place: Place, error: unknown) => void} failed its request cannot be made
 * @property {(state: State, reason?: Reason, cause?: unknown) => void} changed
 * @property {(why: unknown) => void} unopened there was no session for a `ttl`
 * @property {() => void} settled
 * @property {() => boolean} isTelling whether users have answers to hear of, one after the other
 */

/**
 * @typedef {object} Rules for tests that take one away, to see that it matters
 * @property {number} margin of the `ttl`, in which a lock is held here
 * @property {boolean} compares
 */

/** @type {Rules} */
const RULES = Object.freeze({ margin: 0.9, compares: true });

/**
 * @typedef {'deadline' | 'patience' | 'busy' | 'unopened' | Step | Silence} Item of the agenda; a
 *   silence is that of a call that is not answered
 * @typedef {'renew' | 'sweep' | 'look' | 'reconnect' | 'open'} Step of a connection, or to it
 */

/** @type {Step[]} */
const STEPS = ['renew', 'sweep', 'look', 'reconnect', 'open'];

/** Of a theft that was sent in a session that is lost. */
const UNKNOWN = 'Whether the lock was stolen, and lost again, is not known';

// Milliseconds to the next attempt to connect: they double, from and to.
const FIRST_RETRY = 50;
const LAST_RETRY = 2000;
/** The same while the server refuses, and no lease would end meanwhile. */
const LAST_REFUSED = 60_000;

/**
 * A connection that was dropped silently shows by a renewal that is not answered. While something
 * waits, the next renewal is never further away than this, in milliseconds, however long the lease
 * is; and no renewal is waited for longer.
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
  /** @type {SessionInfo} */
  #info;
  #ttl;
  /** The id of the session; '' for none. */
  #session = '';
  /** That of the one before, until the server has ended it; '' for none. */
  #before = '';
  /** The `open` that is under way. @type {Promise<{ session: string } | undefined> | undefined} */
  #opening;
  /** What was told of a new connection before its session is used. @type {unknown} */
  #cut;
  #lease;
  /** Attempts to open a session that lives to its first renewal, in a row. */
  #attempts = 0;
  /** Attempts to connect the one there is, in a row. */
  #retries = 0;
  /** Why the server does not serve, until it does. @type {unknown} */
  #refusal;
  /** How often it has said so, in a row. */
  #refusals = 0;
  /** Of the adapter. @type {unknown} */
  #lastError;
  #lastErrorAt = 0;

  #places = new Places();
  /** @type {import('../adapter.js').Seen} */
  #seen = { life: '', token: 0n };
  #grants;
  #outbox;
  #obstructed = new Obstructed();
  #agenda;
  #calls;
  #renewAgain = false;
  #sweeps;
  /** Nothing is granted before, by the monotonic clock, as the server told. */
  #grantsFrom = 0;
  #pumping = false;
  #keepAlive;
  #questions;
  /** Why it is closed, for requests that come later. @type {unknown} */
  #error;
  /** @type {Promise<void> | undefined} */
  #closed;

  /**
   * @param {object} options
   * @param {Adapter} options.adapter nobody else's
   * @param {SessionInfo} options.info
   * @param {number} options.ttl milliseconds
   * @param {Clock} [options.clock]
   * @param {Partial<Rules>} [options.rules]
   * @param {Listener} listener
   */
  constructor({ adapter, info, ttl, clock = systemClock, rules }, listener) {
    this.#adapter = adapter;
    this.#info = info;
    this.#ttl = ttl;
    this.#clock = clock;
    this.#rules = { ...RULES, ...rules };
    this.#lease = new Lease(clock, this.#rules.margin);
    this.#listener = listener;
    this.#agenda = new Agenda(clock, (/** @type {Item[]} */ due) => this.#isDue(due));
    this.#calls = new Calls(
      clock,
      this.#agenda,
      (work) => this.#react(work),
      (call, error) => this.#isRejected(call, error),
    );
    this.#outbox = new Outbox(adapter.can.window ?? 1);
    this.#sweeps = new Sweeps(adapter.can.endsLeases === true);
    this.#grants = new Grants({
      places: this.#places,
      outbox: this.#outbox,
      listener,
      clientId: info.clientId,
      seen: this.#seen,
      isQueued: () => this.#lookSoon(),
      isBusy: (op) => this.#tryLater(op),
    });
    const isWaiting = () => this.#places.unheld > 0 || this.#readiness.isAwaited;
    this.#keepAlive = new KeepAlive(clock, isWaiting, () => this.state === 'closed');
    this.#questions = new Questions(
      {
        ...{ adapter, info, clock },
        places: this.#places,
        outbox: this.#outbox,
        keepAlive: this.#keepAlive,
      },
      this.#asked(),
    );
    adapter.events = {
      granted: (ref, token) => this.#react(() => this.#grants.hintGranted(ref, token)),
      stolen: (ref, thief) => this.#react(() => this.#grants.hintStolen(ref, thief)),
      changed: () => this.#react(() => this.#renewSoon()),
      down: (error) => this.#react(() => this.#isCut(error)),
    };
  }

  /** @returns {import('./questions.js').Session} */
  #asked() {
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
      isDown(error, connection) {
        session.#react(() => connection === session.#calls.connection && session.#isDown(error));
      },
    };
  }

  // What the backend calls.

  /** Opens it. To be called once. */
  start() {
    this.#awaitReady();
    this.#awaitSession();
    this.#open();
    this.#keepAlive.look();
  }

  /**
   * @returns {Promise<void>} resolves when the session is open. Rejects if the server refuses, or
   *   if that takes a `ttl`. Reading it while it is not open has another attempt made at once
   */
  get ready() {
    const isReadable = this.state === 'open' || this.state === 'closed';
    if (!isReadable && !this.#readiness.isAwaited) {
      this.#awaitReady();
      this.#tryNow();
      this.#keepAlive.look();
    }
    return this.#readiness.promise;
  }

  #awaitReady() {
    this.#readiness.begin(this.#now() + this.#ttl);
    this.#agenda.setBy('patience', this.#readiness.by);
  }

  /** Has users warned if there is no session for a `ttl`. */
  #awaitSession() {
    this.#agenda.setBy('unopened', this.#now() + this.#ttl);
  }

  /** Does not wait for the end of a pause that has grown long. */
  #tryNow() {
    const step = this.#hasLease ? 'reconnect' : 'open';
    const isTrying = ['open', 'hello', 'renew'].some((call) =>
      this.#calls.has(/** @type {Call} */ (call)),
    );
    if (!isTrying) this.#agenda.setBy(step, this.#now() + this.#pause(0, LAST_RETRY));
  }

  /** Why it is closed; undefined while it is not. */
  get closed() {
    return this.#error;
  }

  /** Why requests fail; undefined while they do not. */
  get error() {
    return this.#error ?? this.#refusal;
  }

  /**
   * @param {Place} [place]
   * @returns {unknown} why the server tells nothing of it, once that is known; a request whose time
   *   limit is shorter than a round trip says nothing about the server
   */
  outage(place) {
    const { error } = this;
    if (error !== undefined) return error;
    const isOpen = this.state === 'open';
    if (isOpen && place?.state === ASKED && place.obstacle !== undefined) return place.obstacle;
    const isFirstTry = this.#why === undefined && ['new', 'opening'].includes(this.state);
    const isSilent = this.#calls.isServerSilent || this.#questions.isServerSilent;
    return (isOpen || isFirstTry) && !isSilent ? undefined : reasonError(this.#why);
  }

  /**
   * Makes requests. Not if there is an `error`.
   * @param {Place[]} places new ones; several: a group
   */
  ask(places) {
    for (const place of places) {
      place.asked = this.#now();
      this.#places.enter(place);
      if (place.op.kind !== 'request') this.#agenda.setBy('patience', place.asked + this.#ttl);
    }
    this.#outbox.add(places.map(({ op }) => op));
    this.#pumpSoon();
    this.#keepAlive.look();
  }

  /**
   * Ends a request, or releases its lock.
   * @param {Place} place
   * @param {number} [keep] milliseconds for which its name is marked then; if it is not, its lock
   *   is lost
   * @returns {Promise<void> | undefined} settles when the server has done so, or it does not matter
   *   any more; never rejects
   */
  end(place, keep = 0) {
    if (place.state === GONE) return undefined;
    if (place.state === ENDING) return place.ended;
    if (place.state === ASKED && this.#outbox.remove(place.op)) {
      this.#places.leave(place);
      this.#keepAlive.look();
      return undefined;
    }
    this.#places.move(place, ENDING);
    place.keep = keep;
    const { ref, name } = place.op;
    this.#outbox.add([{ kind: 'end', ref, name, keep }]);
    this.#pumpSoon();
    this.#keepAlive.look();
    return place.ended;
  }

  /**
   * @param {Place} place that is neither held nor ended
   * @returns {import('../../backend/contract.js').Progress}
   */
  progress({ op, state }) {
    if (state === WAITING) return 'waiting';
    if (state === ALLOTTED) return 'allotted';
    return this.#outbox.isSent(op) ? 'sent' : 'unsent';
  }

  /**
   * @returns {number} milliseconds that what is held is still held without a renewal. If none are
   *   left, it is lost by this call, and that is told soon
   */
  remaining() {
    if (!this.#hasLease) return 0;
    const rest = this.#lease.rest();
    if (rest > 0) return rest;
    this.#expire();
    this.#settleSoon();
    return 0;
  }

  async #settleSoon() {
    await undefined;
    this.#react(() => {});
  }

  /**
   * The server does not have a lock any more, as somebody found by other ways.
   * @param {Place} place
   */
  isMissing(place) {
    this.#react(() => {
      if (place.state !== HELD) return;
      this.#places.leave(place);
      this.#listener.lost(place, 'failover', undefined);
    });
  }

  /** @param {string} [name] @returns {Promise<Entry[]>} see Questions */
  query(name) {
    return this.#questions.query(name);
  }

  /**
   * @param {string} name
   * @param {number} milliseconds
   * @returns {Promise<Entry[] | undefined>} who holds it, for one that waits, see Questions;
   *   without what is granted at the server and not held here, because that is not heard of yet, or
   *   its group is not whole: that is not in its own way. Undefined, too, if nobody else is left
   */
  async lookAt(name, milliseconds) {
    const holders = await this.#questions.lookAt(name, milliseconds);
    const others = holders?.filter((holder) => !this.#isUnheld(holder));
    return others?.length || !holders?.length ? others : undefined;
  }

  /**
   * @param {Entry} entry held at the server
   * @returns {boolean} whether it is of this session, and not known to be held
   */
  #isUnheld({ clientId, ref, token }) {
    const place = this.#places.get(ref);
    const isKnown = place?.token === token && place.state !== ALLOTTED;
    return clientId === this.#info.clientId && !isKnown;
  }

  /** @param {Place} place held @returns {Promise<boolean>} see Questions */
  isMarked(place) {
    return this.#questions.isMarked(place);
  }

  /**
   * Gives everything back, and ends for good. What is told by it is told by the caller, before
   * this settles.
   * @returns {Promise<void>} never rejects
   */
  close() {
    // Why it was never open may be what one wants to know then.
    const cause = this.#readiness.isReached ? this.#refusal : this.#why;
    this.#closed ??= this.#stop('closed', bucketClosedError(cause), undefined);
    return this.#closed;
  }

  /** Milliseconds for which the server grants nothing to anybody, as far as it has told. */
  get grantsIn() {
    return Math.max(this.#grantsFrom - this.#now(), 0);
  }

  // Clocks.

  #now() {
    return this.#clock.monotonic();
  }

  get #hasLease() {
    return this.#session !== '';
  }

  /** Whether it has a lease that cannot be renewed now. */
  get #isCutOff() {
    return this.#hasLease && this.state !== 'open';
  }

  /** @param {Times} times when what was answered was sent */
  #extend(times) {
    this.#agenda.set('deadline', this.#lease.extend(times, this.#ttl));
  }

  /** @param {Item[]} due */
  #isDue(due) {
    for (const item of due) this.#react(() => this.#do(item));
  }

  /** @param {Item} item */
  #do(item) {
    if (item === 'renew') this.#renew();
    else if (item === 'sweep' || item === 'look') this.#sweep();
    else if (item === 'reconnect') this.#reconnect();
    else if (item === 'open') this.#open();
    else if (item === 'patience') this.#losePatience();
    else if (item === 'busy') this.#tryBusy();
    else if (item === 'unopened') this.#warnSoon();
    else if (item === 'no open') this.#openLater(this.#timeout('It is not opened'));
    // The deadline is looked at before anything is done. It was set again if there is more time.
    else if (item !== 'deadline') this.#isDown(this.#timeout('A call is not answered'));
    else if (this.#hasLease)
      this.#agenda.set('deadline', this.#now() + Math.max(this.#lease.rest(), 1));
  }

  /** @param {string} what */
  #timeout(what) {
    return unreachableError(what, this.#why);
  }

  /**
   * Does the work of what happened by itself (a timer, an answer, a hint), and what it leads to.
   * @param {() => void} work
   */
  #react(work) {
    if (this.state === 'closed') return;
    if (this.#hasLease) {
      const rest = this.#lease.rest();
      if (rest <= 0) this.#expire();
      // The machine may have slept: by the wall clock the end is nearer than the timer has it.
      else this.#agenda.setBy('deadline', this.#now() + rest);
    }
    work();
    this.#pumpSoon();
    this.#keepAlive.look();
    this.#listener.settled();
  }

  // Calls of the adapter.

  /** What was asked is not listened to any more. */
  #hangUp() {
    this.#calls.hangUp();
    this.#outbox.isInterrupted();
    this.#renewAgain = false;
    for (const step of STEPS) this.#agenda.clear(step);
  }

  /**
   * @param {Call} call
   * @param {unknown} error
   */
  #isRejected(call, error) {
    const kind = this.#adapter.classify(error);
    if (call === 'open') this.#opening = undefined;
    // Later it may be a client that came to grief with its connection.
    const isMisuse = kind === 'misuse' || (kind === 'local' && !this.#readiness.isReached);
    if (isMisuse) this.#fail(error);
    else if (isRefusal(kind) && call !== 'sweep') this.#handleRefusal(error);
    else if (call === 'open') this.#openLater(error);
    else if (kind === 'dead') this.#lose('failover', error);
    else this.#isDown(error);
  }

  /** @param {unknown} error with which the server says that it does not serve */
  #handleRefusal(error) {
    this.#refusal = error;
    for (const place of this.#places.all())
      if (place.state === ASKED) this.#giveUp(place, error, error);
    if (this.#hasLease) this.#reconnectLater(error);
    else this.#openLater(error);
    if (this.state !== 'refused') this.#become('refused', undefined, error);
    this.#readiness.failed(error);
  }

  /** @param {unknown} error why it is not open */
  #note(error) {
    if (!tellsWhy(error)) return;
    this.#lastError = error;
    this.#lastErrorAt = this.#now();
  }

  /** Why the server does not answer; undefined if that is not known. */
  get #why() {
    const isRecent = this.#now() - this.#lastErrorAt <= Math.max(this.#ttl, 2 * LAST_RETRY);
    return this.#refusal ?? (isRecent ? this.#lastError : undefined);
  }

  /**
   * @param {number} failures before
   * @returns {number} milliseconds
   */
  #retryIn(failures) {
    if (this.#refusal === undefined) return this.#pause(failures, LAST_RETRY);
    const most = this.#hasLease ? Math.max(this.#ttl / 10, LAST_RETRY) : LAST_REFUSED;
    return this.#pause(this.#refusals++, most);
  }

  /**
   * @param {number} failures before
   * @param {number} most milliseconds
   */
  #pause(failures, most) {
    const milliseconds = Math.min(FIRST_RETRY * 2 ** failures, most);
    return Math.min(milliseconds * (0.5 + this.#clock.random()), LAST_REFUSED);
  }

  /**
   * @param {State} state
   * @param {Reason} [reason]
   * @param {unknown} [cause]
   */
  #become(state, reason, cause) {
    this.state = state;
    if (state !== 'refused' && state !== 'lost') {
      this.#refusal = undefined;
      this.#refusals = 0;
    }
    this.#listener.changed(state, reason, cause);
    this.#questions.changed();
  }

  // From one session to the next.

  #open() {
    this.#hangUp();
    const times = this.#lease.times();
    if (this.state !== 'opening' && this.state !== 'refused') this.#become('opening');
    const opening = this.#openOne(times.sent);
    this.#opening = opening;
    this.#calls.make(
      'open',
      this.#ttl,
      () => opening,
      ({ session, ttl, life, grantsIn = 0 }) => {
        this.#opening = undefined;
        this.#seen.life = life;
        this.#grantsFrom = this.#now() + grantsIn;
        this.#opened(session, ttl, times);
      },
    );
  }

  /** @param {number} sent when it was asked for */
  async #openOne(sent) {
    const opened = await this.#adapter.open(this.#info, this.#ttl, { ...this.#seen });
    this.#cut = undefined;
    await this.#endBefore(sent);
    return opened;
  }

  /**
   * What the one before has left is in the way of what is asked for again. It is not waited for
   * when the lease of the next one is half over, nor when nothing will be asked for.
   * @param {number} sent when the next one was asked for
   */
  async #endBefore(sent) {
    const session = this.#before;
    if (!session) return;
    try {
      const rest = this.state === 'closed' ? 0 : sent + this.#ttl / 2 - this.#now();
      await this.#within(this.#adapter.close(session), Math.min(this.#ttl / 6, rest));
      if (this.#before === session) this.#before = '';
    } catch {
      // It ends by itself.
    }
  }

  /**
   * @param {string} session
   * @param {number} ttl
   * @param {Times} times
   */
  #opened(session, ttl, times) {
    this.#session = session;
    this.#ttl = ttl;
    this.#retries = 0;
    this.#sweeps.begin();
    this.#grants.forgetEnds();
    this.#extend(times);
    if (this.#lease.rest() <= 0) {
      this.#leave();
      this.#openLater(this.#timeout('It was opened too late'));
      return;
    }
    this.#renewAfter(times);
    this.#agenda.clear('unopened');
    this.#become('open');
    this.#readiness.reached();
    if (this.#cut !== undefined) this.#isDown(this.#cut);
  }

  /** @param {unknown} error why it could not be opened now */
  #openLater(error) {
    if (this.state === 'refused' && error !== this.#refusal) this.#become('opening');
    this.#note(error);
    this.#hangUp();
    this.#agenda.clear('deadline');
    this.#agenda.set('open', this.#now() + this.#retryIn(this.#attempts++));
  }

  /** There is no session, until the next one is open. */
  #leave() {
    this.#before = this.#session;
    this.#session = '';
  }

  #expire() {
    if (this.#isCutOff) this.#lose('unreachable', this.#why);
    else this.#lose('expired', undefined);
  }

  /**
   * The session is over: tells who holds something, and goes on with a new one.
   * @param {Reason} reason
   * @param {unknown} cause
   */
  #lose(reason, cause) {
    const refusal = this.#refusal;
    const fates = this.#places
      .all()
      .map((place) => ({ place, fate: fateOf(place, 'lost', this.#outbox.isSent(place.op)) }));
    this.#hangUp();
    this.#agenda.clear('deadline');
    this.#clearOutbox();
    /** @type {Place[]} */
    const pending = [];
    for (const { place, fate } of fates) {
      this.#places.leave(place);
      if (fate === 'lost') this.#listener.lost(place, reason, cause);
      else if (fate === 'failed') this.#listener.failed(place, this.#timeout(UNKNOWN));
      else if (fate !== 'again') continue;
      else if (refusal === undefined) pending.push(place);
      else this.#listener.failed(place, refusal);
    }
    for (const group of grouped(pending)) this.#grants.askAgain(group);
    this.#become('lost', reason, cause);
    this.#leave();
    this.#awaitSession();
    if (refusal !== undefined) this.#become('refused', undefined, refusal);
    // A session that never came as far as its first renewal is not followed by the next at once.
    if (this.#attempts++ === 0) this.#open();
    else this.#openLater(cause);
  }

  // While it is open.

  /** @param {unknown} error of the adapter */
  #isCut(error) {
    if (this.state === 'open') this.#isDown(error);
    else if (!this.#hasLease) this.#cut = error ?? true;
  }

  /** @param {unknown} error */
  #isDown(error) {
    if (!this.#hasLease) return;
    this.#reconnectLater(error);
    if (this.state !== 'suspect') this.#become('suspect', undefined, error);
  }

  /** @param {unknown} error why it has to */
  #reconnectLater(error) {
    this.#note(error);
    this.#hangUp();
    this.#sweeps.begin();
    this.#agenda.set('reconnect', this.#now() + this.#retryIn(this.#retries++));
  }

  #reconnect() {
    if (!this.#isCutOff) return;
    this.#hangUp();
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
    const news = this.#places.news;
    this.#grants.forgetEnds();
    this.#renewAfter(times);
    this.#calls.make(
      'renew',
      Math.min(this.#ttl / 6, SIGN_OF_LIFE),
      () => this.#adapter.renew({ ...this.#seen }),
      (renewal) => this.#renewed(renewal, times, news),
    );
  }

  /** @param {Times} times when the renewal, or the opening, before the next one was sent */
  #renewAfter({ sent }) {
    const longest = this.#places.unheld > 0 ? SIGN_OF_LIFE : Number.POSITIVE_INFINITY;
    this.#agenda.set('renew', sent + Math.min(this.#ttl / 3, longest));
  }

  /**
   * @param {Renewal} renewal
   * @param {Times} times
   * @param {number} news that there were of places when it was sent
   */
  #renewed(renewal, times, news) {
    if (!renewal.alive) {
      this.#lose('failover', undefined);
      return;
    }
    this.#seen.life = renewal.life;
    this.#extend(times);
    this.#attempts = this.#retries = 0;
    // By the connection before nothing will be done any more.
    if (this.#isCutOff) this.#isMissed(renewal.step);
    if (this.#rules.compares) this.#grants.compare(renewal, news);
    if (renewal.step !== undefined) this.#outbox.areDone(renewal.step);
    if (this.#isCutOff) {
      this.#become('open');
      this.#readiness.reached();
      this.#lookSoon();
    }
    const now = this.#now();
    this.#grantsFrom = now + renewal.grantsIn;
    const state = { now, ttl: this.#ttl, waiting: this.#places.waiting };
    const next = this.#sweeps.next(renewal, state);
    if (next !== undefined) this.#agenda.set('sweep', next);
    if (this.#renewAgain) {
      this.#renewAgain = false;
      this.#renew();
    }
  }

  /** How long those ahead have to live, and whether there was a quarantine, is not known yet. */
  #lookSoon() {
    if (this.#sweeps.isTold) return;
    this.#agenda.setBy('look', this.#now() + this.#ttl / 10);
  }

  #sweep() {
    if (this.state !== 'open' || this.#calls.has('sweep')) return;
    if (!this.#sweeps.isWanted(this.#places.waiting)) return;
    this.#sweeps.done(this.#now());
    this.#agenda.clear('look');
    this.#calls.make(
      'sweep',
      this.#ttl / 3,
      () => this.#adapter.sweep(),
      () => this.#renew(),
    );
  }

  // The outbox.

  /**
   * What is asked at once makes one step, however many steps may be under way: most of what a small
   * one costs is not of its operations. While none is under way, and nobody is still to be told of
   * an answer, "at once" is what runs now, and what follows from the promises that it settles:
   * nobody waits for the rest of the turn of the event loop. Else it is the whole turn.
   */
  #pumpSoon() {
    if (this.#pumping || this.state !== 'open' || !this.#outbox.isReady) return;
    const isMoreToCome = this.#outbox.first !== undefined || this.#listener.isTelling();
    const later = isMoreToCome ? this.#clock.setImmediate : this.#clock.nextTick;
    later(() => {
      this.#pumping = false;
      this.#pump();
    });
    this.#pumping = true;
  }

  #pump() {
    if (this.state !== 'open') return;
    for (;;) {
      const step = this.#outbox.next();
      if (!step) return;
      this.#send(step);
    }
  }

  /** @param {SentStep} step */
  #send(step) {
    const { number, ops } = step;
    const before = this.#outbox.before(step);
    this.#agenda.setBy('renew', this.#now() + SIGN_OF_LIFE);
    this.#calls.make(
      'step',
      this.#ttl / 3,
      () => this.#adapter.step(ops, number, before),
      (answers) => this.#isAnswered(step, answers),
      (error) => this.#isNotDone(step, error),
    );
  }

  /**
   * Steps are answered in their order, whatever order the answers come in.
   * @param {SentStep} step
   * @param {Answer[]} answers
   */
  #isAnswered(step, answers) {
    step.answers = answers;
    step.isAnswered = true;
    for (let { first } = this.#outbox; first?.isAnswered; { first } = this.#outbox) {
      this.#grants.stepped(first.ops, first.answers);
      this.#outbox.answered();
      // It may have been granted long ago, and be stolen.
      if (first.isAgain) this.#renewSoon();
    }
  }

  /**
   * @param {SentStep} step
   * @param {unknown} error
   */
  #isNotDone(step, error) {
    // It came after one that was refused, and is sent anew.
    if (!this.#outbox.has(step)) return;
    const kind = this.#adapter.classify(error);
    // If it was not sent before, it was not done: this is all that there was of it.
    if (kind === 'dead' && !step.isAgain) this.#outbox.takeBack(step);
    if (!isRefusal(kind) && kind !== 'local') this.#isRejected('step', error);
    // Its answer is refused, not what it did (R1).
    else if (step.isDone) this.#isDown(error);
    else for (const op of this.#outbox.refused(step)) this.#grants.isRefused(op, error);
  }

  /** @param {number | undefined} done the last step that the server has done, if it tells */
  #isMissed(done) {
    if (done === undefined) return;
    const isWanted = (/** @type {Op} */ op) => this.#isWanted(op);
    const ops = this.#outbox.missed(done, isWanted, this.#now(), this.#ttl);
    const error = this.#timeout('The server answers, but not this request');
    for (const op of ops) this.#grants.isRefused(op, error);
  }

  /** @param {Op} op that something is in the way of */
  #tryLater(op) {
    this.#agenda.setBy('busy', this.#obstructed.add(op, this.#now()));
  }

  #tryBusy() {
    for (const op of this.#obstructed.takeDue(this.#now())) {
      if (this.#isWanted(op)) this.#outbox.add([op]);
    }
    const { next } = this.#obstructed;
    if (next < Number.POSITIVE_INFINITY) this.#agenda.set('busy', next);
  }

  /**
   * Whether an operation is still to be done that was not: a request may have been given up since,
   * or lost what a server has granted it that knows no more of that.
   * @param {Op} op
   */
  #isWanted(op) {
    return op.kind === 'end' || this.#places.get(op.ref)?.state === ASKED;
  }

  #clearOutbox() {
    this.#obstructed.clear();
    this.#agenda.clear('busy');
    this.#outbox.clear();
  }

  /** Those who do not want to wait do not wait for the server for ever. */
  #losePatience() {
    const now = this.#now();
    let next = Number.POSITIVE_INFINITY;
    const { by, isAwaited } = this.#readiness;
    if (isAwaited && by > now) next = by;
    else if (isAwaited)
      this.#readiness.failed(this.#timeout('The bucket could not be opened in time'));
    for (const place of this.#places.all()) {
      if (place.op.kind === 'request' || place.state !== ASKED) continue;
      const end = place.asked + this.#ttl;
      if (end > now) {
        next = Math.min(next, end);
        continue;
      }
      const { obstacle = this.#why } = place;
      this.#giveUp(place, unreachableError('The request was not made', obstacle), obstacle);
    }
    if (next < Number.POSITIVE_INFINITY) this.#agenda.set('patience', next);
  }

  /**
   * @param {Place} place not answered
   * @param {unknown} error for its request
   * @param {unknown} cause for that of a theft which the server may still do, since it is sent
   */
  #giveUp(place, error, cause) {
    const isUnknown = place.op.kind === 'steal' && this.#outbox.isSent(place.op);
    this.end(place);
    this.#listener.failed(place, isUnknown ? unreachableError(UNKNOWN, cause) : error);
  }

  /**
   * Users who hear that `ready` has rejected, and close the bucket for that, come first: they are
   * not warned.
   */
  #warnSoon() {
    this.#clock.setImmediate(() =>
      this.#react(() => {
        if (!this.#hasLease) this.#listener.unopened(this.#why);
      }),
    );
  }

  /**
   * @template T
   * @param {Promise<T>} promise
   * @param {number} milliseconds
   * @returns {Promise<T>} rejects if that takes longer
   */
  #within(promise, milliseconds) {
    const late = () => this.#timeout('A question is not answered');
    return within(this.#clock, promise, milliseconds, late);
  }

  // The end.

  /** @param {unknown} error of a misuse: no other attempt would be without it */
  #fail(error) {
    this.#closed ??= this.#stop('unreachable', error, error);
  }

  /**
   * @param {Reason} reason for locks
   * @param {unknown} error for requests
   * @param {unknown} cause
   */
  async #stop(reason, error, cause) {
    const session = this.#session;
    const opening = this.#opening;
    const patience = Math.max(this.#hasLease ? this.#lease.rest() : 0, this.#ttl / 3);
    const places = this.#places.all();
    const isLost = cause !== undefined && this.#hasLease;
    // Later calls are told this, and not what went wrong before.
    if (!this.#readiness.isAwaited) this.#awaitReady();
    this.#hangUp();
    this.#agenda.clearAll();
    this.#session = '';
    this.#error = error;
    /** @type {Place[]} */
    const ending = [];
    for (const place of places) {
      const fate = fateOf(place, 'closed', false);
      if (fate === 'kept') {
        ending.push(place);
        continue;
      }
      this.#places.leave(place);
      if (fate === 'lost') this.#listener.lost(place, reason, cause);
      else this.#listener.failed(place, error);
    }
    if (isLost) this.#become('lost', reason, cause);
    this.#become('closed', reason, cause);
    this.#readiness.failed(error);
    this.#clearOutbox();
    await this.#keepAlive.during(() => this.#giveBack(session, opening, patience));
    for (const place of ending) this.#places.leave(place);
    this.#keepAlive.look();
  }

  /**
   * @param {string} session '' for none
   * @param {Promise<{ session: string } | undefined> | undefined} opening
   * @param {number} patience milliseconds
   */
  async #giveBack(session, opening, patience) {
    try {
      const opened = opening && (await this.#within(opening, patience));
      const last = opened?.session || session || this.#before;
      if (last) await this.#within(this.#adapter.close(last), patience);
    } catch {
      // It ends by itself.
    }
    // Nothing is called after that: an `open` may be answered yet.
    this.#before = '';
    try {
      await this.#adapter.dispose();
    } catch {
      // Neither can anybody else do anything about it.
    }
  }
}

/**
 * @param {import('../adapter.js').Meaning} kind
 * @returns {boolean} whether the server answers that it does not do what it was asked
 */
const isRefusal = (kind) => kind === 'fatal' || kind === 'refused';

/**
 * @param {Place[]} places
 * @returns {Place[][]} those of a group together
 */
function grouped(places) {
  /** @type {Place[][]} */
  const groups = [];
  for (const place of places) {
    const last = groups.at(-1);
    if (last && place.op.group !== 0 && last[0].op.group === place.op.group) last.push(place);
    else groups.push([place]);
  }
  return groups;
}

module.exports = { Session };
