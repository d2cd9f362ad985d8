'use strict';

/**
 * The state machine of a manager's session with an engine. The backend calls `start`, `ask`, `end`,
 * and the listener receives what becomes of each request, while the server may be slow, replaced or
 * restored from old data and this process may be stopped. No call throws.
 *
 *   new ─▶ opening ─▶ open ◀─▶ suspect          any ─▶ closed
 *             ▲         │          │
 *             └─ lost ◀─┴──────────┘              any but closed ◀─▶ refused
 *
 * Lease: the server keeps the session for `ttl` from its answer to a renewal; here the lease lasts
 * 0.9 `ttl` from when the renewal was sent. So if clock rates differ by less than 10 %, a lock ends
 * here before the server grants it again. `#react` checks the lease before every event.
 * Lost: the locks are lost. The old session is closed, since its requests would stand ahead of the
 * next one's, which requests what waits again, in its order, with new `ref`s.
 * Suspect: locks stay held until the lease ends. A new connection calls `hello`, renews, compares
 * the server's list with ours, and repeats the steps that were not answered.
 * Refused: the server rejects this client. Locks and queued requests stay until the lease ends;
 * other requests fail with the server's error until an attempt succeeds.
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
const { ALLOTTED, ASKED, ENDING, GONE, HELD, WAITING, waits } = require('./place.js');
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
 * @typedef {'expired' | 'unreachable' | 'failover' | 'closed'} Reason why a lock was lost.
 *   `expired`: the lease ended while this process stood still. `unreachable`: it ended while the
 *   server was away, or the end that marks the name was refused. `failover`: the server no longer
 *   has the lock. `closed`: the bucket was closed
 */

/**
 * The listener's calls run no users' code: `settled`, which ends each event, lets it run.
 * @typedef {object} Listener
 * @property {(place: Place) => void} granted
 * @property {(place: Place) => void} passed its request would have been granted, and has ended
 * @property {(place: Place, answer: Answer) => void} refused the answer is neither a grant nor a
 *   place in the queue
 * @property {(place: Place, thief: string) => void} stolen
 * @property {(place: Place, reason: Reason, cause: unknown) => void} lost comes after `end`, too,
 *   if the name was to be marked and is not, or nobody can know
 * @property {(place: Place, error: unknown) => void} failed
 * @property {(state: State, reason?: Reason, cause?: unknown) => void} changed
 * @property {(why: unknown) => void} unopened no session was open for a `ttl`
 * @property {() => void} settled
 * @property {() => boolean} isTelling whether callbacks of users are still due for answers that
 *   came
 */

/**
 * @typedef {object} Rules tests switch one off, to show that it matters
 * @property {number} margin the part of the `ttl` for which a lock is held here
 * @property {boolean} compares
 */

/** @type {Rules} */
const RULES = Object.freeze({ margin: 0.9, compares: true });

/**
 * @typedef {'deadline' | 'patience' | 'busy' | 'unopened' | Step | Silence} Item a timer of the
 *   session
 * @typedef {'renew' | 'sweep' | 'look' | 'reconnect' | 'open'} Step a timer that a lost connection
 *   clears
 */

/** @type {Step[]} */
const STEPS = ['renew', 'sweep', 'look', 'reconnect', 'open'];

const UNKNOWN = 'The server did not say whether the lock was stolen';

// Milliseconds until the next attempt to connect; the pause doubles from the first to the last.
const FIRST_RETRY = 50;
const LAST_RETRY = 2000;
/** The longest pause while the server refuses and there is no lease that could expire. */
const LAST_REFUSED = 60_000;

/**
 * While something waits, a renewal is sent at least every 5 s, and no renewal is waited for longer,
 * however long the lease is: an unanswered one reveals a connection that was dropped silently.
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
  /** The id of the session; '' if there is none. */
  #session = '';
  /** The id of the session before, until the server has ended it. */
  #before = '';
  /** @type {Promise<{ session: string } | undefined> | undefined} */
  #opening;
  /** The error of a connection that broke before its session was in use. @type {unknown} */
  #cut;
  #lease;
  /** Failed attempts in a row to open a session that lives until its first renewal. */
  #attempts = 0;
  /** Failed attempts in a row to reconnect this session. */
  #retries = 0;
  /** Why the server refuses this client. @type {unknown} */
  #refusal;
  #refusals = 0;
  /** @type {unknown} */
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
  /** When the quarantine ends, on the monotonic clock. */
  #grantsFrom = 0;
  #pumping = false;
  #keepAlive;
  #questions;
  /** Why it is closed. @type {unknown} */
  #error;
  /** @type {Promise<void> | undefined} */
  #closed;

  /**
   * @param {object} options
   * @param {Adapter} options.adapter this session alone uses it
   * @param {SessionInfo} options.info @param {number} options.ttl @param {Clock} [options.clock]
   * @param {Partial<Rules>} [options.rules] @param {Listener} listener
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

  // The backend's calls.

  start() {
    this.#awaitReady();
    this.#awaitSession();
    this.#open();
    this.#keepAlive.look();
  }

  /**
   * Resolves when the session is open; rejects if the server refuses, or after a `ttl`. If the
   * session is not open, reading it starts another attempt at once.
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

  #awaitSession() {
    this.#agenda.setBy('unopened', this.#now() + this.#ttl);
  }

  /** Shortens a pause between attempts that has grown long. */
  #tryNow() {
    const step = this.#hasLease ? 'reconnect' : 'open';
    const isTrying = ['open', 'hello', 'renew'].some((call) =>
      this.#calls.has(/** @type {Call} */ (call)),
    );
    if (!isTrying) this.#agenda.setBy(step, this.#now() + this.#pause(0, LAST_RETRY));
  }

  /** Why the session is closed; undefined if it is not. */
  get closed() {
    return this.#error;
  }

  /** Why requests fail; undefined if they do not. */
  get error() {
    return this.#error ?? this.#refusal;
  }

  /**
   * Why the server says nothing about a request. It is undefined until that is known: a time limit
   * that is shorter than a round trip proves nothing about the server.
   * @param {Place} [place]
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

  /** The caller checks `error` first. @param {Place[]} places one new request, or a group */
  ask(places) {
    for (const place of places) {
      place.asked = this.#now();
      this.#places.enter(place);
      if (!waits(place.op)) this.#agenda.setBy('patience', place.asked + this.#ttl);
    }
    this.#outbox.add(places.map(({ op }) => op));
    this.#pumpSoon();
    this.#keepAlive.look();
  }

  /**
   * Withdraws a request, or releases its lock.
   * @param {Place} place
   * @param {number} [keep] milliseconds to mark the name for; if the mark fails, the lock is lost
   * @returns {Promise<void> | undefined} settles when the server has ended it or no longer needs
   *   to; never rejects
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
   * @param {Place} place neither held nor ended
   * @returns {import('../../backend/contract.js').Progress}
   */
  progress({ op, state }) {
    if (state === WAITING) return 'waiting';
    if (state === ALLOTTED) return 'allotted';
    return this.#outbox.isSent(op) ? 'sent' : 'unsent';
  }

  /**
   * Milliseconds until locks are lost without a renewal. If none are left, this call loses them and
   * the listener's `settled` follows soon.
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
   * Loses a lock that the server no longer has, as the caller's guard found.
   * @param {Place} place
   */
  isMissing(place) {
    this.#react(() => {
      if (place.state !== HELD) return;
      this.#places.leave(place);
      this.#listener.lost(place, 'failover', undefined);
    });
  }

  /** @param {string} [name] */
  query(name) {
    return this.#questions.query(name);
  }

  /**
   * The holders of a name, for a request that waits on it. Own locks that the server has granted
   * and this session does not hold yet are left out, since no request waits for them; if they are
   * the only ones, or nobody answers in time, the result is undefined.
   * @param {string} name @param {number} milliseconds
   */
  async lookAt(name, milliseconds) {
    const holders = await this.#questions.lookAt(name, milliseconds);
    const others = holders?.filter((holder) => !this.#isUnheld(holder));
    return others?.length || !holders?.length ? others : undefined;
  }

  /**
   * Whether a lock that the server lists as held is ours and not held here yet: its grant has not
   * arrived, or its group is incomplete.
   * @param {Entry} entry
   */
  #isUnheld({ clientId, ref, token }) {
    const place = this.#places.get(ref);
    const isKnown = place?.token === token && place.state !== ALLOTTED;
    return clientId === this.#info.clientId && !isKnown;
  }

  /** @param {Place} place held */
  isMarked(place) {
    return this.#questions.isMarked(place);
  }

  /**
   * Gives everything back and closes the session for good. The listener gets its calls before this
   * settles. It never rejects.
   */
  close() {
    // If the session never opened, the reason belongs into the error.
    const cause = this.#readiness.isReached ? this.#refusal : this.#why;
    this.#closed ??= this.#stop('closed', bucketClosedError(cause), undefined);
    return this.#closed;
  }

  /** Milliseconds until the quarantine ends, as far as the server has said. */
  get grantsIn() {
    return Math.max(this.#grantsFrom - this.#now(), 0);
  }

  // Clocks and timers.

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
    else if (item === 'no open') this.#openLater(this.#timeout('The bucket does not open'));
    // `#react` has checked the deadline by now. If the lease lasts longer, the timer is set again.
    else if (item !== 'deadline') this.#isDown(this.#timeout('A call was not answered in time'));
    else if (this.#hasLease)
      this.#agenda.set('deadline', this.#now() + Math.max(this.#lease.rest(), 1));
  }

  /** @param {string} what */
  #timeout(what) {
    return unreachableError(what, this.#why);
  }

  /**
   * Every event (a timer, an answer, a hint) runs in here: after the lease was checked, and before
   * the outbox, the event loop and the listener follow up.
   * @param {() => void} work
   */
  #react(work) {
    if (this.state === 'closed') return;
    if (this.#hasLease) {
      const rest = this.#lease.rest();
      if (rest <= 0) this.#expire();
      // If the machine slept, the lease ends sooner than the timer fires.
      else this.#agenda.setBy('deadline', this.#now() + rest);
    }
    work();
    this.#pumpSoon();
    this.#keepAlive.look();
    this.#listener.settled();
  }

  // Calls of the adapter.

  /** Ignores the answers of the old connection. */
  #hangUp() {
    this.#calls.hangUp();
    this.#outbox.isInterrupted();
    this.#renewAgain = false;
    for (const step of STEPS) this.#agenda.clear(step);
  }

  /** @param {Call} call @param {unknown} error */
  #isRejected(call, error) {
    const kind = this.#adapter.classify(error);
    if (call === 'open') this.#opening = undefined;
    // Once a session was open, a local error may come from the broken connection: retry then.
    const isMisuse = kind === 'misuse' || (kind === 'local' && !this.#readiness.isReached);
    if (isMisuse) this.#fail(error);
    else if (isRefusal(kind) && call !== 'sweep') this.#handleRefusal(error);
    else if (call === 'open') this.#openLater(error);
    else if (kind === 'dead') this.#lose('failover', error);
    else this.#isDown(error);
  }

  /** @param {unknown} error */
  #handleRefusal(error) {
    this.#refusal = error;
    for (const place of this.#places.all())
      if (place.state === ASKED) this.#giveUp(place, error, error);
    if (this.#hasLease) this.#reconnectLater(error);
    else this.#openLater(error);
    if (this.state !== 'refused') this.#become('refused', undefined, error);
    this.#readiness.failed(error);
  }

  /** @param {unknown} error */
  #note(error) {
    if (!tellsWhy(error)) return;
    this.#lastError = error;
    this.#lastErrorAt = this.#now();
  }

  /** Why the server does not answer; undefined if nobody knows. */
  get #why() {
    const isRecent = this.#now() - this.#lastErrorAt <= Math.max(this.#ttl, 2 * LAST_RETRY);
    return this.#refusal ?? (isRecent ? this.#lastError : undefined);
  }

  /** @param {number} failures before this one */
  #retryIn(failures) {
    if (this.#refusal === undefined) return this.#pause(failures, LAST_RETRY);
    const most = this.#hasLease ? Math.max(this.#ttl / 10, LAST_RETRY) : LAST_REFUSED;
    return this.#pause(this.#refusals++, most);
  }

  /** @param {number} failures before this one @param {number} most milliseconds */
  #pause(failures, most) {
    const milliseconds = Math.min(FIRST_RETRY * 2 ** failures, most);
    return Math.min(milliseconds * (0.5 + this.#clock.random()), LAST_REFUSED);
  }

  /** @param {State} state @param {Reason} [reason] @param {unknown} [cause] */
  #become(state, reason, cause) {
    this.state = state;
    if (state !== 'refused' && state !== 'lost') {
      this.#refusal = undefined;
      this.#refusals = 0;
    }
    this.#listener.changed(state, reason, cause);
    this.#questions.changed();
  }

  // Opening and losing sessions.

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

  /** @param {number} sent */
  async #openOne(sent) {
    const opened = await this.#adapter.open(this.#info, this.#ttl, { ...this.#seen });
    this.#cut = undefined;
    await this.#endBefore(sent);
    return opened;
  }

  /**
   * Ends the session before, whose requests would stand ahead of ours. The new session gives up
   * waiting when half of its lease is over, or when it is closed already.
   * @param {number} sent when the opening of the new session began
   */
  async #endBefore(sent) {
    const session = this.#before;
    if (!session) return;
    try {
      const rest = this.state === 'closed' ? 0 : sent + this.#ttl / 2 - this.#now();
      await this.#within(this.#adapter.close(session), Math.min(this.#ttl / 6, rest));
      if (this.#before === session) this.#before = '';
    } catch {
      // The session expires by itself.
    }
  }

  /** @param {string} session @param {number} ttl @param {Times} times */
  #opened(session, ttl, times) {
    this.#session = session;
    this.#ttl = ttl;
    this.#retries = 0;
    this.#sweeps.begin();
    this.#grants.forgetEnds();
    this.#extend(times);
    if (this.#lease.rest() <= 0) {
      this.#leave();
      this.#openLater(this.#timeout('The lease expired before the bucket was open'));
      return;
    }
    this.#renewAfter(times);
    this.#agenda.clear('unopened');
    this.#become('open');
    this.#readiness.reached();
    if (this.#cut !== undefined) this.#isDown(this.#cut);
  }

  /** @param {unknown} error */
  #openLater(error) {
    if (this.state === 'refused' && error !== this.#refusal) this.#become('opening');
    this.#note(error);
    this.#hangUp();
    this.#agenda.clear('deadline');
    this.#agenda.set('open', this.#now() + this.#retryIn(this.#attempts++));
  }

  #leave() {
    this.#before = this.#session;
    this.#session = '';
  }

  #expire() {
    if (this.#isCutOff) this.#lose('unreachable', this.#why);
    else this.#lose('expired', undefined);
  }

  /** Loses the locks and opens the next session. @param {Reason} reason @param {unknown} cause */
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
    // A session that died before its first renewal is not replaced at once, but after a pause.
    if (this.#attempts++ === 0) this.#open();
    else this.#openLater(cause);
  }

  // The open session.

  /** @param {unknown} error */
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

  /** @param {unknown} error */
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

  /** @param {Times} times when the last renewal, or the opening, was sent */
  #renewAfter({ sent }) {
    const longest = this.#places.unheld > 0 ? SIGN_OF_LIFE : Number.POSITIVE_INFINITY;
    this.#agenda.set('renew', sent + Math.min(this.#ttl / 3, longest));
  }

  /**
   * @param {Renewal} renewal @param {Times} times
   * @param {number} news the count of changes when the renewal was sent
   */
  #renewed(renewal, times, news) {
    if (!renewal.alive) {
      this.#lose('failover', undefined);
      return;
    }
    this.#seen.life = renewal.life;
    this.#extend(times);
    this.#attempts = this.#retries = 0;
    // The old connection executes nothing any more, so what it has not executed is missed for good.
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

  /**
   * After a reconnect, or as soon as a request waits, nobody knows yet when the leases ahead
   * expire.
   */
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

  // Steps.

  /**
   * Collects the operations of one moment in one step, since a step costs more than its operations.
   * If no step is under way and no callback is due, the moment ends with the promises that the
   * current code settles. Otherwise it ends with the turn of the event loop.
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
   * Applies answers in the order of the steps, whatever order they arrive in.
   * @param {SentStep} step @param {Answer[]} answers
   */
  #isAnswered(step, answers) {
    step.answers = answers;
    step.isAnswered = true;
    for (let { first } = this.#outbox; first?.isAnswered; { first } = this.#outbox) {
      this.#grants.stepped(first.ops, first.answers);
      this.#outbox.answered();
      // The answer of a repeated step may be old: its lock may be stolen by now.
      if (first.isAgain) this.#renewSoon();
    }
  }

  /** @param {SentStep} step @param {unknown} error */
  #isNotDone(step, error) {
    // An earlier step was refused, and this one's operations are sent in others.
    if (!this.#outbox.has(step)) return;
    const kind = this.#adapter.classify(error);
    // A step that was sent once and found the session dead was not executed.
    if (kind === 'dead' && !step.isAgain) this.#outbox.takeBack(step);
    if (!isRefusal(kind) && kind !== 'local') this.#isRejected('step', error);
    // The server executed the step: it rejects only the question for the answer (R1).
    else if (step.isDone) this.#isDown(error);
    else for (const op of this.#outbox.refused(step)) this.#grants.isRefused(op, error);
  }

  /** @param {number | undefined} done the last step that the server executed, if it says so */
  #isMissed(done) {
    if (done === undefined) return;
    const isWanted = (/** @type {Op} */ op) => this.#isWanted(op);
    const ops = this.#outbox.missed(done, isWanted, this.#now(), this.#ttl);
    const error = this.#timeout(
      'The server did not answer this request, though it answered others',
    );
    for (const op of ops) this.#grants.isRefused(op, error);
  }

  /** @param {Op} op */
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
   * Whether an operation that was not executed is still needed: its request may be withdrawn since,
   * or be lost in a fail-over after its grant.
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

  /** Fails `ifAvailable` and `steal` requests that got no answer for a `ttl`, and `ready`. */
  #losePatience() {
    const now = this.#now();
    let next = Number.POSITIVE_INFINITY;
    const { by, isAwaited } = this.#readiness;
    if (isAwaited && by > now) next = by;
    else if (isAwaited)
      this.#readiness.failed(this.#timeout('The bucket could not be opened in time'));
    for (const place of this.#places.all()) {
      if (waits(place.op) || place.state !== ASKED) continue;
      const end = place.asked + this.#ttl;
      if (end > now) {
        next = Math.min(next, end);
        continue;
      }
      const { obstacle = this.#why } = place;
      this.#giveUp(
        place,
        unreachableError('The server did not execute the request in time', obstacle),
        obstacle,
      );
    }
    if (next < Number.POSITIVE_INFINITY) this.#agenda.set('patience', next);
  }

  /**
   * @param {Place} place not answered
   * @param {unknown} error of the request
   * @param {unknown} cause of the error of a theft that was sent, and which the server may still do
   */
  #giveUp(place, error, cause) {
    const isUnknown = place.op.kind === 'steal' && this.#outbox.isSent(place.op);
    this.end(place);
    this.#listener.failed(place, isUnknown ? unreachableError(UNKNOWN, cause) : error);
  }

  /**
   * Warns a turn later, so that a user who closes the bucket because `ready` rejected gets no
   * warning.
   */
  #warnSoon() {
    this.#clock.setImmediate(() =>
      this.#react(() => {
        if (!this.#hasLease) this.#listener.unopened(this.#why);
      }),
    );
  }

  /** @template T @param {Promise<T>} promise @param {number} milliseconds */
  #within(promise, milliseconds) {
    const late = () => this.#timeout('The query was not answered in time');
    return within(this.#clock, promise, milliseconds, late);
  }

  // Closing.

  /** @param {unknown} error that every attempt would meet again */
  #fail(error) {
    this.#closed ??= this.#stop('unreachable', error, error);
  }

  /**
   * @param {Reason} reason of locks that are lost
   * @param {unknown} error of requests that fail
   * @param {unknown} cause
   */
  async #stop(reason, error, cause) {
    const session = this.#session;
    const opening = this.#opening;
    const patience = Math.max(this.#hasLease ? this.#lease.rest() : 0, this.#ttl / 3);
    const places = this.#places.all();
    const isLost = cause !== undefined && this.#hasLease;
    // From now on `ready` rejects with this error, and not with an earlier one.
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
   * @param {string} session '' if there is none
   * @param {Promise<{ session: string } | undefined> | undefined} opening
   * @param {number} patience milliseconds
   */
  async #giveBack(session, opening, patience) {
    try {
      const opened = opening && (await this.#within(opening, patience));
      const last = opened?.session || session || this.#before;
      if (last) await this.#within(this.#adapter.close(last), patience);
    } catch {
      // The session expires by itself.
    }
    // An `open` that is answered later must not close a session through a disposed adapter.
    this.#before = '';
    try {
      await this.#adapter.dispose();
    } catch {
      // Nobody could do anything about the error.
    }
  }
}

/**
 * Whether the server answers that it will not do the call.
 * @param {import('../adapter.js').Meaning} kind
 */
const isRefusal = (kind) => kind === 'fatal' || kind === 'refused';

/** @param {Place[]} places @returns {Place[][]} the members of each group together */
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
