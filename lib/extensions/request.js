'use strict';

const { LockRequest, PENDING } = require('../standard/lock-request.js');
const { callInside, locksInside } = require('./inside.js');
const { DeadlockError, LockStolenError, LockTimeoutError } = require('./lock-errors.js');
const { defaultOptions } = require('./options.js');
const { inTheirStack, originOf, withOrigin } = require('./origin.js');
const { Watch, isWatched } = require('./watch.js');

/** @typedef {import('./options.js').RequestOptions} RequestOptions */

/**
 * A lock request with what is not of the specification: time limits, labels, warnings and channels,
 * deadlocks, errors that tell more.
 */
class Request extends LockRequest {
  /**
   * @param {import('../backend/contract.js').Backend} backend
   * @param {string} name the resource name
   * @param {Readonly<RequestOptions>} options valid together
   * @param {number} [asked] see Watch
   */
  constructor(backend, name, options, asked) {
    super(backend, name, options);
    if (isWatched(options)) this.observer = new Watch(this, asked);
    if (options === defaultOptions) return;
    this.label = options.label;
    if (options.deadlock) this.inside = locksInside();
    if (options.timeout !== undefined) this.origin = originOf(Request);
  }

  /** @override @returns {import('../backend/contract.js').Disposition} */
  get disposition() {
    return this.options.timeout === 0 ? 'ifAvailable' : super.disposition;
  }

  /** @override */
  granted() {
    super.granted();
    this.observer?.noteGrant();
  }

  /** @override */
  unavailable() {
    if (this.options.timeout === 0) this.failed(this.timeoutError());
    else super.unavailable();
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
    if (this.inside) this.inside = undefined;
    return super.use();
  }
}

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

module.exports = { Request };
