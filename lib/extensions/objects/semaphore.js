'use strict';

/** Semaphores as objects: shared locks of one name with a limit. */

const { typeError } = require('../../platform/errors.js');
const { NamedLock } = require('./named-lock.js');
const { operationName, toCount } = require('../options.js');

/** @import { Release } from './named-lock.js' */

const NEW = "'new Semaphore'";
const RESIZE = operationName('resize', 'Semaphore');
const PERMITS = 'The number of permits';

/** @param {string} method @returns {import('./named-lock.js').Call} */
const call = (method) => ({
  operation: operationName(method, 'Semaphore'),
  kind: 'semaphore',
  fixed: { mode: 'shared' },
});

const ACQUIRE = call('acquire');
const RUN = call('run');
/** @type {import('./named-lock.js').Call} */
const TRY = {
  operation: operationName('tryAcquire', 'Semaphore'),
  kind: 'trySemaphore',
  fixed: { mode: 'shared', ifAvailable: true },
};

/**
 * A number of units, of which each user takes some for a while. `new Semaphore(permits)` is private
 * to its object; `new Semaphore(name, { permits })` consists of shared locks of that name, which
 * all threads share. The first request in the queue is always served first, even if it wants more
 * units than later requests.
 */
class Semaphore {
  #lock;

  /**
   * @param {string | number} name the name, or the number of units of a private semaphore
   * @param {{ permits?: number, bucket?: any, locks?: any, label?: string }} [options] options;
   *   `permits` is the number of units of a named semaphore
   */
  constructor(name, options) {
    const isPrivate = typeof name === 'number';
    const given = isPrivate ? name : options?.permits;
    const permits = toPermits(given, NEW);
    const more = isPrivate ? [] : ['permits'];
    if (name === undefined) throw typeError(NEW, 'The name is missing.');
    const lockName = isPrivate ? undefined : name;
    this.#lock = new NamedLock('semaphore', lockName, options, NEW, more, permits);
  }

  /**
   * The number of units that nobody holds. Requests that wait already may be granted them first.
   */
  get available() {
    const holders = this.#lock.holders("'available'");
    let units = /** @type {number} */ (this.#lock.limit);
    for (let i = 0; i < holders.length; i++) {
      if (holders[i].mode === 'exclusive') return 0;
      units -= holders[i].weight;
    }
    // A lock that was granted with another limit may weigh more than all units.
    return Math.max(units, 0);
  }

  /** The number of requests that wait for units, in all threads. */
  get pending() {
    return this.#lock.pending("'pending'");
  }

  /**
   * @param {any} [options] `weight`: how many units, by default 1; and the options of Mutex
   * @returns {Promise<Release | null>} gives the units back; null if `ifAvailable` was given, and
   *   too few units are free or requests wait
   * @throws {import('../errors/lock-errors.js').LockError} if the units were not acquired
   */
  acquire(options) {
    return this.#lock.acquire(options, ACQUIRE);
  }

  /** Never waits. @param {any} [options] @returns {Promise<Release | null>} */
  tryAcquire(options) {
    return this.#lock.acquire(options, TRY);
  }

  /**
   * @param {(lock: any) => any} callback receives the lock, whose signal aborts if it is lost; or
   *   null if `ifAvailable` was given and the lock is not available
   * @param {any} [options] as for `acquire`
   * @returns {Promise<any>} the result of the callback, after the units were given back
   * @throws {import('../errors/lock-errors.js').LockError} if the units were not acquired
   */
  run(callback, options) {
    return this.#lock.run(callback, options, RUN);
  }

  /**
   * Changes the number of units of a private semaphore. Holders and waiters are served as before;
   * later requests come after them, with the new number.
   * @param {number} permits
   * @returns {Promise<void>} resolves when the new number applies
   * @throws {unknown} if the semaphore could not be resized; it is unchanged then
   */
  async resize(permits) {
    await this.#lock.resize(toPermits(permits, RESIZE), RESIZE);
  }

  /**
   * Rejects the waiting requests of this object; holders continue.
   * @param {unknown} [reason] by default an AbortError
   */
  cancel(reason) {
    this.#lock.cancel(reason);
  }
}

/** @param {any} value @param {string} operation */
function toPermits(value, operation) {
  const permits = toCount(value, 1, operation, PERMITS);
  if (permits === undefined) throw typeError(operation, `${PERMITS} is missing.`);
  return permits;
}

module.exports = { Semaphore };
