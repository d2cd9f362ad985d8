'use strict';

/** Locks as objects, such as the one that the article "JavaScriptでロックを実装する" builds. */

const { NamedLock } = require('./named-lock.js');
const { operationName } = require('../options.js');

/** @import { LockMode } from '../../backend/contract.js' */
/** @import { AcquireOptions } from '../../../types/shared.js' */
/** @import { Call, Release } from './named-lock.js' */
/** @typedef {InstanceType<typeof import('../errors/lock-errors.js').LockError>} LockError */

/** @param {string} operation @param {LockMode} mode @returns {Call} */
const call = (operation, mode) => ({ operation, kind: 'mutex', fixed: { mode } });

const LOCKED = "'locked'";
const ACQUIRE = call(operationName('acquire', 'Mutex'), 'exclusive');
const RUN = call(operationName('runExclusive', 'Mutex'), 'exclusive');
/** @type {Call} */
const TRY = {
  operation: operationName('tryAcquire', 'Mutex'),
  kind: 'tryMutex',
  fixed: { mode: 'exclusive', ifAvailable: true },
};
/** @type {Call} */
const WAIT = {
  operation: operationName('waitForUnlock', 'Mutex'),
  kind: 'wait',
  fixed: { mode: 'exclusive' },
};
const ACQUIRE_SHARED = call(operationName('acquireShared', 'RWLock'), 'shared');
const ACQUIRE_EXCLUSIVE = call(operationName('acquireExclusive', 'RWLock'), 'exclusive');
const RUN_SHARED = call(operationName('runShared', 'RWLock'), 'shared');
const RUN_EXCLUSIVE = call(operationName('runExclusive', 'RWLock'), 'exclusive');

/** `new Mutex()` is private to its object; `new Mutex(name)` is the exclusive lock of that name. */
class Mutex {
  #lock;

  /** @param {string} [name] @param {{ bucket?: any, locks?: any, label?: string }} [options] */
  constructor(name, options) {
    this.#lock = new NamedLock('mutex', name, options, "'new Mutex'");
  }

  /** @throws {DOMException} if only a server or another process could answer */
  get locked() {
    return this.#lock.holders(LOCKED).length > 0;
  }

  /**
   * @param {AcquireOptions} [options]
   * @returns {Promise<Release | null>} null if `ifAvailable` is true and the lock is unavailable
   * @throws {LockError} if the lock was not acquired
   */
  acquire(options) {
    return this.#lock.acquire(options, ACQUIRE);
  }

  /** Never waits. @param {any} [options] @returns {Promise<Release | null>} */
  tryAcquire(options) {
    return this.#lock.acquire(options, TRY);
  }

  /** Waits until a new request would be granted, but takes no lock. @param {any} [options] */
  async waitForUnlock(options) {
    await this.#lock.waitForTurn(options, WAIT);
  }

  /**
   * @param {(lock: any) => any} callback receives null if `ifAvailable` is true and the lock is
   *   unavailable
   * @param {AcquireOptions} [options]
   * @returns {Promise<any>} the result of the callback
   * @throws {LockError} if the lock was not acquired or was lost
   */
  runExclusive(callback, options) {
    return this.#lock.run(callback, options, RUN);
  }

  /** Rejects this object's waiting requests. @param {unknown} [reason] by default an AbortError */
  cancel(reason) {
    this.#lock.cancel(reason);
  }
}

/** A lock that readers share and that a writer holds alone. Otherwise it is like Mutex. */
class RWLock {
  #lock;

  /** @param {string} [name] @param {{ bucket?: any, locks?: any, label?: string }} [options] */
  constructor(name, options) {
    this.#lock = new NamedLock('RWLock', name, options, "'new RWLock'");
  }

  /**
   * @returns {LockMode | null} the mode in which the lock is held; null if nobody holds it
   * @throws {DOMException} if only a server or another process could answer
   */
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

  /** @param {(lock: any) => any} callback @param {AcquireOptions} [options] */
  runShared(callback, options) {
    return this.#lock.run(callback, options, RUN_SHARED);
  }

  /** @param {(lock: any) => any} callback @param {AcquireOptions} [options] */
  runExclusive(callback, options) {
    return this.#lock.run(callback, options, RUN_EXCLUSIVE);
  }

  /** @param {unknown} [reason] by default an AbortError */
  cancel(reason) {
    this.#lock.cancel(reason);
  }
}

module.exports = { Mutex, RWLock };
