'use strict';

const process = require('node:process');
const { quote } = require('../platform/errors.js');
const { Lock, own } = require('../standard/lock.js');
const { LockRequest, UNAVAILABLE } = require('../standard/lock-request.js');
const { asyncDispose, dispose } = require('../platform/realm.js');

/** @typedef {InstanceType<typeof LockRequest>} Request */

/**
 * Releases a lock that is held without a callback, if it still is.
 * @param {Request} request
 */
function releaseHeld(request) {
  if (!request.held) return;
  request.release();
  request.watch?.ended(undefined);
}

/** Handles that nobody can release any more, because nobody has them. */
const leaks = new FinalizationRegistry(
  (/** @type {{ request: Request, acquired: { stack?: string } }} */ { request, acquired }) => {
    if (!request.held) return;
    const where = acquired.stack?.split('\n').slice(1).join('\n');
    process.emitWarning(
      `A handle of the lock ${quote(request.name)} was collected without release(); the lock is ` +
        `released now. It was acquired:\n${where}`,
      { type: 'LockWarning', code: 'WEB_LOCKS_LEAK' },
    );
    releaseHeld(request);
  },
);

/**
 * A lock that is held until `release()` is called: what `acquire` resolves to. Also released when
 * it leaves the scope of a `using` or `await using` declaration, and, with a warning, when it is
 * collected. Not constructible.
 */
class LockHandle extends Lock {
  /** @type {Request} */
  #request;

  constructor() {
    // @ts-expect-error: the constructor reads its arguments itself
    super(arguments[0], arguments[1]);
    this.#request = arguments[1];
  }

  /** @returns {boolean} whether the lock is not held any more: released, or stolen */
  get released() {
    return !this.#request.held;
  }

  /** Releases the lock, at once. Calls after the first do nothing. */
  release() {
    leaks.unregister(this.#request);
    releaseHeld(this.#request);
  }

  [dispose]() {
    this.release();
  }

  async [asyncDispose]() {
    this.release();
  }
}

/** A request that is answered with a handle. */
class HandleRequest extends LockRequest {
  /** Has the stack of whoever asked. */
  #acquired = {};

  /** @override */
  onAnswer = () => this.#answer();

  /** @returns {Promise<LockHandle | null>} null if it said `ifAvailable` and it is not */
  start() {
    const acquired = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.#trace(this.start);
    this.ask();
    return acquired;
  }

  /**
   * Does not return before there is an answer.
   * @param {number} timeout milliseconds to wait at most; 0: not at all; Infinity: no limit
   * @returns {LockHandle | null} null if it said `ifAvailable` and it is not
   * @throws {unknown} why the lock was not granted
   */
  startSync(timeout) {
    /** @type {any} */
    let handle = null;
    /** @type {{ error: unknown } | undefined} */
    let failure;
    this.resolve = (/** @type {any} */ answer) => {
      handle = answer;
    };
    this.reject = (/** @type {unknown} */ error) => {
      failure ??= { error };
    };
    this.#trace(this.startSync);
    this.ask();
    if (!handle && !failure && this.state !== UNAVAILABLE) this.backend.wait(this, timeout);
    if (failure) throw failure.error;
    return handle;
  }

  /** @param {Function} caller */
  #trace(caller) {
    Error.captureStackTrace(this.#acquired, caller);
  }

  #answer() {
    this.stopFollowing();
    const { resolve } = this;
    // They lead to the promise and so to the handle, which must stay collectable.
    this.resolve = undefined;
    this.reject = undefined;
    if (this.state === UNAVAILABLE) {
      resolve?.(null);
      return;
    }
    // @ts-expect-error: the constructor reads its arguments itself
    const handle = new LockHandle(own, this);
    leaks.register(handle, { request: this, acquired: this.#acquired }, this);
    resolve?.(handle);
  }
}

module.exports = { HandleRequest, LockHandle };
