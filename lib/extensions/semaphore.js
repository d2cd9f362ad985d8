'use strict';

/** Semaphores as objects: shared locks of one name with a limit. */

const { typeError } = require('../platform/errors.js');
const { NamedLock } = require('./named-lock.js');
const { on, toCount } = require('./options.js');

/** @typedef {import('./named-lock.js').Release} Release */

const NEW = "'new Semaphore'";
const RESIZE = on('resize', 'Semaphore');
const PERMITS = 'The number of permits';

/**
 * @param {string} method
 * @returns {import('./named-lock.js').Call}
 */
const call = (method) => ({
  operation: on(method, 'Semaphore'),
  kind: 'semaphore',
  fixed: { mode: 'shared' },
});

const ACQUIRE = call('acquire');
const RUN = call('run');
/** @type {import('./named-lock.js').Call} */
const TRY = {
  operation: on('tryAcquire', 'Semaphore'),
  kind: 'trySemaphore',
  fixed: { mode: 'shared', ifAvailable: true },
};

/**
 * A number of units, of which each user takes some for a while. `new Semaphore(permits)` is private
 * to those who have the object; `new Semaphore(name, { permits })` is made of shared locks of that
 * name with this limit, by all threads. The first request in the queue is served first, also if it
 * wants more units than those behind it.
 */
class Semaphore {
  #lock;

  /**
   * @param {string | number} name the resource name, or the units of a private one
   * @param {{ permits?: number, bucket?: any, locks?: any, label?: string }} [options] the units of
   *   a named one; and as for Mutex
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

  /** @returns {number} units that nobody holds; those who wait may be before you */
  get available() {
    const holders = this.#lock.holders("'available'");
    let units = /** @type {number} */ (this.#lock.limit);
    for (let i = 0; i < holders.length; i++) {
      if (holders[i].mode === 'exclusive') return 0;
      units -= holders[i].weight;
    }
    // A lock that has another limit may be more than these.
    return Math.max(units, 0);
  }

  /** @returns {number} requests that wait for units, of all threads */
  get pending() {
    return this.#lock.pending("'pending'");
  }

  /**
   * @param {any} [options] `weight`: how many units, by default 1; and those of Mutex
   * @returns {Promise<Release | null>} the function that gives them back; harmless to call twice.
   *   null if it said `ifAvailable`, and there are not so many units, or others wait
   * @throws {import('./lock-errors.js').LockError} not acquired
   */
  acquire(options) {
    return this.#lock.acquire(options, ACQUIRE);
  }

  /** Like `acquire` with `ifAvailable`.
   * @param {any} [options] `weight`; and those of Mutex but what is about waiting
   * @returns {Promise<Release | null>}
   */
  tryAcquire(options) {
    return this.#lock.acquire(options, TRY);
  }

  /**
   * @param {(lock: any) => any} callback called with the lock, whose signal tells if it is lost;
   *   with null if it said `ifAvailable` and there is none
   * @param {any} [options] as for `acquire`
   * @returns {Promise<any>} what the callback returned, after the units were given back
   * @throws {import('./lock-errors.js').LockError} not acquired
   */
  run(callback, options) {
    return this.#lock.run(callback, options, RUN);
  }

  /**
   * Changes the number of units of a private one. Holders and waiters are served as before; later
   * requests come after them, with the new number.
   * @param {number} permits
   * @returns {Promise<void>} when it is so
   * @throws {unknown} nothing is changed
   */
  async resize(permits) {
    await this.#lock.resize(toPermits(permits, RESIZE), RESIZE);
  }

  /**
   * Rejects the requests of this object that wait; those who hold units go on.
   * @param {unknown} [reason] by default an AbortError
   */
  cancel(reason) {
    this.#lock.cancel(reason);
  }
}

/**
 * @param {any} value
 * @param {string} operation for the message
 * @returns {number}
 */
function toPermits(value, operation) {
  const permits = toCount(value, 1, operation, PERMITS);
  if (permits === undefined) throw typeError(operation, `${PERMITS} is missing.`);
  return permits;
}

module.exports = { Semaphore };
