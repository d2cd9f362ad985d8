'use strict';

const process = require('node:process');
const { Promise, now, report, uncurry } = require('../platform/intrinsics.js');
const { theLock } = require('../platform/names.js');
const { asyncDispose, dispose } = require('../platform/realm.js');
const { Lock, own } = require('../standard/lock.js');
const { ENDED, GRANTED, PENDING, STOLEN, UNAVAILABLE } = require('../standard/lock-request.js');
const { asText, callSite } = require('./origin.js');
const { Request } = require('./request.js');

/** How long a blocked thread stays away from JavaScript, in which the engine can end it. */
const SLICE_MS = 50;

/** @typedef {InstanceType<typeof import('../standard/lock-request.js').LockRequest>} LockRequest */
/** @typedef {{ request: HeldRequest, where: string }} Leak */

/**
 * Handles that nobody can release any more, because nobody has them. Our own state first: what
 * hears of it can throw.
 * @type {FinalizationRegistry<Leak>}
 */
const leaks = new FinalizationRegistry(({ request, where }) => {
  if (!request.held) return;
  request.giveBack();
  try {
    process.emitWarning(
      `A handle of ${theLock(request.name)} was collected without release(); the lock is ` +
        `released now. It was acquired:\n${where}`,
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

  /** @returns {boolean} whether the lock is not held any more: released, or stolen */
  get released() {
    return !this.#request.held;
  }

  /** Releases the lock, at once. Calls after the first do nothing. */
  release() {
    unregister(leaks, this.#request);
    this.#request.giveBack();
  }

  [dispose]() {
    this.release();
  }

  async [asyncDispose]() {
    this.release();
  }
}

/**
 * A request for a lock that no callback holds: it is held until it is given back. Its answer is
 * itself, or null if it said `ifAvailable` and the lock is not.
 */
class HeldRequest extends Request {
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

  /** @returns {Promise<any>} the answer */
  acquire() {
    const answer = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
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
    this.#attempt(limit);
    if (failure) throw failure.error;
    return answer;
  }

  /** @param {number} [limit] how long to block at most, if it is to block */
  #attempt(limit) {
    try {
      this.backend.request(this);
      this.made();
      if (limit !== undefined && this.state === PENDING) this.#block(limit);
      if (this.state === GRANTED || this.state === UNAVAILABLE) this.answered();
    } catch (error) {
      // As in LockRequest#start.
      /** @type {LockRequest} */ (this).state = ENDED;
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(this.tag);
      throw error;
    }
  }

  /**
   * Blocks until there is an answer, and tells it: others may be telling something just now.
   * @param {number} limit milliseconds
   */
  #block(limit) {
    const end = now() + limit;
    while (this.state === PENDING) {
      const left = end - now();
      this.backend.wait(this, Math.max(Math.min(left, SLICE_MS), 0));
      // A grant that came first counts.
      if (left <= 0 && this.state === PENDING && this.leave()) this.failed(this.timeoutError());
      this.observer?.blocked();
    }
    if (this.state === STOLEN) this.lose(false);
    else if (this.state === ENDED) this.fail(this.error);
    else this.observer?.granted();
    this.backend.tell();
  }

  /** @override */
  answered() {
    const { resolve } = this;
    if (!resolve || this.state === STOLEN || !this.use()) return;
    const answer = this.state === UNAVAILABLE ? null : this.value();
    // They lead to the promise and so to the handle, which must stay collectable.
    this.resolve = undefined;
    this.reject = undefined;
    if (this.origin) this.origin = asText(this.origin);
    resolve(answer);
    if (answer === null) this.observer?.ended();
  }

  /** @returns {any} what the promise of a granted request resolves to */
  value() {
    return this;
  }

  /**
   * Releases the lock, if it still is held, and tells who gets it.
   * @returns {Promise<void> | void}
   */
  giveBack() {
    if (!this.held) return undefined;
    const released = this.release();
    if (released) return this.#givenBack(released);
    this.observer?.ended();
    this.backend.tell();
    return undefined;
  }

  /** @param {Promise<void>} released */
  async #givenBack(released) {
    this.backend.tell();
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
    this.#where = callSite(HandleRequest);
  }

  #where;

  /** @override */
  value() {
    return createHandle(this, this.#where);
  }
}

/**
 * @param {HeldRequest} request granted
 * @param {string} [where] it was acquired, if it is to be released when the handle is collected
 * @returns {LockHandle}
 */
function createHandle(request, where) {
  // @ts-expect-error: the constructor reads its arguments itself
  const handle = new LockHandle(own, request);
  if (where !== undefined) register(leaks, handle, { request, where }, request);
  return handle;
}

module.exports = { HandleRequest, HeldRequest, LockHandle, createHandle };
