'use strict';

const process = require('node:process');
const { NO_TAG } = require('../backend/contract.js');
const {
  Promise,
  arePromisesNative,
  now,
  report,
  then,
  uncurry,
} = require('../platform/intrinsics.js');
const { describeLock } = require('../platform/names.js');
const { asyncDispose, dispose } = require('../platform/realm.js');
const { Lock, own } = require('../standard/lock.js');
const { ENDED, GRANTED, PENDING, LOST, UNAVAILABLE } = require('../standard/lock-request.js');
const { withTextStack, callSite } = require('./origin.js');
const { Request } = require('./request.js');
const { ANSWER_MS } = require('./watch.js');

/** A blocked thread returns to JavaScript this often, because the engine can end it only there. */
const SLICE_MS = 50;

const LATER = 'Handles acquired from now on (or with `warnAfter`) report where they were acquired.';

/** @typedef {InstanceType<typeof import('../standard/lock-request.js').LockRequest>} LockRequest */
/** @typedef {{ request: HeldRequest, where: string }} Leak `where` is '' if it is unknown */

/** Whether a handle of an unknown place has leaked. */
let isLooking = false;

/**
 * Finds where a handle is acquired. The search costs several times the rest of a handle, so it is
 * done only if the request is observed anyhow, or after a leak in this thread.
 * @param {Function} callee @param {boolean} isFollowed @returns {string} '' if unknown
 */
const findSite = (callee, isFollowed) => (isFollowed || isLooking ? callSite(callee) : '');

/**
 * Releases locks whose handles nobody has any more. Our own state changes first, because a listener
 * can throw.
 * @type {FinalizationRegistry<Leak>}
 */
const leaks = new FinalizationRegistry(({ request, where }) => {
  if (!request.held) return;
  request.giveBack();
  if (where === '') isLooking = true;
  const site = where === '' ? ` ${LATER}` : ` It was acquired:\n${where}`;
  try {
    process.emitWarning(
      `A handle of ${describeLock(request.name)} was garbage-collected without release(); the ` +
        `lock is released now.${site}`,
      { type: 'LockWarning', code: 'WEB_LOCKS_LEAK' },
    );
  } catch (error) {
    report(error);
  }
});
const register = uncurry(FinalizationRegistry.prototype.register);
const unregister = uncurry(FinalizationRegistry.prototype.unregister);

/**
 * A lock that is held until `release()` is called: the result of `acquire`. A `using` or `await
 * using` declaration releases it at the end of its scope. If it is collected, it is released with a
 * warning. Not constructible.
 */
class LockHandle extends Lock {
  /** @type {HeldRequest} */
  #request;

  constructor() {
    // @ts-expect-error: the constructor reads its arguments itself
    super(arguments[0], arguments[1]);
    this.#request = arguments[1];
  }

  /** Whether the lock was released or lost. */
  get released() {
    return !this.#request.holds;
  }

  /**
   * Releases the lock at once. Calls after the first do nothing.
   * @returns {void | Promise<void>} a promise, which never rejects, if the release takes longer
   */
  release() {
    // This comes first: if the stack is full, the lock is still released when the handle is
    // collected.
    const released = this.#request.giveBack();
    unregister(leaks, this.#request);
    return released;
  }

  [dispose]() {
    this.release();
  }

  async [asyncDispose]() {
    await this.release();
  }
}

/**
 * A request without a callback: its lock is held until it is given back. The answer is the request
 * itself, or null if the lock is not available, with `ifAvailable`.
 */
class HeldRequest extends Request {
  /** The answer, until the promise has it. @type {any} */
  given;

  /**
   * @param {import('../backend/contract.js').Backend} backend @param {string} name
   * @param {Readonly<import('./options.js').RequestOptions>} options checked, they fit together
   * @param {number} [asked] see Watch
   */
  // biome-ignore lint/complexity/noUselessConstructor: the implicit one iterates over its arguments
  constructor(backend, name, options, asked) {
    super(backend, name, options, asked);
  }

  #blocks = false;

  /** @override */
  get blocks() {
    return this.#blocks;
  }

  /** @returns {Promise<any>} resolves to the answer */
  makePromise() {
    return new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** @returns {Promise<any>} resolves to the answer */
  acquire() {
    const answer = this.makePromise();
    // At the end of the stack, the constructor rejects the promise.
    if (!this.reject) return answer;
    try {
      this.#requestAndAnswer();
    } catch (error) {
      // Users' code had it rejected meanwhile, and that is the answer.
      if (!this.reject) return answer;
      this.reject = undefined;
      throw error;
    }
    return answer;
  }

  /**
   * Makes a request of our own, which is not published and runs no users' code. The caller still
   * has to announce what it brought for others.
   * @throws {unknown} why it failed
   */
  requestUnobserved() {
    this.observer = undefined;
    try {
      this.backend.request(this);
    } catch (error) {
      // The reasons are those in LockRequest#start.
      this.state = ENDED;
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(this.tag);
      throw error;
    }
    if (this.why) throw this.failure();
  }

  /**
   * Blocks the thread until there is an answer.
   * @param {number} limit milliseconds; Infinity for no limit
   * @returns {any} the answer
   * @throws {unknown} why the lock was not granted
   */
  acquireSync(limit) {
    /** @type {any} */
    let answer;
    /** @type {{ error: unknown } | undefined} */
    let failure;
    this.resolve = (/** @type {any} */ value) => {
      answer = value;
    };
    this.reject = (/** @type {unknown} */ error) => {
      failure ??= { error };
    };
    this.#blocks = true;
    this.#requestAndAnswer(limit);
    if (failure) throw failure.error;
    return answer;
  }

  /** @param {number} [limit] milliseconds to block at most; undefined not to block */
  #requestAndAnswer(limit) {
    try {
      this.backend.request(this);
      // A caller that blocks has its lock when the call returns, whatever else is to be announced.
      const isLater = limit === undefined && this.state === GRANTED && this.deferAnnouncement();
      this.armAndNotify(isLater);
      if (limit !== undefined && this.state === PENDING) this.#block(limit);
      if (!isLater) this.resolveIfAnswered();
    } catch (error) {
      // The reasons are those in LockRequest#start.
      /** @type {LockRequest} */ (this).state = ENDED;
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(this.tag);
      throw error;
    }
  }

  resolveIfAnswered() {
    if (this.state === GRANTED || this.state === UNAVAILABLE) this.resolveAnswer();
  }

  /**
   * Blocks until there is an answer, and announces it itself, because the backend may be in the
   * middle of another announcement.
   * @param {number} limit milliseconds
   */
  #block(limit) {
    const end = now() + (this.disposition === 'wait' ? limit : Math.max(limit, ANSWER_MS));
    while (this.state === PENDING) {
      const left = end - now();
      this.backend.wait?.(this, Math.max(Math.min(left, SLICE_MS), 0));
      // A grant that came first counts.
      if (left <= 0 && this.state === PENDING) this.handleTimeoutInCall();
      this.observer?.warnIfDue();
    }
    if (this.state === LOST) this.announceLoss(false);
    else if (this.why) this.announceFailure();
    else if (this.state === UNAVAILABLE) this.observer?.onMiss();
    else this.observer?.onGrant();
    this.backend.announce();
  }

  /** @override */
  resolveAnswer() {
    const { resolve } = this;
    if (!resolve || this.state === LOST || !this.beginUse()) return;
    // There is one handle, however often this is called: the stack can end before the promise has
    // it.
    if (this.state !== UNAVAILABLE) this.given ??= this.makeAnswer();
    resolve(this.given ?? null);
    // These functions lead to the promise and so to the handle, which must stay collectable.
    this.given = undefined;
    this.resolve = undefined;
    this.reject = undefined;
    // An origin without a text remains, because it shows that the lock is recorded (sites.js).
    if (this.origin) this.origin = withTextStack(this.origin) ?? { stack: '' };
    if (this.state === UNAVAILABLE) this.observer?.onEnd();
  }

  /** @returns {any} the value of the promise of a granted request */
  makeAnswer() {
    return this;
  }

  /**
   * Releases the lock, if it still is held, and announces who gets it.
   * @returns {Promise<void> | void}
   * @throws {RangeError} the stack is full, and the lock is still held
   */
  giveBack() {
    if (!this.held) return undefined;
    let released;
    try {
      released = this.release();
      if (released) released = this.#endWhenReleased(released);
      else this.observer?.onEnd();
      this.backend.announce();
    } catch (error) {
      if (/** @type {LockRequest} */ (this).state === GRANTED) throw error;
      // The lock is released; the rest is as in LockRequest#start.
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(NO_TAG);
    }
    return released;
  }

  /** @param {Promise<void>} released @returns {Promise<void>} resolves when the observer knows */
  #endWhenReleased(released) {
    if (!arePromisesNative()) return this.#endAsync(released);
    return then(released, () => this.observer?.onEnd());
  }

  /**
   * Works if users' code replaced parts of promises: see `releasedPromise` of lock-request.js.
   * @param {Promise<void>} released
   */
  async #endAsync(released) {
    await released;
    this.observer?.onEnd();
  }
}

/** A request whose answer is a handle, which releases the lock when it is collected. */
class HandleRequest extends HeldRequest {
  /**
   * @param {import('../backend/contract.js').Backend} backend @param {string} name
   * @param {Readonly<import('./options.js').RequestOptions>} options checked, they fit together
   */
  constructor(backend, name, options) {
    super(backend, name, options);
    this.#where = findSite(HandleRequest, this.observer !== undefined);
    if (this.#where) this.origin ??= { stack: `\n${this.#where}` };
  }

  #where;

  /** @override */
  get hasSite() {
    return true;
  }

  /** @override */
  makeAnswer() {
    return createHandle(this, this.#where);
  }
}

/**
 * @param {HeldRequest} request granted
 * @param {string} [where] the place (findSite), if the lock is to be released when the handle
 *   is collected
 * @returns {LockHandle}
 */
function createHandle(request, where) {
  // @ts-expect-error: the constructor reads its arguments itself
  const handle = new LockHandle(own, request);
  if (where !== undefined) register(leaks, handle, { request, where }, request);
  return handle;
}

module.exports = { HandleRequest, HeldRequest, LockHandle, createHandle, findSite };
