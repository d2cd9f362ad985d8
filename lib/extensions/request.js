'use strict';

const { then } = require('../platform/intrinsics.js');
const { LockRequest, PENDING } = require('../standard/lock-request.js');
const { callInside, locksInside } = require('./inside.js');
const { DeadlockError, LockStolenError, LockTimeoutError } = require('./lock-errors.js');
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
    /** Locks that wait for this request, if it rejects deadlocks. */
    this.inside = options.deadlock ? locksInside() : undefined;
    this.label = options.label;
    if (isWatched(options)) this.observer = new Watch(this, asked);
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
    inTheirStack(this, () => this.fail(this.timeoutError()));
    this.backend.tell();
  }

  timeoutError() {
    const waited = this.observer?.waited() ?? 0;
    return new LockTimeoutError(this.name, waited, this.backend.holders(this.name));
  }

  /** @override @param {boolean} fromEvents */
  lose(fromEvents) {
    if (fromEvents && this.reject) inTheirStack(this, () => super.lose(fromEvents));
    else super.lose(fromEvents);
  }

  /** @override @param {string} thief client id */
  lossError(thief) {
    return new LockStolenError(this.name, thief);
  }

  /**
   * @override
   * @param {(lock: any) => any} callback
   * @param {any} lock
   */
  call(callback, lock) {
    return this.inside ? callInside([this], callback, lock) : callback(lock);
  }
}

/**
 * Rejects the promise of a request with an error that is made where its stack has those who wait
 * for that promise: in an async function whose own promise leads to it.
 * @param {Request} request
 * @param {() => void} tell makes the error and rejects; before that nothing settles the promise
 */
function inTheirStack({ resolve, reject }, tell) {
  // Nothing but the engine looks at this reaction: the promise is settled by then.
  then(inMicrotask(tell), resolve, reject);
}

/** @param {() => void} tell */
async function inMicrotask(tell) {
  await undefined;
  tell();
}

module.exports = { Request };
