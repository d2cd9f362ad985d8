'use strict';

const { ENDED, GRANTED, LockRequest, PENDING, STOLEN } = require('../standard/lock-request.js');
const {
  callInside,
  countsInside,
  locksInside,
  rejectsDeadlocks,
  servedBy,
} = require('./inside.js');
const {
  DeadlockError,
  LockQueueFullError,
  LockStolenError,
  describeLimit,
  holdTimeoutError,
  waitTimeoutError,
} = require('./lock-errors.js');
const { defaultOptions } = require('./options.js');
const { inTheirStack, originOf, withLongStack, withOrigin } = require('./origin.js');
const { outermost } = require('./outer-lock.js');
const { Watch, isWatched } = require('./watch.js');
const { theLock } = require('../platform/names.js');

/** @typedef {import('./options.js').RequestOptions} RequestOptions */

/** Who takes a lock away that was held too long, in place of a client id. */
const TIME = '';

/**
 * A lock request with what is not of the specification: time limits, labels, warnings and channels,
 * deadlocks, reentrancy, errors that tell more.
 */
class Request extends LockRequest {
  /** The halves of the token, as small integers. */
  tokenLow = 0;
  tokenHigh = 0;

  /**
   * @param {import('../backend/contract.js').Backend} backend
   * @param {string} name the resource name
   * @param {Readonly<RequestOptions>} options valid together
   * @param {number} [asked] see Watch
   */
  constructor(backend, name, options, asked) {
    super(options.reentrant && !options.steal ? servedBy(backend, name) : backend, name, options);
    if (isWatched(options)) this.observer = new Watch(this, asked);
    if (rejectsDeadlocks(options)) this.inside = locksInside();
    if (options === defaultOptions) return;
    this.label = options.label;
    if (isLimited(options)) this.origin = originOf(Request);
    /** @type {InstanceType<typeof import('./outer-lock.js').Served> | undefined} */
    this.served = undefined;
  }

  /** @override @returns {import('../backend/contract.js').Disposition} */
  get disposition() {
    return this.options.timeout === 0 ? 'ifAvailable' : super.disposition;
  }

  /** Whether a backend has to look at more than the specification's options. */
  get asksForMore() {
    const { options } = this;
    return (
      this.inside !== undefined ||
      options.label !== undefined ||
      options.limit !== undefined ||
      options.maxPending !== undefined
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

  /**
   * @override
   * @param {number} [tokenLow]
   * @param {number} [tokenHigh]
   */
  granted(tokenLow = 0, tokenHigh = 0) {
    super.granted();
    this.tokenLow = tokenLow | 0;
    this.tokenHigh = tokenHigh | 0;
    this.observer?.noteGrant();
  }

  /** @returns {bigint} once granted */
  get token() {
    const high = this.tokenHigh >>> 0;
    const low = this.tokenLow >>> 0;
    return (BigInt(high) << 32n) | BigInt(low);
  }

  /** @override */
  unavailable() {
    if (this.options.timeout === 0) this.failed(this.timeoutError());
    else super.unavailable();
  }

  /** @param {number} limit that the name has; 0 for none */
  otherLimit(limit) {
    this.failed(
      new TypeError(
        `A request for ${theLock(this.name)} has ${describeLimit(this.limit)}, but those ` +
          `who hold it or wait for it have ${describeLimit(limit)}.`,
      ),
    );
  }

  queueFull() {
    this.failed(new LockQueueFullError(this.name, this.maxPending));
  }

  /** @param {import('../backend/contract.js').CycleEntry[]} cycle */
  deadlocked(cycle) {
    this.failed(new DeadlockError(this.name, cycle));
  }

  /** The time limit of the request is reached. */
  timedOut() {
    if (this.state !== PENDING || !this.leave()) return;
    this.fail(this.timeoutError());
    this.backend.tell();
  }

  timeoutError() {
    const waited = this.observer?.waited() ?? 0;
    const error = waitTimeoutError(this.name, waited, this.backend.holders(this.name));
    return withOrigin(error, this.origin);
  }

  /** The limit on holding is reached: the lock is released, and then lost as by a steal. */
  async heldTooLong() {
    if (this.state !== GRANTED) return;
    const released = super.release();
    if (released) await released;
    // It may turn out to have been stolen before.
    if (/** @type {number} */ (this.state) === ENDED) {
      this.stolen(TIME);
      this.lose(false);
    }
    this.backend.tell();
  }

  /** @override @param {string} thief client id */
  stolen(thief) {
    super.stolen(thief);
    const { served } = this;
    for (let i = 0; served && i < served.requests.length; i++) {
      if (served.requests[i].held) served.requests[i].stolen(thief);
    }
  }

  /** @override @param {boolean} fromEvents */
  lose(fromEvents) {
    if (fromEvents && this.reject && !this.origin) inTheirStack(this, () => super.lose(fromEvents));
    else super.lose(fromEvents);
    if (this.served) this.#loseServed(this.served, fromEvents);
  }

  /**
   * What this lock serves is lost with it.
   * @param {InstanceType<typeof import('./outer-lock.js').Served>} served
   * @param {boolean} fromEvents
   */
  #loseServed(served, fromEvents) {
    const { requests } = served;
    for (; requests.length > 0; requests.length--) {
      const last = requests[requests.length - 1];
      if (last.state === STOLEN) last.lose(fromEvents);
    }
    served.end?.();
  }

  /** @override @param {string} thief client id */
  lossError(thief) {
    const outer = outermost(this);
    if (outer !== this && outer.state === STOLEN) return outer.lossReason();
    const error =
      thief === TIME
        ? this.#holdError()
        : withLongStack(() => new LockStolenError(this.name, thief));
    return withOrigin(error, this.origin);
  }

  #holdError() {
    const { name, observer } = this;
    const { holdTimeout = 0 } = this.options;
    return holdTimeoutError(name, observer.waited(), observer.held(), holdTimeout);
  }

  /**
   * @override
   * @param {(lock: any) => any} callback
   * @param {any} lock
   */
  call(callback, lock) {
    return countsInside(this.options) ? callInside([this], callback, lock) : callback(lock);
  }

  /**
   * Not before the requests that it serves have ended.
   * @override
   * @returns {Promise<void> | void}
   */
  release() {
    const { served } = this;
    if (served === undefined || served.requests.length === 0 || this.state !== GRANTED) {
      return super.release();
    }
    served.isAwaited = true;
    return served.ended;
  }

  /** @override */
  use() {
    // Of a chain of requests, each made inside of the one before, none keeps the other.
    if (this.inside) this.inside = undefined;
    return super.use();
  }
}

/** @param {Readonly<RequestOptions>} options */
const isLimited = (options) => options.timeout !== undefined || options.holdTimeout !== undefined;

// Most requests have none of it, and no room for it.

/** @type {string | undefined} */
Request.prototype.label = undefined;
/** Locks that wait for this request, if it rejects deadlocks. @type {Request[] | undefined} */
Request.prototype.inside = undefined;
/**
 * Where it was made, kept for an error only if a time limit may lead to one.
 * @type {import('./origin.js').Origin | undefined}
 */
Request.prototype.origin = undefined;
Request.prototype.served = undefined;

module.exports = { Request };
