'use strict';

/**
 * Gives the entry of a wider scope its own Mutex, RWLock and Semaphore: by default, a lock with a
 * name belongs to that scope and not to the process.
 */

const { typeError } = require('../../platform/errors.js');
const { Mutex, RWLock } = require('./mutex.js');
const { Semaphore } = require('./semaphore.js');

const { defineProperty } = Object;

/** @typedef {typeof import('../manager/lock-manager.js').LockManager} LockManager */

/**
 * `locks` is the lock manager of the default bucket, if there is one. `openBucket` is set if a name
 * alone opens a bucket.
 * @typedef {{ locks?: InstanceType<LockManager>,
 *   openBucket?: (name: string) => { locks: any } }} Scope
 */

/**
 * @param {Scope} scope
 * @returns {{ Mutex: typeof Mutex, RWLock: typeof RWLock, Semaphore: typeof Semaphore }}
 */
function scopedLocks({ locks, openBucket }) {
  /** @param {any} name @param {any} options @param {string} kind */
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
