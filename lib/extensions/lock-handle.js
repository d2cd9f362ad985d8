'use strict';

const process = require('node:process');
const { NO_TAG } = require('../backend/contract.js');
const {
  Promise,
  arePromisesOurs,
  now,
  report,
  then,
  uncurry,
} = require('../platform/intrinsics.js');
const { theLock } = require('../platform/names.js');
const { asyncDispose, dispose } = require('../platform/realm.js');
const { Lock, own } = require('../standard/lock.js');
const { ENDED, GRANTED, PENDING, LOST, UNAVAILABLE } = require('../standard/lock-request.js');
const { asText, callSite } = require('./origin.js');
const { Request } = require('./request.js');
const { ANSWER_MS } = require('./watch.js');

/** How long a blocked thread stays away from JavaScript, in which the engine can end it. */
const SLICE_MS = 50;

/** The text for an unknown place. */
const LATER = 'Handles acquired from now on (or with `warnAfter`) report where they were acquired.';

/** @typedef {InstanceType<typeof import('../standard/lock-request.js').LockRequest>} LockRequest */
/** @typedef {{ request: HeldRequest, where: string }} Leak `where` is '' if that is not known */

/** Whether a handle was collected of which that was not known. */
let isLooking = false;

/**
 * Where handles are acquired. Capturing it costs several times the rest of a handle. So it is
 * captured if the request is observed anyhow, or after a leak in this thread.
 * @param {Function} callee
 * @param {boolean} isFollowed
 * @returns {string} '' if it is not known
 */
const siteOfHandle = (callee, isFollowed) => (isFollowed || isLooking ? callSite(callee) : '');

/**
 * Handles that nobody can release any more, because nobody has them. Our own state changes first,
 * because a listener can throw.
 * @type {FinalizationRegistry<Leak>}
 */
const leaks = new FinalizationRegistry(({ request, where }) => {
  if (!request.held) return;
  request.giveBack();
  if (where === '') isLooking = true;
  const site = where === '' ? ` ${LATER}` : ` It was acquired:\n${where}`;
  try {
    process.emitWarning(
      `A handle of ${theLock(request.name)} was garbage-collected without release(); the lock is ` +
        `released now.${site}`,
      { type: 'LockWarning', code: 'WEB_LOCKS_LEAK' },
    );
  } catch (error) {
    report(error);
  }
});
const register = uncurry(FinalizationRegistry.prototype.register);
const unregister = uncurry(FinalizationRegistry.prototype.unregister);

/**
 * A lock that is held until `release()` is called: what `acquire` resolves to. Also released when
 * it leaves the scope of a `using` or `await using` declaration, and, with a warning, when it is
 * collected. Not constructible.
 */
class LockHandle extends Lock {
  /** @type {HeldRequest} */
  #request;

  constructor() {
    // @ts-expect-error: the constructor reads its arguments itself
    super(arguments[0], arguments[1]);
    this.#request = arguments[1];
  }

  /** @returns {boolean} whether the lock is no longer held: released, or lost */
  get released() {
    return !this.#request.holds;
  }

  /**
   * Releases the lock, at once. Calls after the first do nothing.
   * @returns {void | Promise<void>} a promise, which never rejects, where that takes longer
   */
  release() {
    // First: where there is no stack for it, the lock is still released when this is collected.
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
 * A request for a lock that no callback holds: it is held until it is given back. Its answer is
 * itself, or null if it said `ifAvailable` and the lock is not.
 */
class HeldRequest extends Request {
  /** The answer, until the promise has it. @type {any} */
  given;

  /**
   * @param {import('../backend/contract.js').Backend} backend
   * @param {string} name the resource name
   * @param {Readonly<import('./options.js').RequestOptions>} options valid together
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

  /** @returns {Promise<any>} the answer, once there is one */
  promise() {
    return new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** @returns {Promise<any>} the answer */
  acquire() {
    const answer = this.promise();
    // Where the stack is full the constructor rejects.
    if (!this.reject) return answer;
    try {
      this.#attempt();
    } catch (error) {
      // Users' code had it rejected meanwhile: that is the answer.
      if (!this.reject) return answer;
      this.reject = undefined;
      throw error;
    }
    return answer;
  }

  /**
   * Makes the request of ours, not of users: nobody hears of it, and no code of theirs runs. What
   * this call brought for others is still to be announced.
   * @throws {unknown} why it failed
   */
  enter() {
    this.observer = undefined;
    try {
      this.backend.request(this);
    } catch (error) {
      // As in LockRequest#start.
      this.state = ENDED;
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(this.tag);
      throw error;
    }
    if (this.why) throw this.failure();
  }

  /**
   * Does not return before there is an answer.
   * @param {number} limit milliseconds to wait at most; Infinity: no limit
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
    this.#attempt(limit);
    if (failure) throw failure.error;
    return answer;
  }

  /** @param {number} [limit] how long to block at most, if it is to block */
  #attempt(limit) {
    try {
      this.backend.request(this);
      // Who blocks has it when the call returns, whatever else is still to be told.
      const isLater = limit === undefined && this.state === GRANTED && this.isAnnouncedLater();
      this.made(isLater);
      if (limit !== undefined && this.state === PENDING) this.#block(limit);
      if (!isLater) this.answerNow();
    } catch (error) {
      // As in LockRequest#start.
      /** @type {LockRequest} */ (this).state = ENDED;
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(this.tag);
      throw error;
    }
  }

  /** Hands the answer over if there is one already. */
  answerNow() {
    if (this.state === GRANTED || this.state === UNAVAILABLE) this.deliver();
  }

  /**
   * Blocks until there is an answer, and tells it: others may be telling something just now.
   * @param {number} limit milliseconds
   */
  #block(limit) {
    const end = now() + (this.disposition === 'wait' ? limit : Math.max(limit, ANSWER_MS));
    while (this.state === PENDING) {
      const left = end - now();
      this.backend.wait?.(this, Math.max(Math.min(left, SLICE_MS), 0));
      // A grant that came first counts.
      if (left <= 0 && this.state === PENDING) this.timedOutInCall();
      this.observer?.blocked();
    }
    if (this.state === LOST) this.announceLoss(false);
    else if (this.why) this.announceFailure();
    else if (this.state === UNAVAILABLE) this.observer?.missed();
    else this.observer?.granted();
    this.backend.announce();
  }

  /** @override */
  deliver() {
    const { resolve } = this;
    if (!resolve || this.state === LOST || !this.use()) return;
    // One handle, however often this is called: the stack can end before the promise has it.
    if (this.state !== UNAVAILABLE) this.given ??= this.value();
    resolve(this.given ?? null);
    // They lead to the promise and so to the handle, which must stay collectable.
    this.given = undefined;
    this.resolve = undefined;
    this.reject = undefined;
    // One that cannot be told remains: it says that the lock is noted (sites.js).
    if (this.origin) this.origin = asText(this.origin) ?? { stack: '' };
    if (this.state === UNAVAILABLE) this.observer?.ended();
  }

  /** @returns {any} what the promise of a granted request resolves to */
  value() {
    return this;
  }

  /**
   * Releases the lock, if it still is held, and tells who gets it.
   * @returns {Promise<void> | void}
   * @throws {RangeError} for want of stack; then it is still held
   */
  giveBack() {
    if (!this.held) return undefined;
    let released;
    try {
      released = this.release();
      if (released) released = this.#givenBack(released);
      else this.observer?.ended();
      this.backend.announce();
    } catch (error) {
      if (/** @type {LockRequest} */ (this).state === GRANTED) throw error;
      // It is released; as in LockRequest#start.
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(NO_TAG);
    }
    return released;
  }

  /**
   * @param {Promise<void>} released
   * @returns {Promise<void>} when those were told who hear of the end
   */
  #givenBack(released) {
    if (!arePromisesOurs()) return this.#endAfter(released);
    return then(released, () => this.observer?.ended());
  }

  /**
   * Somebody changed what promises are made of: see `releasedAfter` of lock-request.js.
   * @param {Promise<void>} released
   */
  async #endAfter(released) {
    await released;
    this.observer?.ended();
  }
}

/** A request that is answered with a handle, which releases the lock when it is collected. */
class HandleRequest extends HeldRequest {
  /**
   * @param {import('../backend/contract.js').Backend} backend
   * @param {string} name the resource name
   * @param {Readonly<import('./options.js').RequestOptions>} options valid together
   */
  constructor(backend, name, options) {
    super(backend, name, options);
    this.#where = siteOfHandle(HandleRequest, this.observer !== undefined);
    if (this.#where) this.origin ??= { stack: `\n${this.#where}` };
  }

  #where;

  /** @override */
  get hasSite() {
    return true;
  }

  /** @override */
  value() {
    return createHandle(this, this.#where);
  }
}

/**
 * @param {HeldRequest} request granted
 * @param {string} [where] it was acquired (siteOfHandle), if it is to be released when the handle
 *   is collected
 * @returns {LockHandle}
 */
function createHandle(request, where) {
  // @ts-expect-error: the constructor reads its arguments itself
  const handle = new LockHandle(own, request);
  if (where !== undefined) register(leaks, handle, { request, where }, request);
  return handle;
}

module.exports = { HandleRequest, HeldRequest, LockHandle, createHandle, siteOfHandle };
