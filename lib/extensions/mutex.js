'use strict';

/**
 * Locks as objects: the class that the article "JavaScriptでロックを実装する" builds step
 * by step, on this core, and its like for readers and writers.
 */

const { NamedLock } = require('./named-lock.js');
const { on } = require('./options.js');

/** @typedef {import('../backend/contract.js').LockMode} LockMode */

/** @typedef {import('../../types/shared.js').AcquireOptions} AcquireOptions */

/**
 * @param {string} operation for messages
 * @param {LockMode} mode
 * @returns {import('./named-lock.js').Call}
 */
const call = (operation, mode) => ({ operation, kind: 'mutex', fixed: { mode } });

/** For messages. */
const LOCKED = "'locked'";
const ACQUIRE = call(on('acquire', 'Mutex'), 'exclusive');
const RUN = call(on('runExclusive', 'Mutex'), 'exclusive');
/** @type {import('./named-lock.js').Call} */
const TRY = {
  operation: on('tryAcquire', 'Mutex'),
  kind: 'tryMutex',
  fixed: { mode: 'exclusive', ifAvailable: true },
};
/** @type {import('./named-lock.js').Call} */
const WAIT = {
  operation: on('waitForUnlock', 'Mutex'),
  kind: 'wait',
  fixed: { mode: 'exclusive' },
};
const ACQUIRE_SHARED = call(on('acquireShared', 'RWLock'), 'shared');
const ACQUIRE_EXCLUSIVE = call(on('acquireExclusive', 'RWLock'), 'exclusive');
const RUN_SHARED = call(on('runShared', 'RWLock'), 'shared');
const RUN_EXCLUSIVE = call(on('runExclusive', 'RWLock'), 'exclusive');

/**
 * A mutual exclusion lock. `new Mutex()` is private to those who have the object; `new Mutex(name)`
 * is the exclusive lock of that name, shared by all threads.
 */
class Mutex {
  #lock;

  /**
   * @param {string} [name] the resource name
   * @param {{ bucket?: any, locks?: any, label?: string }} [options]
   */
  constructor(name, options) {
    this.#lock = new NamedLock('mutex', name, options, "'new Mutex'");
  }

  /** @returns {boolean} whether somebody holds it */
  get locked() {
    return this.#lock.holders(LOCKED).length > 0;
  }

  /**
   * @param {AcquireOptions} [options]
   * @returns {Promise<import('./named-lock.js').Release | null>} the function that releases it;
   *   harmless to call twice. null if it said `ifAvailable` and it is not
   * @throws {import('./lock-errors.js').LockError} not acquired
   */
  acquire(options) {
    return this.#lock.acquire(options, ACQUIRE);
  }

  /** Like `acquire` with `ifAvailable`.
   * @param {any} [options] those that are not about waiting
   * @returns {Promise<import('./named-lock.js').Release | null>}
   */
  tryAcquire(options) {
    return this.#lock.acquire(options, TRY);
  }

  /**
   * Waits for its turn.
   * @param {any} [options]
   * @returns {Promise<void>}
   */
  async waitForUnlock(options) {
    await this.#lock.pass(options, WAIT);
  }

  /**
   * @param {(lock: any) => any} callback called with the lock, whose signal tells if it is lost;
   *   with null if it said `ifAvailable` and it is not
   * @param {AcquireOptions} [options]
   * @returns {Promise<any>} what the callback returned
   * @throws {import('./lock-errors.js').LockError} not acquired
   */
  runExclusive(callback, options) {
    return this.#lock.run(callback, options, RUN);
  }

  /**
   * Rejects the requests of this object that wait; the holder of the lock goes on.
   * @param {unknown} [reason] by default an AbortError
   */
  cancel(reason) {
    this.#lock.cancel(reason);
  }
}

/** A lock for readers, who share it, and writers, who do not. Otherwise as Mutex. */
class RWLock {
  #lock;

  /**
   * @param {string} [name] the resource name
   * @param {{ bucket?: any, locks?: any, label?: string }} [options]
   */
  constructor(name, options) {
    this.#lock = new NamedLock('RWLock', name, options, "'new RWLock'");
  }

  /** @returns {LockMode | null} how it is held, by whomever */
  get locked() {
    return this.#lock.holders(LOCKED)[0]?.mode ?? null;
  }

  /** @param {AcquireOptions} [options] */
  acquireShared(options) {
    return this.#lock.acquire(options, ACQUIRE_SHARED);
  }

  /** @param {AcquireOptions} [options] */
  acquireExclusive(options) {
    return this.#lock.acquire(options, ACQUIRE_EXCLUSIVE);
  }

  /**
   * @param {(lock: any) => any} callback called with the lock, whose signal tells if it is lost
   * @param {AcquireOptions} [options]
   */
  runShared(callback, options) {
    return this.#lock.run(callback, options, RUN_SHARED);
  }

  /**
   * @param {(lock: any) => any} callback called with the lock, whose signal tells if it is lost
   * @param {AcquireOptions} [options]
   */
  runExclusive(callback, options) {
    return this.#lock.run(callback, options, RUN_EXCLUSIVE);
  }

  /** @param {unknown} [reason] as for Mutex */
  cancel(reason) {
    this.#lock.cancel(reason);
  }
}

module.exports = { Mutex, RWLock };
