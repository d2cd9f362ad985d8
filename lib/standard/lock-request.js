'use strict';

const { NO_TAG } = require('../backend/contract.js');
const {
  AsyncResource,
  Promise,
  arePromisesOurs,
  report,
  then,
  uncurry,
} = require('../platform/intrinsics.js');
const { AbortController, DOMException } = require('../platform/realm.js');
const { abortedReason, follow, unfollow } = require('./abort.js');
const { createLock } = require('./lock.js');

/** A method that nobody can replace. @type {(context: any, call: () => void) => void} */
const runIn = uncurry(/** @type {any} */ (AsyncResource.prototype.runInAsyncScope));

/** @typedef {(result?: any) => void} Settle settles a promise */
/**
 * How a lock was lost, by a thief or for a reason; the error and the signal that tell it, if asked
 * for.
 * @typedef {object} Loss
 * @property {string} [thief] client id
 * @property {number} [pid] of the thief, if it is known
 * @property {string} [reason]
 * @property {() => Error | undefined} [cause]
 * @property {Error} [error]
 * @property {AbortController} [controller]
 * @property {import('node:async_hooks').AsyncResource} [context] of the listeners of its signal
 * @property {boolean} [isAnnounced]
 */

/**
 * The observer of a request's course, if there is one. It may run users' code, and nothing here
 * depends on what that does.
 * @typedef {object} Observer
 * @property {() => void} arm the request waits: sets up what can give it up
 * @property {() => void} disarm it was answered, or given up
 * @property {() => void} started it was made
 * @property {() => void} granted
 * @property {() => void} missed the lock is not available
 * @property {(error: Error) => void} lost
 * @property {(reason: unknown) => void} aborted
 * @property {(error: unknown) => void} failed
 * @property {(error?: unknown) => void} ended comes last, once, after any of the others
 */

// What became of a request.
/** Not made yet, or in the queue. */
const PENDING = 0;
const GRANTED = 1;
const UNAVAILABLE = 2;
/** Stolen, or lost otherwise. */
const LOST = 3;
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
 * Two promises lead to users. `answer` is internal and resolves to the request when there is an
 * answer. The released promise is what users got: `answer` itself if the answer came during the
 * call, else a reaction of it. The request is a thenable, so the engine calls `then`, which is
 * `hear`, with the functions that settle the released promise. The fields meanwhile:
 *
 *   phase                       callback   then    resolve, reject
 *   made, nobody was asked      -          -       -
 *   waits for the answer        users'     -       `resolve` of `answer`, no `reject`
 *   answered, not heard yet     users'     hear    the same
 *   heard: `hear` was called    -          hear    both of the released promise
 *   settled                     -          hear    -
 *
 * An error that comes before `hear` is kept in `refusal`, and `hear` rejects with it. A request
 * without a callback (`HeldRequest`) has no `answer` and no `hear`: `resolve` and `reject` are
 * those of the promise that users got, from the beginning until it is settled.
 *
 * No more promises, closures and fields than needed: they are most of what a request costs
 * (docs/internals/performance.md).
 */
class LockRequest {
  /** For the backend's use. */
  tag = NO_TAG;
  /** @type {number} */
  state = PENDING;
  /** See the table above. @type {Settle | undefined} */
  resolve;
  /** See there. @type {Settle | undefined} */
  reject;
  /** See there. @type {((lock: any) => any) | undefined} */
  callback;
  /**
   * See there. A property of its own, so that a promise that is resolved with the request does not
   * look for one elsewhere.
   * @type {((resolve: Settle, reject: Settle) => void) | undefined}
   */
  // biome-ignore lint/suspicious/noThenProperty: it is to be one
  then;

  // Only those have these that need them.

  /** Makes the error that it failed with. @type {((request: any) => unknown) | undefined} */
  why;
  /** Why the promise is rejected that has not asked yet. @type {{ error: unknown } | undefined} */
  refusal;
  /** @type {Loss | undefined} */
  loss;
  /** @type {any} an Observer */
  observer;

  /**
   * Makes the one that has the defaults: see `initialize`.
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

  // The backend's calls that report what happened.

  granted() {
    this.state = GRANTED;
  }

  unavailable() {
    this.state = UNAVAILABLE;
  }

  /**
   * @param {string} thief client id
   * @param {number} [pid] of the thief
   */
  stolen(thief, pid) {
    this.beLost(thief);
    if (this.loss) this.loss.pid = pid;
  }

  /**
   * @param {string} reason
   * @param {() => Error | undefined} [cause]
   */
  lost(reason, cause) {
    // It may have been granted without this thread's knowledge.
    if (this.state === GRANTED || this.state === PENDING) this.beLost(undefined, reason, cause);
  }

  /**
   * @param {string} [thief] client id
   * @param {string} [reason]
   * @param {() => Error | undefined} [cause]
   */
  beLost(thief, reason, cause) {
    this.state = LOST;
    this.loss ??= {};
    this.loss.thief = thief;
    this.loss.reason = reason;
    this.loss.cause = cause;
  }

  /** @param {(request: any) => unknown} why makes the error, when it is told */
  failed(why) {
    this.state = ENDED;
    this.why = why;
  }

  // The backend's calls that announce it.

  announceAnswer() {
    if (this.state === ENDED) {
      if (this.why) this.announceFailure();
      return;
    }
    if (this.state === UNAVAILABLE) this.observer?.missed();
    else this.observer?.granted();
    this.deliver();
  }

  /** @returns {boolean} whether the callback was reached, or there is none */
  get isHeard() {
    return this.callback === undefined;
  }

  /** @param {boolean} fromEvents told from the event loop, not within a call of users' */
  announceLoss(fromEvents) {
    const { loss } = this;
    if (this.state !== LOST || loss?.isAnnounced) return;
    this.publishLoss(fromEvents);
    // It comes last: if the stack does not suffice for all of it, this is called again.
    if (loss) loss.isAnnounced = true;
  }

  /** @param {boolean} _fromEvents */
  publishLoss(_fromEvents) {
    const error = this.lossReason();
    this.disarm();
    this.refuse(error);
    this.observer?.lost(error);
    this.observer?.ended(error);
    abort(this.loss, error);
  }

  // Request a lock (4.1).

  /**
   * Requests the lock for a callback, which runs in a microtask, in the async context of this call.
   * @param {(lock: any) => any} callback
   * @returns {Promise<any>} the released promise
   * @throws {unknown} for want of stack; then there is no request
   */
  start(callback) {
    const answer = new Promise((resolve) => {
      this.resolve = resolve;
    });
    // Where the stack is full the constructor rejects.
    if (!this.resolve) return answer;
    let released = answer;
    try {
      this.callback = callback;
      this.backend.request(this);
      const isLater = this.state === GRANTED && this.isAnnouncedLater();
      if (isLater || this.state === PENDING) released = releasedAfter(answer);
      else toOutcome(this);
      // A robbed holder is notified before the thief's callback is called.
      if (this.options.steal) this.backend.announce();
      if (this.then) this.deliver();
      this.made(isLater);
    } catch (error) {
      // Not by a call of ours: there may be no stack for one.
      this.state = ENDED;
      const { unfinished } = this.backend;
      unfinished[unfinished.length] = this;
      this.backend.undo(this.tag);
      // Users' code had it rejected meanwhile: that is the answer.
      if (this.refusal) return released;
      this.callback = undefined;
      throw error;
    }
    return released;
  }

  /**
   * @returns {boolean} whether it was granted during the call, but after others whose callbacks are
   *   still to be called: then the backend tells it, after those
   */
  isAnnouncedLater() {
    return this.backend.announcesLater?.(this) === true;
  }

  /**
   * Arms what can give a pending request up, then tells that there is one, and its answer.
   * @param {boolean} isAnnouncedLater see there
   */
  made(isAnnouncedLater) {
    const { observer, options } = this;
    if (options.signal && this.state !== ENDED) follow(options.signal, this);
    if (this.state === PENDING) observer?.arm();
    if (observer) {
      observer.started();
      // A listener may have withdrawn the request.
      if (this.state === GRANTED && !isAnnouncedLater) observer.granted();
      else if (this.state === UNAVAILABLE) observer.missed();
    }
    if (this.why) this.announceFailure();
    this.backend.announce();
  }

  /** Has the answer heard; harmless to call again. */
  deliver() {
    if (this.callback) this.resolve?.(this);
  }

  // From the answer to the released promise.

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
    this.backend.announce();
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

  /** Tells that it failed. */
  announceFailure() {
    this.fail(this.failure());
  }

  /** @returns {unknown} the error that it failed with; undefined if there is none */
  failure() {
    return this.why?.(this);
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
    if (this.callback) {
      if (!this.refusal) this.refusal = { error };
      this.deliver();
      return;
    }
    // In this order: where there is no stack for the first, this is called again.
    this.reject?.(error);
    this.reject = undefined;
  }

  /** Called from the event loop if there was no stack to give it up, or to release it. */
  finish() {
    const { signal } = this.options;
    const aborted = signal && abortedReason(signal);
    if (this.state === ENDED) {
      this.backend.withdraw(this);
      this.disarm();
      if (aborted) this.refuse(aborted.reason);
      this.observer?.ended(this.failure());
    } else if (this.state === LOST) {
      this.backend.withdraw(this);
    } else if (aborted) {
      this.signalToAbort(aborted.reason);
    }
    this.backend.announce();
  }

  // The lock.

  /** Whether it is held: granted, and neither released nor lost. */
  get held() {
    return this.state === GRANTED;
  }

  /** @returns {AbortSignal} aborted when the lock is lost */
  get lossSignal() {
    this.loss ??= {};
    const loss = this.loss;
    if (!loss.controller) {
      loss.controller = new AbortController();
      // A thief aborts it in its own context, an event of the addon in none.
      loss.context = new AsyncResource('LockSignal');
    }
    if (this.state === LOST) abort(loss, this.lossReason());
    return loss.controller.signal;
  }

  /** @returns {Error} made once */
  lossReason() {
    this.loss ??= {};
    this.loss.error ??= this.lossError(this.loss);
    return this.loss.error;
  }

  /**
   * @param {Loss} loss
   * @returns {Error} what the released promise of a lost lock rejects with (4.1)
   */
  lossError({ thief, reason }) {
    const how = reason === undefined ? `stolen by ${thief}` : `lost: ${reason}`;
    return new DOMException(`The lock was ${how}.`, 'AbortError');
  }

  /**
   * Releases the lock (4.2) if it is held. What that grants to others is told by the backend's
   * `announce`.
   * @returns {Promise<void> | void}
   */
  release() {
    if (this.state !== GRANTED) return undefined;
    lookAtTheClock(this);
    if (/** @type {number} */ (this.state) !== GRANTED) return undefined;
    return this.handBack();
  }

  /**
   * Has the backend release the lock, which is no longer held here.
   * @returns {Promise<void> | void}
   */
  handBack() {
    // Not before the call of this: where there is no stack for that, the lock is still held.
    if (this.state === GRANTED) this.state = ENDED;
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
 * Puts the defaults of the fields of a class of requests into its prototype: for those that most
 * requests do not have, and so that nobody's setter is in the way of the others.
 * @param {new (backend: any, name: string, options: any) => LockRequest} RequestClass
 */
function setDefaults(RequestClass) {
  Object.assign(RequestClass.prototype, new RequestClass(undefined, '', undefined));
}

/**
 * What the constructor of a request does. Not `super()`, which the engine does not inline: it would
 * be a twentieth of a request.
 * @param {any} request
 * @param {import('../backend/contract.js').Backend} backend
 * @param {string} name the resource name
 * @param {any} options valid together
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
  // biome-ignore lint/suspicious/noThenProperty: it is to be one
  request.then = undefined;
}

/**
 * Its lease may have ended, and nobody was told yet: the backend makes it lost by this.
 * @param {LockRequest} request
 */
function lookAtTheClock(request) {
  try {
    request.backend.holds?.(request);
  } catch {
    // No stack for it: it is released.
  }
}

/**
 * The released promise of a pending request: asks for its outcome in a reaction of another one,
 * which keeps the async context, as an async function does that waits, and is much smaller.
 * @param {Promise<any>} answer
 * @returns {Promise<any>}
 */
const releasedAfter = (answer) => (arePromisesOurs() ? then(answer, toOutcome) : outcomeOf(answer));

/**
 * @param {LockRequest} request
 * @returns {LockRequest} as a thenable
 */
function toOutcome(request) {
  // biome-ignore lint/suspicious/noThenProperty: it is to be one
  request.then = hear;
  return request;
}

/**
 * Somebody changed what promises are made of, but not what async functions use.
 * @param {Promise<any>} answer
 * @returns {Promise<any>}
 */
async function outcomeOf(answer) {
  return await /** @type {any} */ (toOutcome(await answer));
}

/**
 * What makes a request a thenable, so that its outcome becomes that of the released promise. The
 * engine calls it in a microtask of its own. So what settles that promise is made when there is an
 * answer, and is no part of what waits.
 * @this {LockRequest}
 * @param {Settle} resolve
 * @param {Settle} reject
 */
function hear(resolve, reject) {
  const { callback, refusal } = this;
  // It could not be made, and nobody has its promise.
  if (!callback) return;
  this.callback = undefined;
  this.resolve = resolve;
  this.reject = reject;
  if (refusal) this.refuse(refusal.error);
  serve(this, callback);
}

/**
 * From the answer to the released promise.
 * @param {LockRequest} request
 * @param {(lock: any) => any} callback
 */
async function serve(request, callback) {
  if (!request.use()) return;
  const lock = request.state === UNAVAILABLE ? null : createLock(request);
  let settle = request.resolve;
  let result;
  let error;
  try {
    result = await request.call(callback, lock);
  } catch (reason) {
    settle = request.reject;
    result = error = reason;
  }
  // The waiting promise has settled (2.4): releases the lock, then settles the released promise.
  const released = request.release();
  if (released) await released;
  // It turned out to have been lost: that is what is told.
  if (request.state === LOST) {
    request.backend.announce();
    return;
  }
  // They lead to the promise and what it was made inside of, which must stay collectable.
  request.resolve = undefined;
  request.reject = undefined;
  settle?.(result);
  request.observer?.ended(error);
  request.backend.announce();
}

/**
 * @param {Loss | undefined} loss
 * @param {Error} error
 */
function abort(loss, error) {
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
