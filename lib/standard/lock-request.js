'use strict';

const { NO_TAG } = require('../backend/contract.js');
const {
  AsyncResource,
  Promise,
  arePromisesNative,
  report,
  then,
  uncurry,
} = require('../platform/intrinsics.js');
const { AbortController, DOMException } = require('../platform/realm.js');
const { abortedReason, follow, missedReason, unfollow } = require('./abort.js');
const { createLock } = require('./lock.js');

/** @import { Backend, Disposition } from '../backend/contract.js' */

/** @type {(context: any, call: () => void) => void} */
const runIn = uncurry(/** @type {any} */ (AsyncResource.prototype.runInAsyncScope));

/** @typedef {(result?: any) => void} Settle */
/**
 * How a lock was lost: it was stolen by `thief`, or lost for `reason`. The error and the signal are
 * created only when they are needed.
 * @typedef {{ thief?: string, pid?: number, reason?: string, cause?: () => Error | undefined,
 *   error?: Error, controller?: AbortController, isAnnounced?: boolean,
 *   context?: import('node:async_hooks').AsyncResource }} Loss
 */

/**
 * Follows the course of a request. An observer may run user code, and nothing here may depend on
 * what that code does. `arm` sets the timers of the wait, and `disarm` removes the one that can end
 * it. `onMiss` means that the lock is not available. `onEnd` may be called repeatedly, and
 * `onGrant` may follow it if the lock was lost before its grant was announced.
 * @typedef {{ arm: () => void, disarm: () => void, onStart: () => void, onGrant: () => void,
 *   onMiss: () => void, onLoss: (error: Error) => void, onAbort: (reason: unknown) => void,
 *   onFailure: (error: unknown) => void, onEnd: (error?: unknown) => void }} Observer
 */

// A pending request has not been made yet, or is in the queue.
const PENDING = 0;
const GRANTED = 1;
const UNAVAILABLE = 2;
/** The lock was stolen, or lost for another reason. */
const LOST = 3;
/** Aborted, failed, or released. */
const ENDED = 4;

/**
 * A lock request (section 2.5 of the specification) and, once granted, its lock (section 2.4), as
 * this thread knows it. Backends call it (`Requester` in contract.js), abort signals call it, and a
 * `Lock` reads it.
 *
 * Each transition must change the state here and in the backend first, and notify users afterwards,
 * so that user code always finds the new state. A user's callback runs in a microtask of its own,
 * on an empty stack. A call from user code can overflow the stack anywhere; `unfinished` and `undo`
 * (contract.js) then make sure that no request is left behind.
 *
 * A request has two promises. `answer` is internal and resolves to the request when the request is
 * answered. Users get the released promise: `answer` itself if the answer came during the call,
 * otherwise a promise derived from `answer`. The request is a thenable: JavaScript calls its
 * `then`, which is `onThen`, with the functions that settle the released promise. The fields in
 * each phase:
 *
 *   phase                       callback   then    resolve, reject
 *   not requested yet           -          -       -
 *   waits for the answer        users'     -       `resolve` of `answer`, no `reject`
 *   answered                    users'     onThen  the same
 *   `onThen` was called         -          onThen  both of the released promise
 *   settled                     -          onThen  -
 *
 * If an error comes before `onThen`, `refusal` keeps it, and `onThen` rejects with it. A request
 * without a callback (`HeldRequest`) has no `answer` and no `onThen`: `resolve` and `reject` belong
 * to the users' promise, until it is settled. Promises, closures and fields are most of what a
 * request costs (docs/internals/performance.md), so the code creates no more of them than needed.
 */
class LockRequest {
  /** Identifies the request in its backend. */
  tag = NO_TAG;
  state = PENDING;
  /** @type {Settle | undefined} */
  resolve;
  /** @type {Settle | undefined} */
  reject;
  /** @type {((lock: any) => any) | undefined} */
  callback;
  /**
   * An own property, which V8 finds at once when it resolves a promise with the request.
   * @type {((resolve: Settle, reject: Settle) => void) | undefined}
   */
  // biome-ignore lint/suspicious/noThenProperty: a request is a thenable
  then;

  // Most requests only inherit the following fields from the prototype: see `setDefaults`.

  /** Makes the error of a failed request. @type {((request: any) => unknown) | undefined} */
  why;
  /** The error of a request that failed before `onThen`. @type {{ error: unknown } | undefined} */
  refusal;
  /** @type {Loss | undefined} */
  loss;
  /** An Observer. @type {any} */
  observer;

  /**
   * Makes only the instance whose fields are the defaults; `initialize` sets up all requests.
   * @param {Backend} backend @param {string} name @param {any} options
   */
  constructor(backend, name, options) {
    this.backend = backend;
    this.name = name;
    this.options = options;
  }

  get mode() {
    return this.options.mode;
  }

  /** @returns {Disposition} */
  get disposition() {
    const { ifAvailable, steal } = this.options;
    if (steal) return 'steal';
    return ifAvailable ? 'ifAvailable' : 'wait';
  }

  // The backend calls these members, which must only change state (contract.js).

  granted() {
    this.state = GRANTED;
  }

  unavailable() {
    this.state = UNAVAILABLE;
  }

  /** @param {string} thief the thief's client id @param {number} [pid] the thief's process id */
  stolen(thief, pid) {
    this.markLost(thief);
    if (this.loss) this.loss.pid = pid;
  }

  /** @param {string} reason @param {() => Error | undefined} [cause] */
  lost(reason, cause) {
    // A pending request may have been granted without this thread's knowledge.
    if (this.state === GRANTED || this.state === PENDING) this.markLost(undefined, reason, cause);
  }

  /** @param {string} [thief] @param {string} [reason] @param {() => Error | undefined} [cause] */
  markLost(thief, reason, cause) {
    this.state = LOST;
    this.loss ??= {};
    this.loss.thief = thief;
    this.loss.reason = reason;
    this.loss.cause = cause;
  }

  /** @param {(request: any) => unknown} why creates the error when the failure is announced */
  failed(why) {
    this.state = ENDED;
    this.why = why;
  }

  // The backend calls these members to notify users.

  announceAnswer() {
    if (this.state === ENDED) {
      if (this.why) this.announceFailure();
      return;
    }
    if (this.state === UNAVAILABLE) this.observer?.onMiss();
    else this.observer?.onGrant();
    this.resolveAnswer();
  }

  /** Whether `onThen` has taken the callback; always true if the request has none. */
  get isDelivered() {
    return this.callback === undefined;
  }

  /** @param {boolean} fromEvents false within a call from user code */
  announceLoss(fromEvents) {
    const { loss } = this;
    if (this.state !== LOST || loss?.isAnnounced) return;
    this.publishLoss(fromEvents);
    // This field is set last: after a stack overflow, this function is called again.
    if (loss) loss.isAnnounced = true;
  }

  /**
   * Rejects the users' promise, notifies the observer, and aborts `lock.signal`.
   * @param {boolean} _fromEvents
   */
  publishLoss(_fromEvents) {
    const error = this.lossReason();
    this.disarm();
    this.rejectPromise(error);
    this.observer?.onLoss(error);
    this.observer?.onEnd(error);
    abortLossSignal(this.loss, error);
  }

  // Section 4.1, "request a lock": https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock

  /**
   * Requests the lock. The callback runs in a microtask, in the async context of this call.
   * @param {(lock: any) => any} callback
   * @returns {Promise<any>} the released promise
   * @throws {unknown} on a stack overflow; there is no request then
   */
  start(callback) {
    const answer = new Promise((resolve) => {
      this.resolve = resolve;
    });
    // If the stack overflowed in the constructor of the promise, the promise is already rejected.
    if (!this.resolve) return answer;
    let released = answer;
    try {
      this.callback = callback;
      this.backend.request(this);
      const isLater = this.state === GRANTED && this.deferAnnouncement();
      if (isLater || this.state === PENDING) released = releasedPromise(answer);
      else makeThenable(this);
      // The holder must be notified of the theft before the callback of the thief runs.
      if (this.options.steal) this.backend.announce();
      if (this.then) this.resolveAnswer();
      this.armAndNotify(isLater);
    } catch (error) {
      // contract.js explains these steps. They are not a function of their own, because a further
      // call could overflow the stack again.
      this.state = ENDED;
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(this.tag);
      // User code has ended the request meanwhile, for example by an abort, and the promise will
      // reject with that error.
      if (this.refusal) return released;
      this.callback = undefined;
      throw error;
    }
    return released;
  }

  /** @returns {boolean} true if the backend will announce the grant, after earlier ones */
  deferAnnouncement() {
    return this.backend.deferAnnouncement?.(this) === true;
  }

  /**
   * Follows the signal, sets the timers of a wait, publishes the start and an answer that came
   * during the call, and makes the backend announce.
   * @param {boolean} isAnnouncedLater whether `announceAnswer` will publish the grant
   */
  armAndNotify(isAnnouncedLater) {
    const { observer, options } = this;
    if (options.signal && this.state !== ENDED) follow(options.signal, this);
    if (this.state === PENDING) observer?.arm();
    if (observer) {
      observer.onStart();
      // A listener may have ended the request.
      if (this.state === GRANTED && !isAnnouncedLater) observer.onGrant();
      else if (this.state === UNAVAILABLE) observer.onMiss();
    }
    if (this.why) this.announceFailure();
    this.backend.announce();
  }

  /** Passes the answer to the promise. Harmless to repeat. */
  resolveAnswer() {
    if (this.callback) this.resolve?.(this);
  }

  /**
   * Ends the time in which the request can be aborted (section 4.4, step 2.14.1).
   * @returns {boolean} false if the request was aborted earlier
   */
  beginUse() {
    const { signal } = this.options;
    // A lost lock does not follow its signal any more.
    const isLost = this.state === LOST;
    const missed = signal && (isLost ? abortedReason(signal) : missedReason(signal));
    if (missed) this.signalToAbort(missed.reason);
    if (this.state === ENDED || (missed && isLost)) return false;
    this.disarm();
    return true;
  }

  /** @param {(lock: any) => any} callback @param {any} lock */
  callCallback(callback, lock) {
    return callback(lock);
  }

  /**
   * Section 4.3: https://www.w3.org/TR/2023/WD-web-locks-20230105/#signal-to-abort-the-request
   * @param {unknown} reason
   */
  signalToAbort(reason) {
    if (this.withdraw()) this.announceAbort(reason);
  }

  /** Notifies users of the end of a withdrawn request. @param {unknown} reason */
  announceAbort(reason) {
    this.rejectPromise(reason);
    this.observer?.onAbort(reason);
    this.observer?.onEnd(reason);
    this.backend.announce();
  }

  /**
   * Ends a pending request, or releases the lock of a granted one; announces nothing.
   * @returns {boolean} false if the request had already ended
   */
  withdraw() {
    if (this.state !== PENDING && this.state !== GRANTED) return false;
    this.backend.withdraw(this);
    this.state = ENDED;
    this.disarm();
    return true;
  }

  /** Unfollows the signal, and removes the time limit of the wait. */
  disarm() {
    if (this.options.signal) unfollow(this.options.signal, this);
    this.observer?.disarm();
  }

  announceFailure() {
    this.fail(this.failure());
  }

  /** @returns {unknown} the error of the request; undefined if it did not fail */
  failure() {
    return this.why?.(this);
  }

  /** Rejects the users' promise and notifies the observer. @param {unknown} error */
  fail(error) {
    this.disarm();
    this.rejectPromise(error);
    this.observer?.onFailure(error);
    this.observer?.onEnd(error);
  }

  /** Rejects the users' promise, unless it is settled. @param {unknown} error */
  rejectPromise(error) {
    if (this.callback) {
      if (!this.refusal) this.refusal = { error };
      this.resolveAnswer();
      return;
    }
    // `reject` is cleared last: if the call overflows the stack, this function is called again.
    this.reject?.(error);
    this.reject = undefined;
  }

  /** Ends, on an empty stack, a request that a call could not end because of a stack overflow. */
  finish() {
    const { signal } = this.options;
    const aborted = signal && abortedReason(signal);
    if (this.state === ENDED) {
      this.backend.withdraw(this);
      this.disarm();
      if (aborted) this.rejectPromise(aborted.reason);
      this.observer?.onEnd(this.failure());
    } else if (this.state === LOST) {
      this.backend.withdraw(this);
    } else if (aborted) {
      this.signalToAbort(aborted.reason);
    }
    this.backend.announce();
  }

  get isPending() {
    return this.state === PENDING;
  }

  get isGranted() {
    return this.state === GRANTED;
  }

  get lossSignal() {
    this.loss ??= {};
    const loss = this.loss;
    if (!loss.controller) {
      loss.controller = new AbortController();
      // Without this resource, listeners would run in the async context of a thief in this thread,
      // or in none if an event reports the loss.
      loss.context = new AsyncResource('LockSignal');
    }
    if (this.state === LOST) abortLossSignal(loss, this.lossReason());
    return loss.controller.signal;
  }

  /** @returns {Error} the error of the loss, which the first call makes */
  lossReason() {
    this.loss ??= {};
    this.loss.error ??= this.lossError(this.loss);
    return this.loss.error;
  }

  /** @param {Loss} loss @returns {Error} */
  lossError({ thief, reason }) {
    const how = reason === undefined ? `stolen by ${thief}` : `lost: ${reason}`;
    return new DOMException(`The lock was ${how}.`, 'AbortError');
  }

  /**
   * Section 4.2: https://www.w3.org/TR/2023/WD-web-locks-20230105/#release-the-lock. Afterwards the
   * caller must call `announce` of the backend, which notifies the requests that are granted.
   * @returns {Promise<void> | void}
   */
  release() {
    if (this.state !== GRANTED) return undefined;
    loseIfExpired(this);
    if (/** @type {number} */ (this.state) !== GRANTED) return undefined;
    return this.releaseInBackend();
  }

  /** @returns {Promise<void> | void} */
  releaseInBackend() {
    // The state changes here and not in `release`: if the call of this function overflows the
    // stack, the lock is still held.
    if (this.state === GRANTED) this.state = ENDED;
    try {
      return this.backend.release(this);
    } catch {
      // The stack has overflowed: see contract.js.
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(this.tag);
      return undefined;
    }
  }
}

/**
 * Puts the defaults of all fields on the prototype. So most requests need no own properties for
 * them, and an assignment never calls a setter that users have put on `Object.prototype`.
 * @param {new (backend: any, name: string, options: any) => LockRequest} RequestClass
 */
function setDefaults(RequestClass) {
  Object.assign(RequestClass.prototype, new RequestClass(undefined, '', undefined));
}

/**
 * Replaces the constructor: V8 does not inline `super()`, which costs 5 % of a request.
 * @param {any} request @param {Backend} backend @param {string} name
 * @param {any} options options that were checked to fit together
 */
function initialize(request, backend, name, options) {
  request.tag = NO_TAG;
  request.state = PENDING;
  request.resolve = undefined;
  request.reject = undefined;
  request.callback = undefined;
  request.backend = backend;
  request.name = name;
  request.options = options;
  // biome-ignore lint/suspicious/noThenProperty: a request is a thenable
  request.then = undefined;
}

/** `checkHeld` marks the lock as lost if its lease has ended. @param {LockRequest} request */
function loseIfExpired(request) {
  try {
    request.backend.checkHeld?.(request);
  } catch {
    // On a stack overflow, the lock is released whether or not the lease has expired.
  }
}

/**
 * A reaction of `answer` keeps the async context, as an async function does, but needs less memory.
 * @param {Promise<any>} answer
 */
const releasedPromise = (answer) =>
  arePromisesNative() ? then(answer, makeThenable) : outcomeAfter(answer);

/** @param {LockRequest} request */
function makeThenable(request) {
  // biome-ignore lint/suspicious/noThenProperty: a request is a thenable
  request.then = onThen;
  return request;
}

/**
 * Used if user code has replaced the constructor of promises, which `then` would call. An async
 * function returns a native promise nevertheless.
 * @param {Promise<any>} answer @returns {Promise<any>}
 */
async function outcomeAfter(answer) {
  return await /** @type {any} */ (makeThenable(await answer));
}

/**
 * The `then` of an answered request, which receives the functions that settle the released promise.
 * V8 calls it in a microtask of its own, and creates these functions only then, so they cost
 * nothing while the request waits.
 * @this {LockRequest} @param {Settle} resolve @param {Settle} reject
 */
function onThen(resolve, reject) {
  const { callback, refusal } = this;
  // `start` has thrown, so nobody has the promise.
  if (!callback) return;
  this.callback = undefined;
  this.resolve = resolve;
  this.reject = reject;
  if (refusal) this.rejectPromise(refusal.error);
  runCallback(this, callback);
}

/**
 * Runs the callback, then releases the lock, then settles the released promise (section 2.4).
 * @param {LockRequest} request @param {(lock: any) => any} callback
 */
async function runCallback(request, callback) {
  if (!request.beginUse()) return;
  const lock = request.state === UNAVAILABLE ? null : createLock(request);
  let settle = request.resolve;
  let result;
  let error;
  try {
    result = await request.callCallback(callback, lock);
  } catch (reason) {
    settle = request.reject;
    result = error = reason;
  }
  const released = request.release();
  if (released) await released;
  // The lock was lost, as the release may have found out: `announce` rejects the promise.
  if (request.state === LOST) {
    request.backend.announce();
    return;
  }
  // These functions refer to the promise, which must remain collectable.
  request.resolve = undefined;
  request.reject = undefined;
  settle?.(result);
  request.observer?.onEnd(error);
  request.backend.announce();
}

/** @param {Loss | undefined} loss @param {Error} error */
function abortLossSignal(loss, error) {
  const { controller, context } = loss ?? {};
  try {
    if (controller && context) runIn(context, () => controller.abort(error));
  } catch (failure) {
    report(failure);
  }
}

module.exports = {
  ENDED,
  GRANTED,
  LockRequest,
  PENDING,
  LOST,
  UNAVAILABLE,
  initialize,
  setDefaults,
};
