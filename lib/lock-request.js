'use strict';

const { follow, unfollow } = require('./abort.js');
const { callInside, locksInside } = require('./context.js');
const { DeadlockError, LockStolenError, LockTimeoutError } = require('./errors.js');
const { createLock } = require('./lock.js');
const { AbortController } = require('./realm.js');
const { Watch, isWatched } = require('./watch.js');

/** A reaction to it is a microtask, and a cheaper one than `queueMicrotask` makes. */
const settled = Promise.resolve();

/** The `then` of promises, whatever somebody made of that of theirs. */
const then = Function.prototype.call.bind(Promise.prototype.then);

/** @typedef {(result?: any) => void} Settle settles a promise */
/** @typedef {{ error?: Error, controller?: AbortController }} Loss */

// What became of a request.
const PENDING = 0;
const GRANTED = 1;
const UNAVAILABLE = 2;
const STOLEN = 3;
/** Aborted, failed, or released. */
const ENDED = 4;

/**
 * A lock request (2.5) and, once granted, its lock (2.4), as this thread knows it. It is what a
 * backend calls (`Requester` in backend.js), what an abort signal calls, and what a `Lock` looks
 * at. Not seen by users.
 *
 * No more promises, closures and fields than needed: they are most of what a request costs
 * (docs/PERFORMANCE.md).
 */
class LockRequest {
  /** For the backend's use. */
  tag = 0;
  state = PENDING;
  /** Settles the promise that users got, once. @type {Settle | undefined} */
  resolve;
  /** @type {Settle | undefined} */
  reject;
  /** Called when there is an answer. @type {(() => void) | undefined} */
  onAnswer;
  /** Why the lock was lost, and the signal that tells it, if asked for. @type {Loss | undefined} */
  #loss;

  /**
   * @param {import('./backend.js').Backend} backend
   * @param {string} name the resource name
   * @param {import('./webidl.js').LockOptions} options valid together (3.2.1)
   */
  constructor(backend, name, options) {
    this.backend = backend;
    this.name = name;
    this.options = options;
    /** Locks that wait for this request, if it rejects deadlocks. */
    this.inside = options.deadlock ? locksInside() : undefined;
    /** What happens at certain times, and who hears of it; most requests have none. */
    this.watch = isWatched(options) ? new Watch(this, options) : undefined;
  }

  get mode() {
    return this.options.mode;
  }

  /** @returns {import('./backend.js').Disposition} */
  get disposition() {
    const { ifAvailable, steal, timeout } = this.options;
    if (steal) return 'steal';
    return ifAvailable || timeout === 0 ? 'ifAvailable' : 'wait';
  }

  /** Request a lock (4.1). */
  ask() {
    if (this.options.signal) follow(this.options.signal, this);
    this.backend.request(this);
  }

  // What a backend calls.

  granted() {
    this.state = GRANTED;
    this.watch?.granted();
    this.onAnswer?.();
  }

  unavailable() {
    if (this.options.timeout === 0) {
      this.#end(this.#timeout());
    } else {
      this.state = UNAVAILABLE;
      this.watch?.missed();
      this.onAnswer?.();
    }
  }

  /** @param {string} thief client id */
  stolen(thief) {
    this.state = STOLEN;
    const error = new LockStolenError(this.name, thief);
    this.watch?.stolen(error);
    this.reject?.(error);
    this.#loss ??= {};
    this.#loss.error = error;
    this.#loss.controller?.abort(error);
  }

  /** @param {unknown} error */
  failed(error) {
    this.#end(error);
  }

  /** @param {import('./backend.js').CycleEntry[]} cycle */
  deadlocked(cycle) {
    this.#end(new DeadlockError(this.name, cycle));
  }

  expired() {
    this.#end(this.#timeout());
  }

  // Giving up.

  /**
   * Signal to abort the request (4.3). The signal is followed until the callback is invoked.
   * @param {unknown} reason
   */
  signalToAbort(reason) {
    this.watch?.aborted(reason);
    this.#withdraw(reason);
  }

  /** The time limit of the request is reached. */
  timedOut() {
    this.#withdraw(this.#timeout());
  }

  /**
   * What was told before can have run users' code that has ended the request.
   * @param {unknown} reason
   */
  #withdraw(reason) {
    if (this.state === ENDED) return;
    const stolen = this.state === STOLEN;
    this.#end(reason);
    if (!stolen) this.backend.withdraw(this);
  }

  #timeout() {
    const error = new LockTimeoutError(
      this.name,
      this.watch?.waited() ?? 0,
      this.backend.holders(this.name),
    );
    this.watch?.timedOut(error);
    return error;
  }

  /** @param {unknown} error */
  #end(error) {
    this.state = ENDED;
    this.stopFollowing();
    this.watch?.ended(error);
    this.reject?.(error);
  }

  stopFollowing() {
    if (this.options.signal) unfollow(this.options.signal, this);
  }

  // The lock.

  /** Whether it is held: granted, and neither released nor stolen. */
  get held() {
    return this.state === GRANTED;
  }

  /** @returns {AbortSignal} aborted when the lock is stolen */
  get lossSignal() {
    this.#loss ??= {};
    const loss = this.#loss;
    if (!loss.controller) {
      loss.controller = new AbortController();
      if (loss.error) loss.controller.abort(loss.error);
    }
    return loss.controller.signal;
  }

  /**
   * Releases the lock (4.2) if it is held.
   * @returns {Promise<void> | void}
   */
  release() {
    if (this.state !== GRANTED) return;
    this.state = ENDED;
    return this.backend.release(this);
  }

  // From a callback to the released promise.

  /**
   * Requests the lock for a callback, which runs in a microtask, in the async context of this call:
   * here `#serve` is registered as the reaction to a promise.
   * @param {(lock: any) => any} callback
   * @returns {Promise<any>} the released promise
   */
  startCallback(callback) {
    const released = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.ask();
    if (this.state === ENDED) return released;
    const answered = this.state === PENDING ? this.#answered() : settled;
    answered.then(() => this.#serve(callback));
    return released;
  }

  /** @returns {Promise<void>} */
  #answered() {
    return new Promise((resolve) => {
      this.onAnswer = resolve;
    });
  }

  /** @param {(lock: any) => any} callback */
  #serve(callback) {
    if (this.state === ENDED) return;
    this.stopFollowing();
    const lock = this.state === UNAVAILABLE ? null : createLock(this);
    try {
      then(
        Promise.resolve(callInside(this, callback, lock)),
        (/** @type {any} */ value) => this.#settle(this.resolve, value, undefined),
        (/** @type {any} */ reason) => this.#settle(this.reject, reason, reason),
      );
    } catch (error) {
      this.#settle(this.reject, error, error);
    }
  }

  /**
   * The waiting promise has settled (2.4): releases the lock, then settles the released promise.
   * @param {Settle | undefined} settle
   * @param {any} result
   * @param {unknown} error for the watch
   */
  #settle(settle, result, error) {
    const released = this.release();
    if (released) released.then(() => this.#finish(settle, result, error));
    else this.#finish(settle, result, error);
  }

  /**
   * @param {Settle | undefined} settle
   * @param {any} result
   * @param {unknown} error
   */
  #finish(settle, result, error) {
    this.watch?.ended(error);
    settle?.(result);
  }
}

module.exports = { LockRequest, UNAVAILABLE };
