'use strict';

/** Semaphores as objects: shared locks of one name with a limit. */

const { typeError } = require('../../platform/errors.js');
const { NamedLock } = require('./named-lock.js');
const { operationName, toCount } = require('../options.js');

/** @import { Call, Release } from './named-lock.js' */
/** @typedef {InstanceType<typeof import('../errors/lock-errors.js').LockError>} LockError */

const NEW = "'new Semaphore'";
const RESIZE = operationName('resize', 'Semaphore');
const PERMITS = 'The number of permits';

/** @param {string} method @returns {Call} */
const call = (method) => ({
  operation: operationName(method, 'Semaphore'),
  kind: 'semaphore',
  fixed: { mode: 'shared' },
});

const ACQUIRE = call('acquire');
const RUN = call('run');
/** @type {Call} */
const TRY = {
  operation: operationName('tryAcquire', 'Semaphore'),
  kind: 'trySemaphore',
  fixed: { mode: 'shared', ifAvailable: true },
};

/**
 * `new Semaphore(permits)` is private to its object; `new Semaphore(name, { permits })` takes
 * shared locks of that name. A request is not overtaken by later ones that need fewer units.
 */
class Semaphore {
  #lock;

  /**
   * @param {string | number} name the number of units, for a private semaphore
   * @param {{ permits?: number, bucket?: any, locks?: any, label?: string }} [options]
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
   * The number of units that nobody holds. Requests that already wait may get them first.
   * @throws {DOMException} if only a server or another process could answer
   */
  get available() {
    const holders = this.#lock.holders("'available'");
    let units = /** @type {number} */ (this.#lock.limit);
    for (let i = 0; i < holders.length; i++) {
      if (holders[i].mode === 'exclusive') return 0;
      units -= holders[i].weight;
    }
    // Locks that were granted under another limit may hold more units than this semaphore has.
    return Math.max(units, 0);
  }

  /**
   * @returns {number} how many requests wait
   * @throws {DOMException} if only a server or another process could answer
   */
  get pending() {
    return this.#lock.pending("'pending'");
  }

  /**
   * @param {any} [options] `weight` (the number of units, by default 1), and the options of Mutex
   * @returns {Promise<Release | null>} null if `ifAvailable` is true, and too few units are free or
   *   other requests wait
   * @throws {LockError} if the units were not acquired
   */
  acquire(options) {
    return this.#lock.acquire(options, ACQUIRE);
  }

  /** Never waits. @param {any} [options] @returns {Promise<Release | null>} */
  tryAcquire(options) {
    return this.#lock.acquire(options, TRY);
  }

  /**
   * @param {(lock: any) => any} callback receives null where `acquire` would return null
   * @param {any} [options] as for `acquire`
   * @returns {Promise<any>} the result of the callback, after the units were given back
   * @throws {LockError} if the units were not acquired or were lost
   */
  run(callback, options) {
    return this.#lock.run(callback, options, RUN);
  }

  /**
   * Changes the number of units of a private semaphore for later requests, which are granted after
   * all earlier ones have ended.
   * @param {number} permits
   * @returns {Promise<void>} resolves when the new number applies
   * @throws {unknown} if the semaphore could not be resized; it is unchanged then
   */
  async resize(permits) {
    await this.#lock.resize(toPermits(permits, RESIZE), RESIZE);
  }

  /** @param {unknown} [reason] by default an AbortError */
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
