'use strict';

const {
  GRANTED,
  LOST,
  LockRequest,
  PENDING,
  initialize,
  setDefaults,
} = require('../../standard/lock-request.js');
const { prepareForUsers, holdersNow, sharedHoldersNow } = require('../watch/holder-queries.js');
const {
  callEnclosed,
  countsAsEnclosing,
  enclosingLocks,
  rejectsDeadlocks,
  reentrantBackend,
  warnOfDeadlocks,
} = require('../reentrancy/enclosing-locks.js');
const {
  DeadlockError,
  LockLostError,
  LockQueueFullError,
  LockStolenError,
  describeLimit,
  holdTimeoutError,
  notFreeError,
  theftTimeoutError,
  waitTimeoutError,
} = require('../errors/lock-errors.js');
const { defaultOptions } = require('../options.js');
const { rejectInUsersStack, originOf, withLongStack, withOrigin } = require('../sites/origin.js');
const { ReentrantParent } = require('../reentrancy/reentrant-parent.js');
const { addSites, areSitesRecorded, forgetSite, noteSite } = require('../sites/sites.js');
const { Watch, isWatched, needsOrigin } = require('../watch/watch.js');
const { argumentError, notSupportedError } = require('../../platform/errors.js');
const { describeLock } = require('../../platform/names.js');
const { tokenOf } = require('../../platform/numbers.js');

/** @import { Backend, CycleEntry, Disposition, Progress } from '../../backend/contract.js' */
/** @import { Loss } from '../../standard/lock-request.js' */
/** @import { RequestOptions } from '../options.js' */
/** @import { Origin } from '../sites/origin.js' */
/** @import { Holders } from '../watch/holder-queries.js' */
/** @typedef {InstanceType<typeof import('../reentrancy/reentrant-parent.js').Served>} Served */
/** @typedef {InstanceType<typeof import('./waiters.js').Waiting>} Waiting */

const NO_DEADLOCKS =
  "The 'deadlock' option is available only for locks of this process, not for locks of the " +
  'machine or of a cluster.';

/** The lock was lost because `holdTimeout` or `maxTotal` was reached. */
const TIME = 'time';

/** A lock request with the options and members that the specification lacks. */
class ExtendedRequest extends LockRequest {
  /** The halves of the token, as signed 32-bit integers. */
  tokenLow = 0;
  tokenHigh = 0;

  // Few requests get own properties for the following fields: see `setDefaults`.

  /** @type {string | undefined} */
  label;
  /** See Requester. @type {ExtendedRequest[] | undefined} */
  inside;
  /** Where the request was made, if an error or query may show it. @type {Origin | undefined} */
  origin;
  /** See Requester. @type {string | undefined} */
  published;
  /** The number of the publication that set `published`, and how many there were. */
  publishedLast = 0;
  publications = 0;
  /** The reentrant requests that this lock serves. @type {Served | undefined} */
  served;
  /** The list of waiting requests that contains this one. @type {Waiting | undefined} */
  among;

  /**
   * With `blocking: false` or the time limit 0, the request does not wait.
   * @override @returns {Disposition}
   */
  get disposition() {
    const { blocking, timeout } = this.options;
    return timeout === 0 || blocking === false ? 'ifAvailable' : super.disposition;
  }

  /** Whether it has `inside`, `label`, `limit`, `maxPending`, or a `priority` other than 0. */
  get hasExtensions() {
    const { options } = this;
    return (
      this.inside !== undefined ||
      options.label !== undefined ||
      options.limit !== undefined ||
      options.maxPending !== undefined ||
      options.priority !== 0
    );
  }

  get limit() {
    return this.options.limit;
  }

  get weight() {
    return this.options.weight;
  }

  get maxPending() {
    return this.options.maxPending;
  }

  get priority() {
    return this.options.priority;
  }

  /** @override @param {number} [tokenLow] @param {number} [tokenHigh] */
  granted(tokenLow = 0, tokenHigh = 0) {
    super.granted();
    this.tokenLow = tokenLow | 0;
    this.tokenHigh = tokenHigh | 0;
    this.observer?.noteGrant();
    if (this.origin !== undefined) noteSite(this);
  }

  /** @returns {bigint} 0 before the grant */
  get token() {
    return tokenOf(this.tokenLow, this.tokenHigh);
  }

  /** This request, or the lock that serves it if it is reentrant. @returns {ExtendedRequest} */
  get rootLock() {
    const { backend } = this;
    return backend instanceof ReentrantParent ? backend.lock : this;
  }

  /** @returns {boolean} whether the request blocks its thread */
  get blocks() {
    return false;
  }

  /** @returns {boolean} whether the class sets `origin` itself */
  get hasSite() {
    return false;
  }

  /** With `blocking: false` or the time limit 0, the request fails instead. @override */
  unavailable() {
    const { blocking, timeout } = this.options;
    if (blocking === false) this.failed(notFreeErrorNow);
    else if (timeout === 0) this.failed(timeoutErrorNow);
    else super.unavailable();
  }

  /** @param {number} limit the limit of the name; 0 for none */
  otherLimit(limit) {
    this.failed(() => otherLimitError(this, limit));
  }

  queueFull() {
    this.failed(() => new LockQueueFullError(this.name, this.maxPending));
  }

  /** @param {CycleEntry[]} cycle */
  deadlocked(cycle) {
    this.failed(() => {
      addSites(this.backend, cycle);
      return new DeadlockError(this.name, cycle);
    });
  }

  /** @override @param {(request: any) => unknown} why */
  failed(why) {
    if (this.origin !== undefined && this.state === GRANTED) forgetSite(this);
    super.failed(why);
  }

  /** @override */
  withdraw() {
    if (this.state === GRANTED) {
      this.observer?.noteRelease();
      if (this.origin !== undefined) forgetSite(this);
    }
    return super.withdraw();
  }

  /** @override */
  releaseInBackend() {
    if (this.origin !== undefined) forgetSite(this);
    return super.releaseInBackend();
  }

  /** Ends a request that a stack overflow left unfinished. @override */
  finish() {
    if (this.origin !== undefined && this.state !== GRANTED) forgetSite(this);
    super.finish();
  }

  /** Unfollows the signal, removes the time limit of the wait, and leaves `among`. @override */
  disarm() {
    this.among?.remove(this);
    super.disarm();
  }

  handleTimeout() {
    if (this.state !== PENDING) return;
    // The progress is read first: it is unknown once the request is withdrawn.
    const progress = this.backend.progress?.(this);
    const { limits } = this.observer;
    limits.findHoldersNow();
    limits.outage = this.backend.outage?.(this);
    if (!this.withdraw()) return;
    if (this.options.steal || !limits.canLearnHolders) this.failWithTimeout(progress);
    else this.failWithHolders();
  }

  /** Handles the time limit of a request that blocks its thread. */
  handleTimeoutInCall() {
    this.observer?.limits?.findHoldersNow();
    if (this.withdraw()) this.failed(timeoutErrorNow);
  }

  /**
   * With the time limit 0, it first asks for the holders if the backend has `askHolders`.
   * @override
   */
  announceFailure() {
    if (this.why === timeoutErrorNow && !this.blocks && this.backend.askHolders) {
      this.failWithHolders();
      this.why = undefined;
    } else {
      super.announceFailure();
    }
  }

  /** @override */
  failure() {
    return this.why && withLongStack(() => /** @type {Error} */ (super.failure()));
  }

  /**
   * Waits for the holders before it makes the error: a query for them may be under way, and a
   * request with the time limit 0 had no time to ask earlier.
   */
  async failWithHolders() {
    await undefined;
    await this.observer.limits.askForHolders();
    this.failWithTimeout();
  }

  /** @param {Progress} [progress] of a theft */
  failWithTimeout(progress) {
    const { backend, name } = this;
    const { limits } = this.observer;
    const known = backend.holders ? undefined : limits.holders;
    const outage = limits.outage ?? backend.outage?.();
    if (this.options.steal) this.fail(this.theftError(progress, outage));
    else this.fail(this.timeoutError(known ?? sharedHoldersNow(backend, name, false), outage));
    this.backend.announce();
  }

  /** @param {Holders} [holders] @param {unknown} [outage] why the holders are unknown */
  timeoutError(holders, outage) {
    const { backend, name, observer } = this;
    const waited = observer?.waitDuration() ?? 0;
    const known = prepareForUsers(holders);
    const error = waitTimeoutError(name, waited, known, backend.grantsIn?.(), outage);
    return withOrigin(error, this.origin);
  }

  /**
   * A theft waits only for the server's answer, never for a holder.
   * @param {Progress} [progress] @param {unknown} [outage] why the server does not answer
   */
  theftError(progress, outage) {
    const { name, observer } = this;
    const error = theftTimeoutError(name, observer.waitDuration(), progress !== 'unsent', outage);
    return withOrigin(error, this.origin);
  }

  handleHoldTimeout() {
    if (!this.checkHeld()) return;
    this.loseBeforeRelease(TIME);
    this.releaseInBackend();
    this.announceLoss(false);
    this.backend.announce();
  }

  /**
   * Must be called before the release, which grants the next request: by then neither this lock nor
   * its reentrant locks may count as held.
   * @param {string} reason
   */
  loseBeforeRelease(reason) {
    this.observer?.noteRelease();
    this.markLost(undefined, reason);
  }

  /**
   * The reentrant locks that this lock serves are lost, too.
   * @override @param {string} [thief] @param {string} [reason] @param {Loss['cause']} [cause]
   */
  markLost(thief, reason, cause) {
    super.markLost(thief, reason, cause);
    if (this.origin !== undefined) forgetSite(this);
    const { served } = this;
    for (let i = 0; served && i < served.requests.length; i++) {
      if (served.requests[i].isGranted) served.requests[i].markLost(thief, reason, cause);
    }
  }

  /** Whether the lock is held now, also according to the clock; an expired lock becomes lost. */
  checkHeld() {
    return this.isGranted && (this.backend.checkHeld?.(this) ?? true);
  }

  /** @returns {number} milliseconds during which the lock is certainly held; 0 if it is not held */
  get remaining() {
    if (!this.checkHeld()) return 0;
    return this.backend.remaining?.(this) ?? Number.POSITIVE_INFINITY;
  }

  /** @override */
  get lossSignal() {
    // `checkHeld` marks the lock as lost if its lease has ended.
    if (this.isGranted) this.backend.checkHeld?.(this);
    return super.lossSignal;
  }

  /** Announces the losses of the reentrant requests, too. @override @param {boolean} fromEvents */
  publishLoss(fromEvents) {
    if (fromEvents && this.reject && !this.origin)
      rejectInUsersStack(this, () => super.publishLoss(fromEvents));
    else super.publishLoss(fromEvents);
    if (this.served) this.announceServedLosses(this.served, fromEvents);
  }

  /**
   * Announces the losses of reentrant requests that were marked as lost, empties `served`, and
   * resolves `served.ended`.
   * @param {Served} served @param {boolean} fromEvents
   */
  announceServedLosses(served, fromEvents) {
    const { requests } = served;
    for (; requests.length > 0; served.dropLastRequest()) {
      const last = requests[requests.length - 1];
      if (last.state === LOST) last.announceLoss(fromEvents);
    }
    served.end?.();
  }

  /** @override @param {Loss} loss */
  lossError({ thief, pid, reason = 'released', cause }) {
    const outer = this.rootLock;
    if (outer !== this && outer.state === LOST) return outer.lossReason();
    if (reason === TIME) return withOrigin(this.holdError(), this.origin);
    const error = withLongStack(() =>
      thief === undefined
        ? new LockLostError(this.name, reason, this.token, cause?.())
        : new LockStolenError(this.name, thief, pid),
    );
    return withOrigin(error, this.origin);
  }

  holdError() {
    const { name, observer } = this;
    return holdTimeoutError(
      name,
      observer.waitDuration(),
      observer.holdDuration(),
      observer.limits.holdLimit,
    );
  }

  /** @override @param {(lock: any) => any} callback @param {any} lock */
  callCallback(callback, lock) {
    return countsAsEnclosing(this.options) ? callEnclosed([this], callback, lock) : callback(lock);
  }

  /** The release waits for the reentrant requests. @override @returns {Promise<void> | void} */
  release() {
    const { served } = this;
    if (served === undefined || served.requests.length === 0 || this.state !== GRANTED) {
      if (this.state === GRANTED) this.observer?.noteRelease();
      return super.release();
    }
    served.isAwaited = true;
    return served.ended;
  }

  /** Drops `inside`, and ends the time in which the request can be aborted. @override */
  beginUse() {
    // Otherwise a chain of requests that enclose each other could not be garbage-collected.
    if (this.inside) this.inside = undefined;
    return super.beginUse();
  }
}

/** The error of a request with the time limit 0. @param {ExtendedRequest} request */
const timeoutErrorNow = (request) => {
  const { backend, name, observer } = request;
  const known = backend.holders ? undefined : observer?.limits?.holders;
  const outage = backend.outage?.(request);
  return request.timeoutError(known ?? holdersNow(backend, name, false), outage);
};

/** The error of a request with `blocking: false`. @param {ExtendedRequest} request */
const notFreeErrorNow = ({ backend, name }) =>
  notFreeError(name, prepareForUsers(holdersNow(backend, name, false)));

/** @param {ExtendedRequest} request @param {number} limit of the name */
function otherLimitError(request, limit) {
  return argumentError(
    `A request for ${describeLock(request.name)} has ${describeLimit(request.limit)}, but its ` +
      `holders and waiters have ${describeLimit(limit)}.`,
  );
}

/**
 * Finds the place of a call that also makes requests later, when its caller has left the stack.
 * @param {RequestOptions} options @param {Function} callee see `originOf`
 * @returns {Origin | undefined} undefined if no error, warning or query would show it
 */
const originOfCall = (options, callee) =>
  needsOrigin(options) || areSitesRecorded() ? originOf(callee) : undefined;

setDefaults(ExtendedRequest);

/**
 * The constructor of requests. It shares the prototype of `ExtendedRequest`, whose own constructor
 * makes only the defaults, because `super()` costs too much (see `initialize`).
 * @this {any} @param {Backend} backend @param {string} name
 * @param {RequestOptions} options options that were checked to fit together
 * @param {number} [asked] see Watch
 */
function makeRequest(backend, name, options, asked) {
  initialize(this, backend, name, options);
  this.tokenLow = 0;
  this.tokenHigh = 0;
  if (options.reentrant && !options.steal) this.backend = reentrantBackend(backend, name);
  if (isWatched(options)) this.observer = new Watch(this, asked);
  if (rejectsDeadlocks(options)) setDeadlockDetection(this);
  if (((this.observer && needsOrigin(options)) || areSitesRecorded()) && !this.hasSite) {
    this.origin = originOf(Request);
  }
  if (options !== defaultOptions) this.label = options.label;
}

/**
 * If the backend cannot find deadlocks, the option is refused. The environment variable, which
 * concerns the whole program, then causes only a warning.
 * @param {ExtendedRequest} request
 */
function setDeadlockDetection(request) {
  if (request.backend.findsDeadlocks) request.inside = enclosingLocks();
  else if (request.options.deadlock) throw notSupportedError(NO_DEADLOCKS);
  else warnOfDeadlocks();
}

/**
 * `makeRequest` as a class: `class … extends Request` and `instanceof` work.
 * @type {new (backend: Backend, name: string, options: RequestOptions, asked?: number) =>
 *   ExtendedRequest}
 */
const Request = /** @type {any} */ (makeRequest);
/** @type {any} */ (Request).prototype = ExtendedRequest.prototype;

module.exports = { Request, originOfCall };
