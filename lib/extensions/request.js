'use strict';

const { LockRequest, PENDING } = require('../standard/lock-request.js');
const { callInside, locksInside } = require('./inside.js');
const {
  DeadlockError,
  LockQueueFullError,
  LockStolenError,
  LockTimeoutError,
  describeLimit,
} = require('./lock-errors.js');
const { inTheirStack, originOf, withOrigin } = require('./origin.js');
const { Watch, isWatched } = require('./watch.js');
const { quote } = require('../platform/errors.js');

/** @typedef {import('./options.js').RequestOptions} RequestOptions */

/**
 * A lock request with what is not of the specification: time limits, labels, warnings and channels,
 * deadlocks, errors that tell more.
 */
class Request extends LockRequest {
  /** The halves of the token, as small integers. */
  #tokenLow = 0;
  #tokenHigh = 0;

  /**
   * @param {import('../backend/contract.js').Backend} backend
   * @param {string} name the resource name
   * @param {Readonly<RequestOptions>} options valid together
   * @param {number} [asked] see Watch
   */
  constructor(backend, name, options, asked) {
    super(backend, name, options);
    /** Locks that wait for this request, if it rejects deadlocks. */
    this.inside = options.deadlock ? locksInside() : undefined;
    this.label = options.label;
    if (isWatched(options)) this.observer = new Watch(this, asked);
    /** Where it was made, kept for an error only if a time limit may lead to one. */
    this.origin = options.timeout === undefined ? undefined : originOf(Request);
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
    this.#tokenLow = tokenLow | 0;
    this.#tokenHigh = tokenHigh | 0;
    this.observer?.noteGrant();
  }

  /** @returns {bigint} once granted */
  get token() {
    const high = this.#tokenHigh >>> 0;
    const low = this.#tokenLow >>> 0;
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
        `A request for the lock ${quote(this.name)} has ${describeLimit(this.limit)}, but those ` +
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
    const error = new LockTimeoutError(this.name, waited, this.backend.holders(this.name));
    return withOrigin(error, this.origin);
  }

  /** @override @param {boolean} fromEvents */
  lose(fromEvents) {
    if (fromEvents && this.reject && !this.origin) inTheirStack(this, () => super.lose(fromEvents));
    else super.lose(fromEvents);
  }

  /** @override @param {string} thief client id */
  lossError(thief) {
    return withOrigin(new LockStolenError(this.name, thief), this.origin);
  }

  /**
   * @override
   * @param {(lock: any) => any} callback
   * @param {any} lock
   */
  call(callback, lock) {
    return this.options.deadlock ? callInside([this], callback, lock) : callback(lock);
  }

  /** @override */
  use() {
    // Of a chain of requests, each made inside of the one before, none keeps the other.
    this.inside = undefined;
    return super.use();
  }
}

module.exports = { Request };
