'use strict';

const { NO_TAG } = require('../backend/contract.js');
const { Promise, report } = require('../platform/intrinsics.js');
const { AbortController, DOMException } = require('../platform/realm.js');
const { abortedReason, follow, unfollow } = require('./abort.js');
const { createLock } = require('./lock.js');

/** @typedef {(result?: any) => void} Settle settles a promise */
/** @typedef {{ thief?: string, error?: Error, controller?: AbortController }} Loss */

/**
 * What hears of the course of a request, if anything does, and may run users' code: nothing here
 * depends on what that does.
 * @typedef {object} Observer
 * @property {() => void} arm the request waits: sets up what can give it up
 * @property {() => void} disarm it was answered, or given up
 * @property {() => void} started it was made
 * @property {() => void} granted
 * @property {() => void} missed the lock is not available
 * @property {(error: Error) => void} stolen
 * @property {(reason: unknown) => void} aborted
 * @property {(error: unknown) => void} failed
 * @property {(error?: unknown) => void} ended comes last, once, after any of the others
 */

// What became of a request.
/** Not made yet, or in the queue. */
const PENDING = 0;
const GRANTED = 1;
const UNAVAILABLE = 2;
const STOLEN = 3;
/** Aborted, failed, or released. */
const ENDED = 4;

/**
 * A lock request (2.5) and, once granted, its lock (2.4), as this thread knows it. It is what a
 * backend calls (`Requester` in contract.js), what an abort signal calls, and what a `Lock` looks
 * at. Not seen by users.
 *
 * Each way out of a state changes the state here and in the backend first, and tells users
 * afterwards: whatever they do then, they find it changed. A callback of users' runs in a microtask
 * of its own, so that it finds an empty stack; what users call directly can run out of stack
 * anywhere, and then `unfinished` and `wake` see to it that nothing is left behind.
 *
 * No more promises, closures and fields than needed: they are most of what a request costs
 * (docs/PERFORMANCE.md).
 */
class LockRequest {
  /** For the backend's use. */
  tag = NO_TAG;
  /** @type {number} */
  state = PENDING;
  /** Settles the promise that users got, once. @type {Settle | undefined} */
  resolve;
  /** Gone once it was called. @type {Settle | undefined} */
  reject;
  /** Resolves the promise that a pending request waits for. @type {Settle | undefined} */
  onAnswer;
  /** Why it failed. @type {unknown} */
  error;
  /** Who stole the lock, and the signal that tells it, if asked for. @type {Loss | undefined} */
  #loss;
  /** @type {any} an Observer; undefined for most */
  observer;

  /**
   * @param {import('../backend/contract.js').Backend} backend
   * @param {string} name the resource name
   * @param {any} options a LockOptions dictionary (3.2), valid together; perhaps more
   */
  constructor(backend, name, options) {
    this.backend = backend;
    this.name = name;
    this.options = options;
  }

  get mode() {
    return this.options.mode;
  }

  /** @returns {import('../backend/contract.js').Disposition} */
  get disposition() {
    const { ifAvailable, steal } = this.options;
    if (steal) return 'steal';
    return ifAvailable ? 'ifAvailable' : 'wait';
  }

  // What a backend calls to say what happened.

  granted() {
    this.state = GRANTED;
  }

  unavailable() {
    this.state = UNAVAILABLE;
  }

  /** @param {string} thief client id */
  stolen(thief) {
    this.state = STOLEN;
    this.#loss ??= {};
    this.#loss.thief = thief;
  }

  /** @param {unknown} error */
  failed(error) {
    this.state = ENDED;
    this.error = error;
  }

  // What a backend calls to have it told.

  answer() {
    if (this.state === ENDED) {
      if (this.error !== undefined) this.fail(this.error);
      return;
    }
    if (this.state === UNAVAILABLE) this.observer?.missed();
    else this.observer?.granted();
    this.answered();
  }

  /** @param {boolean} _fromEvents told from the event loop, not within a call of users' */
  lose(_fromEvents) {
    const error = this.lossReason();
    this.refuse(error);
    this.observer?.stolen(error);
    this.observer?.ended(error);
    abort(this.#loss?.controller, error);
  }

  // Request a lock (4.1).

  /**
   * Requests the lock for a callback, which runs in a microtask, in the async context of this call:
   * `#serve`, an async function, continues there.
   * @param {(lock: any) => any} callback
   * @returns {Promise<any>} the released promise
   * @throws {unknown} for want of stack; then there is no request
   */
  start(callback) {
    const released = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // Where the stack is full the constructor rejects.
    if (!this.reject) return released;
    /** @type {any} */
    let answered;
    try {
      this.backend.request(this);
      if (this.state === PENDING) {
        answered = new Promise((resolve) => {
          this.onAnswer = resolve;
        });
        if (!this.onAnswer) throw answered;
      }
      // Who was robbed hears of it before the thief's callback is called.
      if (this.options.steal) this.backend.tell();
      if (this.state !== ENDED) this.#serve(callback, answered);
      this.made();
    } catch (error) {
      // Not by a call of ours: there may be no stack for one.
      this.state = ENDED;
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(this.tag);
      // Users' code had it rejected meanwhile: that is the answer.
      if (!this.reject) return released;
      this.reject = undefined;
      if (error === answered) return answered;
      throw error;
    }
    return released;
  }

  /** Arms what can give a pending request up, then tells that there is one, and its answer. */
  made() {
    const { observer, options } = this;
    if (options.signal && this.state !== ENDED) follow(options.signal, this);
    if (this.state === PENDING) observer?.arm();
    if (observer) {
      observer.started();
      // Who hears of it may have had it given up.
      if (this.state === GRANTED) observer.granted();
      else if (this.state === UNAVAILABLE) observer.missed();
    }
    if (this.error !== undefined) this.fail(this.error);
    this.backend.tell();
  }

  /** Hands the answer over. */
  answered() {
    this.onAnswer?.();
  }

  // From the answer to the released promise.

  /**
   * @param {(lock: any) => any} callback
   * @param {Promise<void> | undefined} answered
   */
  async #serve(callback, answered) {
    await answered;
    if (!this.use()) return;
    const lock = this.state === UNAVAILABLE ? null : createLock(this);
    let settle = this.resolve;
    let result;
    let error;
    try {
      result = await this.call(callback, lock);
    } catch (reason) {
      settle = this.reject;
      result = error = reason;
    }
    // The waiting promise has settled (2.4): releases the lock, then settles the released promise.
    const released = this.release();
    if (released) await released;
    // It turned out to have been stolen: that is what is told.
    if (this.state === STOLEN) {
      this.backend.tell();
      return;
    }
    // They lead to the promise and what it was made inside of, which must stay collectable.
    this.resolve = undefined;
    this.reject = undefined;
    settle?.(result);
    this.observer?.ended(error);
    this.backend.tell();
  }

  /**
   * From here on the answer is used: the request is not given up any more (4.4, step 2.14.1).
   * @returns {boolean} false if it was given up
   */
  use() {
    if (this.state === ENDED) return false;
    this.disarm();
    return true;
  }

  /**
   * @param {(lock: any) => any} callback users'
   * @param {any} lock
   * @returns {any} what it returned
   */
  call(callback, lock) {
    return callback(lock);
  }

  // Giving up.

  /**
   * Signal to abort the request (4.3). The signal is followed until the callback is invoked.
   * @param {unknown} reason
   */
  signalToAbort(reason) {
    if (!this.leave()) return;
    this.refuse(reason);
    this.observer?.aborted(reason);
    this.observer?.ended(reason);
    this.backend.tell();
  }

  /**
   * Leaves the queue, or gives back a lock that nobody has used.
   * @returns {boolean} false if there is nothing to leave
   */
  leave() {
    if (this.state !== PENDING && this.state !== GRANTED) return false;
    this.backend.withdraw(this);
    this.state = ENDED;
    this.disarm();
    return true;
  }

  disarm() {
    if (this.options.signal) unfollow(this.options.signal, this);
    this.observer?.disarm();
  }

  /**
   * Tells why it failed.
   * @param {unknown} error
   */
  fail(error) {
    this.disarm();
    this.refuse(error);
    this.observer?.failed(error);
    this.observer?.ended(error);
  }

  /**
   * Rejects the promise that users got, unless it is settled.
   * @param {unknown} error
   */
  refuse(error) {
    const { reject } = this;
    this.reject = undefined;
    reject?.(error);
  }

  /** Called from the event loop if there was no stack to give it up, or to release it. */
  finish() {
    const { signal } = this.options;
    const aborted = signal && abortedReason(signal);
    if (this.state === ENDED) {
      this.backend.withdraw(this);
      this.disarm();
      if (aborted) this.refuse(aborted.reason);
      this.observer?.ended(this.error);
    } else if (aborted) {
      this.signalToAbort(aborted.reason);
    }
    this.backend.tell();
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
    loss.controller ??= new AbortController();
    if (this.state === STOLEN) abort(loss.controller, this.lossReason());
    return loss.controller.signal;
  }

  /** @returns {Error} made once */
  lossReason() {
    this.#loss ??= {};
    this.#loss.error ??= this.lossError(this.#loss.thief ?? '');
    return this.#loss.error;
  }

  /**
   * @param {string} thief client id
   * @returns {Error} what the released promise of a stolen lock rejects with (4.1)
   */
  lossError(thief) {
    return new DOMException(`The lock was stolen by ${thief}.`, 'AbortError');
  }

  /**
   * Releases the lock (4.2) if it is held. What that grants to others is told by the backend's
   * `tell`.
   * @returns {Promise<void> | void}
   */
  release() {
    if (this.state !== GRANTED) return undefined;
    this.state = ENDED;
    try {
      return this.backend.release(this);
    } catch {
      // No stack for it: see `start`.
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(this.tag);
      return undefined;
    }
  }
}

/**
 * @param {AbortController | undefined} controller
 * @param {Error} error
 */
function abort(controller, error) {
  try {
    controller?.abort(error);
  } catch (failure) {
    report(failure);
  }
}

module.exports = { ENDED, GRANTED, LockRequest, PENDING, STOLEN, UNAVAILABLE };
