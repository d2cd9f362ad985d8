'use strict';

const { NO_TAG } = require('../../backend/contract.js');
const { warn } = require('../../platform/environment.js');
const { Promise, arePromisesNative, now, then, uncurry } = require('../../platform/intrinsics.js');
const { describeLock } = require('../../platform/names.js');
const { asyncDispose, dispose } = require('../../platform/realm.js');
const { Lock, own } = require('../../standard/lock.js');
const { ENDED, GRANTED, PENDING, LOST, UNAVAILABLE } = require('../../standard/lock-request.js');
const { withTextStack, callSite, originOf } = require('../sites/origin.js');
const { Request } = require('./request.js');
const { ANSWER_MS } = require('../watch/time-limits.js');
const { needsOrigin } = require('../watch/watch.js');

/**
 * A blocked thread returns to JavaScript after this many milliseconds, because Node.js can
 * terminate a thread only while it runs JavaScript.
 */
const SLICE_MS = 50;

const LATER = 'Handles acquired from now on (or with `warnAfter`) report where they were acquired.';

/** @import { Backend } from '../../backend/contract.js' */
/** @import { RequestOptions } from '../options.js' */
/** @typedef {{ request: HeldRequest, where: string }} Leak `where` is '' if it is unknown */

/** True after a leak from an unknown place. From then on, the place of every handle is recorded. */
let isLooking = false;

/**
 * Finds where a handle is acquired. This costs several times as much as everything else about a
 * handle, so it is done only if the request is observed anyway, or after a leak in this thread.
 * @param {Function} callee @param {boolean} isFollowed @returns {string} '' if unknown
 */
const findSite = (callee, isFollowed) => (isFollowed || isLooking ? callSite(callee) : '');

/** @type {FinalizationRegistry<Leak>} */
const leaks = new FinalizationRegistry(({ request, where }) => {
  if (!request.isGranted) return;
  // The release comes before the warning, so that nothing can prevent it.
  request.giveBack();
  if (where === '') isLooking = true;
  const site = where === '' ? ` ${LATER}` : ` It was acquired at:\n${where}`;
  warn(
    `A handle of ${describeLock(request.name)} was garbage-collected without release(); the ` +
      `lock is released now.${site}`,
    'WEB_LOCKS_LEAK',
  );
});
const register = uncurry(FinalizationRegistry.prototype.register);
const unregister = uncurry(FinalizationRegistry.prototype.unregister);

/** A lock that is held until `release()` is called: the result of `acquire`. */
class LockHandle extends Lock {
  /** @type {HeldRequest} */
  #request;

  /** Takes the same arguments as `Lock`: `own`, and the request. */
  constructor() {
    // @ts-expect-error: the constructor reads its arguments itself
    super(arguments[0], arguments[1]);
    this.#request = arguments[1];
  }

  /** Whether the lock was released or lost. */
  get released() {
    return !this.#request.checkHeld();
  }

  /** @returns {void | Promise<void>} a promise, which never rejects, if the release takes longer */
  release() {
    // The handle is unregistered last: if the stack overflows in `giveBack`, the lock is still
    // released when the handle is garbage-collected.
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
 * A request without a callback: its lock is held until `giveBack` is called. The answer is the
 * request itself, or null if the request has `ifAvailable` and the lock is not available.
 */
class HeldRequest extends Request {
  /** The answer, until the promise has been resolved with it. @type {any} */
  given;

  /**
   * @param {Backend} backend @param {string} name @param {RequestOptions} options
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

  /** @returns {Promise<any>} see `makePromise` */
  acquire() {
    const answer = this.makePromise();
    // If the stack overflowed in the constructor of the promise, the promise is already rejected.
    if (!this.reject) return answer;
    try {
      this.#requestAndAnswer();
    } catch (error) {
      // User code has ended the request meanwhile, for example by an abort, so the promise already
      // has the answer.
      if (!this.reject) return answer;
      this.reject = undefined;
      throw error;
    }
    return answer;
  }

  /**
   * Makes a request of the library itself, which is not published and runs no user code. Afterwards
   * the caller must call `announce` of the backend.
   * @throws {unknown} the reason why the request failed
   */
  requestUnobserved() {
    this.observer = undefined;
    try {
      this.backend.request(this);
    } catch (error) {
      // contract.js explains these steps.
      this.state = ENDED;
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(this.tag);
      throw error;
    }
    if (this.why) throw this.failure();
  }

  /**
   * @param {number} limit milliseconds; Infinity for no limit
   * @returns {any} the answer
   * @throws {unknown} the reason why the lock was not granted
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
      // A caller that blocks must have its lock when the call returns, even if earlier grants must
      // still be announced.
      const isLater = limit === undefined && this.state === GRANTED && this.deferAnnouncement();
      this.armAndNotify(isLater);
      if (limit !== undefined && this.state === PENDING) this.#block(limit);
      if (!isLater) this.resolveIfAnswered();
    } catch (error) {
      // contract.js explains these steps.
      /** @type {any} */ (this).state = ENDED;
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
   * Blocks the thread until the request is answered. It announces the answer itself, because the
   * backend may be in the middle of another announcement.
   * @param {number} limit milliseconds
   */
  #block(limit) {
    const end = now() + (this.disposition === 'wait' ? limit : Math.max(limit, ANSWER_MS));
    while (this.state === PENDING) {
      const left = end - now();
      this.backend.wait?.(this, Math.max(Math.min(left, SLICE_MS), 0));
      // If this wait brought the answer, the answer counts, although the time is over.
      if (left <= 0 && this.state === PENDING) this.handleTimeoutInCall();
      this.observer?.warnIfDue();
    }
    if (this.state === LOST) this.announceLoss(false);
    else if (this.why) this.announceFailure();
    else if (this.state === UNAVAILABLE) this.observer?.onMiss();
    else this.observer?.onGrant();
    this.backend.announce();
  }

  /** Does nothing if the lock was lost or the request was aborted. @override */
  resolveAnswer() {
    const { resolve } = this;
    if (!resolve || this.state === LOST || !this.beginUse()) return;
    // Repeated calls must use the same handle: a stack overflow can occur before the promise has
    // received it.
    if (this.state !== UNAVAILABLE) this.given ??= this.makeAnswer();
    resolve(this.given ?? null);
    // These functions refer to the promise and so to the handle, which must remain collectable.
    this.given = undefined;
    this.resolve = undefined;
    this.reject = undefined;
    // If there is no text, an empty origin stays. Without an origin, the end of the lock would not
    // remove the lock from the table of sites.js.
    if (this.origin) this.origin = withTextStack(this.origin) ?? { stack: '' };
    if (this.state === UNAVAILABLE) this.observer?.onEnd();
  }

  /** @returns {any} the value of the promise of a granted request */
  makeAnswer() {
    return this;
  }

  /**
   * Releases the lock if it is still held, and announces the grants that follow.
   * @returns {Promise<void> | void}
   * @throws {RangeError} on a stack overflow; the lock is still held then
   */
  giveBack() {
    if (!this.isGranted) return undefined;
    let released;
    try {
      released = this.release();
      if (released) released = this.#endWhenReleased(released);
      else this.observer?.onEnd();
      this.backend.announce();
    } catch (error) {
      if (/** @type {any} */ (this).state === GRANTED) throw error;
      // The lock is already released; contract.js explains the following steps.
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(NO_TAG);
    }
    return released;
  }

  /** @param {Promise<void>} released @returns {Promise<void>} resolves after `onEnd` */
  #endWhenReleased(released) {
    if (!arePromisesNative()) return this.#endAsync(released);
    return then(released, () => this.observer?.onEnd());
  }

  /** See `outcomeAfter` in lock-request.js. @param {Promise<void>} released */
  async #endAsync(released) {
    await released;
    this.observer?.onEnd();
  }
}

/** A request whose answer is a handle. */
class HandleRequest extends HeldRequest {
  /** @param {Backend} backend @param {string} name @param {RequestOptions} options */
  constructor(backend, name, options) {
    super(backend, name, options);
    this.#where = findSite(HandleRequest, this.observer !== undefined);
    if (this.observer && needsOrigin(options)) this.origin = originOf(HandleRequest);
    else if (this.#where) this.origin = { stack: `\n${this.#where}` };
  }

  #where;

  /** The constructor sets `origin`. @override */
  get hasSite() {
    return true;
  }

  /** @override */
  makeAnswer() {
    return createHandle(this, this.#where);
  }
}

/**
 * @param {HeldRequest} request
 * @param {string} [where] see `findSite`; if given, garbage collection of the handle releases the
 *   lock with a warning
 */
function createHandle(request, where) {
  // @ts-expect-error: the constructor reads its arguments itself
  const handle = new LockHandle(own, request);
  if (where !== undefined) register(leaks, handle, { request, where }, request);
  return handle;
}

module.exports = { HandleRequest, HeldRequest, LockHandle, createHandle, findSite };
