'use strict';

const { follow, unfollow } = require('./abort.js');
const { stolenError } = require('./errors.js');
const { createLock } = require('./lock.js');

/** A reaction to it is a microtask, and a cheaper one than `queueMicrotask` makes. */
const settled = Promise.resolve();

/** The `then` of promises, whatever somebody made of that of theirs. */
const then = Function.prototype.call.bind(Promise.prototype.then);

/** @typedef {(result?: any) => void} Settle settles a promise */

// What became of a request.
const PENDING = 0;
const GRANTED = 1;
const UNAVAILABLE = 2;
const STOLEN = 3;
/** Aborted or failed: the callback is not to be called. */
const ENDED = 4;

/**
 * One lock request (2.5), from `LockManager.request` until its released promise is settled. It is
 * what a backend calls (`Requester` in backend.js) and what an abort signal calls.
 *
 * Its callback runs in a microtask, in the async context of the `request()` call: there `#serve` is
 * registered as the reaction to a promise. No more promises and closures than needed: they are most
 * of what a request costs (docs/PERFORMANCE.md).
 */
class LockRequest {
  /** For the backend's use. */
  tag = 0;

  #backend;
  #callback;
  #signal;
  #state = PENDING;
  /** Settle the released promise; calls after the first do nothing. @type {Settle | undefined} */
  #resolve;
  /** @type {Settle | undefined} */
  #reject;
  /** Ends the wait for an answer. @type {(() => void) | undefined} */
  #proceed;

  /**
   * @param {import('./backend.js').Backend} backend
   * @param {string} name the resource name
   * @param {import('./webidl.js').LockOptions} options valid together (3.2.1)
   * @param {(lock: any) => any} callback
   */
  constructor(backend, name, options, callback) {
    this.name = name;
    this.mode = options.mode;
    /** @type {import('./backend.js').Disposition} */
    this.disposition = options.steal ? 'steal' : options.ifAvailable ? 'ifAvailable' : 'wait';
    this.#backend = backend;
    this.#callback = callback;
    this.#signal = options.signal;
  }

  /**
   * Request a lock (4.1).
   * @returns {Promise<any>} the released promise
   */
  start() {
    const released = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    if (this.#signal) follow(this.#signal, this);
    this.#backend.request(this);
    if (this.#state === ENDED) return released;
    const answered = this.#state === PENDING ? this.#answered() : settled;
    answered.then(() => this.#serve());
    return released;
  }

  /** @returns {Promise<void>} */
  #answered() {
    return new Promise((resolve) => {
      this.#proceed = resolve;
    });
  }

  // What a backend calls.

  granted() {
    this.#answer(GRANTED);
  }

  unavailable() {
    this.#answer(UNAVAILABLE);
  }

  stolen() {
    this.#state = STOLEN;
    this.#reject?.(stolenError(this.name));
  }

  /** @param {unknown} error */
  failed(error) {
    this.#end(error);
    this.#stopFollowing();
  }

  /** @param {number} state */
  #answer(state) {
    this.#state = state;
    this.#proceed?.();
  }

  // What an abort signal calls.

  /**
   * Signal to abort the request (4.3). The signal is followed until the callback is invoked.
   * @param {unknown} reason
   */
  signalToAbort(reason) {
    const stolen = this.#state === STOLEN;
    this.#end(reason);
    if (!stolen) this.#backend.withdraw(this);
  }

  /** @param {unknown} reason */
  #end(reason) {
    this.#state = ENDED;
    this.#reject?.(reason);
  }

  #stopFollowing() {
    if (this.#signal) unfollow(this.#signal, this);
  }

  // From the answer to the settled promise.

  #serve() {
    if (this.#state === ENDED) return;
    this.#stopFollowing();
    const callback = this.#callback;
    const lock = this.#state === UNAVAILABLE ? null : createLock(this.name, this.mode);
    try {
      then(
        Promise.resolve(callback(lock)),
        (/** @type {any} */ value) => this.#settle(this.#resolve, value),
        (/** @type {any} */ reason) => this.#settle(this.#reject, reason),
      );
    } catch (error) {
      this.#settle(this.#reject, error);
    }
  }

  /**
   * The waiting promise has settled (2.4): releases the lock, then settles the released promise.
   * @param {Settle | undefined} settle
   * @param {any} result
   */
  #settle(settle, result) {
    const released = this.#state === GRANTED ? this.#backend.release(this) : true;
    if (typeof released === 'boolean') this.#finish(released, settle, result);
    else released.then((late) => this.#finish(late, settle, result));
  }

  /**
   * @param {boolean} released false if the lock turned out to have been stolen
   * @param {Settle | undefined} settle
   * @param {any} result
   */
  #finish(released, settle, result) {
    if (!released) this.stolen();
    settle?.(result);
  }
}

module.exports = { LockRequest };
