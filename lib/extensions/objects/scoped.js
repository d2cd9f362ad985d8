'use strict';

/** Makes the Mutex, RWLock and Semaphore of an entry whose named locks belong to a wider scope. */

const { typeError } = require('../../platform/errors.js');
const { Mutex, RWLock } = require('./mutex.js');
const { Semaphore } = require('./semaphore.js');

const { defineProperty } = Object;

/** @typedef {typeof import('../manager/lock-manager.js').LockManager} LockManager */

/**
 * `locks` is the lock manager of the default bucket, if there is one. `openBucket` is missing if a
 * bucket needs more than a name.
 * @typedef {{ locks?: InstanceType<LockManager>,
 *   openBucket?: (name: string) => { locks: any } }} Scope
 */

/**
 * @param {Scope} scope
 * @returns {{ Mutex: typeof Mutex, RWLock: typeof RWLock, Semaphore: typeof Semaphore }}
 */
function scopedLocks({ locks, openBucket }) {
  /**
   * Returns the options, with the scope if the lock has a name; throws if the scope is unknown.
   * @param {any} name @param {any} options @param {string} kind
   */
  const addScope = (name, options, kind) => {
    if (typeof name !== 'string') return options;
    const bucket = options?.bucket;
    if (typeof bucket === 'string' && openBucket) {
      return { ...options, bucket: openBucket(bucket) };
    }
    if (typeof bucket === 'object' || options?.locks !== undefined) return options;
    if (locks && bucket === undefined) return { ...options, locks };
    throw typeError(
      `'new ${kind}'`,
      "Pass 'locks' (a lock manager) or 'bucket' (the result of openBucket). Classes of this " +
        'module have no default lock manager, so a name alone would not be shared with other ' +
        'processes.',
    );
  };
  /** @param {any} Base @returns {any} */
  const scoped = (Base) => {
    const Scoped = class extends Base {
      /** @param {any} [name] @param {any} [options] */
      constructor(name, options) {
        super(name, addScope(name, options, Base.name));
      }
    };
    return defineProperty(Scoped, 'name', { value: Base.name, configurable: true });
  };
  return { Mutex: scoped(Mutex), RWLock: scoped(RWLock), Semaphore: scoped(Semaphore) };
}

module.exports = { scopedLocks };
