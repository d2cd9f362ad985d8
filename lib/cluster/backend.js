'use strict';

/**
 * The backend of a cluster's lock manager (../backend/contract.js), over a session with an engine.
 * It maps each request to a request of the session, and announces its result to users once the
 * session's state is complete. A failed request is rejected with the session's error. A lost lock
 * is reported with an error of its own, whose `cause` is the session's error.
 */

const { randomBytes } = require('node:crypto');
const { channel } = require('node:diagnostics_channel');
const process = require('node:process');
const { Announcer } = require('../backend/announcer.js');
const { entryOf } = require('../backend/local-details.js');
const { notSupportedError, plainError } = require('../platform/errors.js');
const { report, setTimeout, callInMicrotask, unref } = require('../platform/intrinsics.js');
const { hostname } = require('../platform/machine.js');
const { programName } = require('../platform/program.js');
const { threadId, threadName } = require('../platform/thread.js');
const { failed } = require('./adapter.js');
const { closeAtExit, doNotCloseAtExit } = require('./exit.js');
const { HELD, TrackedRequest } = require('./session/tracked-request.js');
const { Session } = require('./session/session.js');
const { toDetails, toHolders, toSnapshot } = require('./snapshot.js');
const { version } = require('../../package.json');

/** @import { Adapter, Answer, SessionInfo } from './adapter.js' */
/** @import { Backend, Requester } from '../backend/contract.js' */
/** @import { Reason, State } from './session/session.js' */
/** @typedef {InstanceType<typeof import('./session/tracked-request.js').TrackedRequest>} Tracked */

/** @typedef {{ state: State, reason?: Reason, cause?: unknown }} Change */

/** The time limit of a query for holders, in milliseconds. */
const LOOK = 1000;

const NO_LIMITS = "This engine does not support 'limit' and 'maxPending'.";
const NO_PRIORITIES = "This engine does not support 'priority'.";
const NO_PRIORITIES_OF_SEVERAL =
  "The 'priority' option cannot be used with several locks in a cluster: requests could wait for " +
  'each other.';

/**
 * A backend is closed when its thread has nothing more to do (exit.js). If the thread still runs
 * this many milliseconds later, it has found new work, so losses are reported. (Sockets that are
 * closing keep a thread running for less.)
 */
const GOES_ON = 1000;

/** Session changes: `{ id, state, reason, cause }`. */
const sessions = channel('locks.session');

const KINDS = /** @type {const} */ ({
  wait: 'request',
  ifAvailable: 'ifAvailable',
  steal: 'steal',
  pass: 'pass',
  passIfAvailable: 'passIfAvailable',
});

const { asIntN } = BigInt;

/** @param {number} most @param {number} count */
const tooManyError = (most, count) =>
  plainError(
    `The call names ${count} locks; at most ${most} are allowed. Request fewer at once, or one ` +
      'name that stands for all of them.',
    'ERR_WEB_LOCKS_TOO_MANY',
  );

/** @implements {Backend} */
class ClusterBackend {
  findsDeadlocks = false;
  /** @type {Requester[]} */
  unfinished = [];
  #adapter;
  #info;
  #session;
  #label;
  #onChange;
  #announcer = new Announcer();
  /** The session's requests. @type {Map<Requester, Tracked>} */
  #requests = new Map();
  #groups = 0;

  /**
   * Starts the session, and has it closed when the thread ends.
   * @param {Adapter} adapter for this backend alone
   * @param {object} options @param {number} options.ttl
   * @param {string} [options.label] the default label of requests
   * @param {readonly NodeJS.Signals[]} [options.signals] at which the session closes
   * @param {(change: Change) => void} [options.onChange]
   * @param {import('./session/lease-keeper.js').Keeper} [options.keeper]
   * @param {Partial<SessionInfo>} [options.info] for tests, like the options below
   * @param {import('./session/clock.js').Clock} [options.clock]
   * @param {Partial<import('./session/session.js').Rules>} [options.rules]
   */
  constructor(adapter, { ttl, label = '', signals = [], onChange = () => {}, ...rest }) {
    const { keeper, info, clock, rules } = rest;
    this.id = adapter.id;
    this.#info = { ...thisThread(), ...info };
    this.#adapter = adapter;
    this.#label = label;
    this.#onChange = onChange;
    if (adapter.can.groups) this.requestAll = this.#requestAll;
    if (adapter.guard) this.guard = this.#guard;
    if (adapter.can.marks) this.marked = this.#queryMark;
    if (adapter.can.data) this.publish = this.#publish;
    this.#session = new Session(
      { adapter, ttl, clock, rules, keeper, info: this.#info },
      {
        granted: (tracked) => this.#handleGrant(tracked),
        passed: (tracked) => this.#handlePass(tracked),
        denied: (tracked, answer) => this.#handleDenial(tracked, answer),
        stolen: (tracked, thief) => this.#handleLoss(tracked, (lock) => lock.stolen(thief)),
        lost: (tracked, reason, cause) =>
          this.#handleLoss(tracked, (lock) => lock.lost(reason, () => errorOrUndefined(cause))),
        failed: (tracked, error) => this.#handleDenial(tracked, failed(error)),
        changed: (state, reason, cause) => this.#handleChange({ state, reason, cause }),
        unopened: (why) => this.#announcer.addChange(() => warnOfOutage(adapter.id, ttl, why)),
        settled: () => this.#announceEvents(),
        hasPendingAnswers: () => this.#announcer.hasAnswers,
      },
    );
    this.#session.start();
    closeAtExit(this, signals);
  }

  /** Reading it may start another attempt to connect (see `Session.ready`). */
  get ready() {
    return this.#session.ready;
  }

  get state() {
    return this.#session.state;
  }

  /** The error of all requests once the session is closed; undefined until then. */
  get closed() {
    return this.#session.closed;
  }

  /** @param {Requester} request */
  request(request) {
    if (!this.#failIfImpossible(request)) this.#session.request([this.#track(request, 0)]);
  }

  /** @type {((requests: Requester[]) => void) | undefined} */
  requestAll;

  /**
   * Requests the locks as one group. A request with a priority fails; if there are too many
   * requests, all fail.
   * @param {Requester[]} requests
   */
  #requestAll(requests) {
    const asked = requests.filter((request) => {
      if (this.#failIfImpossible(request)) return false;
      if (!request.priority) return true;
      request.failed(() => notSupportedError(NO_PRIORITIES_OF_SEVERAL));
      return false;
    });
    const { most = Number.POSITIVE_INFINITY } = this.#adapter.can;
    if (asked.length > most) {
      for (const request of asked) request.failed(() => tooManyError(most, asked.length));
      return;
    }
    const group = asked.length > 1 ? ++this.#groups : 0;
    if (asked.length > 0)
      this.#session.request(asked.map((request) => this.#track(request, group)));
  }

  /** Fails a request that cannot be made; returns whether it did. @param {Requester} request */
  #failIfImpossible(request) {
    const { error } = this.#session;
    if (error !== undefined) {
      request.failed(() => error);
      return true;
    }
    const { can } = this.#adapter;
    const isLimited = request.limit !== undefined || request.maxPending !== undefined;
    if (isLimited && !can.limits) request.failed(() => notSupportedError(NO_LIMITS));
    else if (request.priority && !can.priorities)
      request.failed(() => notSupportedError(NO_PRIORITIES));
    else return false;
    return true;
  }

  /**
   * Returns a tracked request for the session.
   * @param {Requester} request @param {number} group 0 for none
   */
  #track(request, group) {
    const limit = request.mode === 'shared' ? (request.limit ?? 0) : 0;
    const tracked = new TrackedRequest(request, {
      kind: KINDS[request.disposition],
      ref: 0,
      name: request.name,
      mode: request.mode,
      limit,
      weight: limit > 0 ? (request.weight ?? 1) : 0,
      maxPending: request.maxPending ?? -1,
      priority: request.priority ?? 0,
      label: request.label ?? this.#label,
      group,
    });
    this.#requests.set(request, tracked);
    return tracked;
  }

  /** @param {Requester} request */
  withdraw(request) {
    return this.#endRequest(request);
  }

  /** @param {Requester} lock */
  release(lock) {
    return this.#endRequest(lock);
  }

  /** @param {Requester} request @returns {Promise<void> | undefined} see `Session.end` */
  #endRequest(request) {
    const tracked = this.#requests.get(request);
    if (!tracked) return undefined;
    const ended = this.#session.end(tracked, request.keep);
    this.#requests.delete(request);
    return ended;
  }

  /** The stage of a request that is not granted (`Session.progress`). @param {Requester} request */
  progress(request) {
    const tracked = this.#requests.get(request);
    return tracked && this.#session.progress(tracked);
  }

  /** Announces the results of calls from user code, and has `unfinished` requests finished. */
  announce() {
    this.#announcer.announce(false);
    if (this.unfinished.length > 0) this.undo();
  }

  /** Finishes the `unfinished` requests in a microtask. Scheduling it may overflow the stack. */
  undo = () => {
    try {
      callInMicrotask(() => this.#finishAll());
    } catch {
      // The next event calls `undo` again.
    }
  };

  #finishAll() {
    const { unfinished } = this;
    for (let i = 0; i < unfinished.length; i++) {
      try {
        unfinished[i].finish();
      } catch (error) {
        report(error);
      }
    }
    unfinished.length = 0;
  }

  /** @param {string} [name] */
  async query(name) {
    return toSnapshot(await this.#session.queries.query(name));
  }

  /** @param {string} [name] */
  async details(name) {
    return toDetails(await this.#session.queries.query(name), this.grantsIn());
  }

  /** Milliseconds until the server's quarantine ends; 0 for none. */
  grantsIn() {
    return this.#session.grantsIn;
  }

  /** Why the server has not answered; undefined if it may still. @param {Requester} [request] */
  outage(request) {
    return this.#session.outage(request && this.#requests.get(request));
  }

  /** Resolves to undefined if there is no usable answer in time. @param {string} name */
  async askHolders(name) {
    const holders = await this.#session.queries.queryHolders(name, LOOK);
    return holders && toHolders(holders);
  }

  /** @param {Requester} request @param {boolean} isHeld */
  entryOf(request, isHeld) {
    return entryOf(this.#info, request, this.#label || this.#info.program, isHeld);
  }

  /** If the lease has ended, this call ends the session's locks. @param {Requester} lock */
  checkHeld(lock) {
    return this.remaining(lock) > 0;
  }

  /**
   * Milliseconds until a held lock is lost; otherwise 0. If the lease has ended, this call ends the
   * session's locks.
   * @param {Requester} lock
   */
  remaining(lock) {
    return this.#requests.get(lock)?.state === HELD ? this.#session.remaining() : 0;
  }

  /** @type {((lock: Requester, client: any) => Promise<void>) | undefined} */
  guard;

  /**
   * Makes sure that the lock is still held when the user's transaction commits. Throws the loss if
   * the lock is not held now.
   * @param {Requester} lock @param {any} client of the user's transaction
   */
  async #guard(lock, client) {
    const tracked = this.#requests.get(lock);
    if (tracked?.state === HELD && this.#adapter.guard) {
      const { ref, name } = tracked.op;
      const { token } = tracked;
      if (await this.#adapter.guard(client, { ref, name, token })) return;
      // The server no longer has the lock, and the user must be notified of the loss at once.
      this.#session.loseMissing(tracked);
    }
    throw lock.lossReason();
  }

  /** @type {((lock: Requester) => Promise<boolean>) | undefined} */
  marked;

  /** Whether the name is marked; false if the lock is not held. @param {Requester} lock */
  async #queryMark(lock) {
    const tracked = this.#requests.get(lock);
    return tracked?.state === HELD && (await this.#session.queries.queryMark(tracked));
  }

  /** @type {import('../backend/contract.js').Backend['publish']} */
  publish;

  /** @param {Requester} lock @param {string | undefined} text */
  #publish(lock, text = '') {
    const tracked = this.checkHeld(lock) ? this.#requests.get(lock) : undefined;
    return tracked !== undefined && this.#session.publish(tracked, text);
  }

  /** Announces losses at once. The promise resolves when the session has ended; never rejects. */
  close() {
    const closed = this.#session.close();
    doNotCloseAtExit(this);
    this.#announcer.announce(false);
    return closed;
  }

  /** Reports losses only if the thread continues to run after all (see exit.js). */
  async closeQuietly() {
    const closed = this.#session.close();
    doNotCloseAtExit(this);
    await closed;
    unref(setTimeout(() => this.#announcer.announce(false), GOES_ON));
  }

  /** @param {Tracked} tracked */
  #handleGrant({ owner, token }) {
    owner.granted(Number(asIntN(32, token)) >>> 0, Number(asIntN(32, token >> 32n)) >>> 0);
    this.#announcer.addAnswer(owner);
  }

  /** A request that has passed counts as granted, with the token 0. @param {Tracked} tracked */
  #handlePass({ owner }) {
    this.#requests.delete(owner);
    owner.granted(0, 0);
    this.#announcer.addAnswer(owner);
  }

  /** @param {Tracked} tracked @param {Answer} answer */
  #handleDenial({ owner }, { code, limit, error }) {
    this.#requests.delete(owner);
    if (code === 'unavailable') owner.unavailable();
    else if (code === 'otherLimit') owner.otherLimit?.(limit);
    else if (code === 'queueFull') owner.queueFull?.();
    else owner.failed(() => error);
    this.#announcer.addAnswer(owner);
  }

  /** @param {Tracked} tracked @param {(lock: Requester) => void} how calls `stolen` or `lost` */
  #handleLoss({ owner }, how) {
    this.#requests.delete(owner);
    how(owner);
    this.#announcer.addLoss(owner);
  }

  /** Queues the calls that publish the change and call `onChange`. @param {Change} change */
  #handleChange(change) {
    this.#announcer.addChange(() => {
      if (sessions.hasSubscribers) sessions.publish({ id: this.id, ...change });
    });
    this.#announcer.addChange(() => this.#onChange(change));
  }

  #announceEvents() {
    this.#announcer.announce(true);
    if (this.unfinished.length > 0) this.undo();
  }
}

/** @param {string} id of the bucket @param {number} milliseconds @param {any} cause */
function warnOfOutage(id, milliseconds, cause) {
  const why = cause === undefined ? 'the lock server does not answer.' : (cause?.message ?? cause);
  const seconds = milliseconds / 1000;
  const message = `There has been no session with the lock server (${id}) for ${seconds} s: ${why}`;
  const warning = plainError(message, 'ERR_WEB_LOCKS_UNREACHABLE', { cause });
  warning.name = 'LockWarning';
  process.emitWarning(warning);
}

/** @param {unknown} cause */
const errorOrUndefined = (cause) => (cause instanceof Error ? cause : undefined);

/** Describes this thread to the server, with a new client id each time. */
function thisThread() {
  return {
    clientId: `node-${process.pid}-${threadId}-${randomBytes(8).toString('hex')}`,
    host: hostname(),
    pid: process.pid,
    threadId,
    threadName,
    program: programName(),
    version,
  };
}

module.exports = { ClusterBackend };
