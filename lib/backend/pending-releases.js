'use strict';

const { Promise, uncurry } = require('../platform/intrinsics.js');

/** @import { Requester } from './contract.js' */

/** @type {(map: any, key: any) => any} */
const getFrom = uncurry(Map.prototype.get);
const setIn = uncurry(Map.prototype.set);
const deleteFrom = uncurry(Map.prototype.delete);

/**
 * The locks of a bucket of the addon whose release is under way, with the functions that resolve
 * the releases' promises. (A cluster's releases are in cluster/session/request-table.js.)
 */
class PendingReleases {
  /** Made by the first deferred release. @type {Map<Requester, () => void> | undefined} */
  #resolves;

  /** Makes the promise of a release. @param {Requester} lock @returns {Promise<void>} */
  add(lock) {
    this.#resolves ??= new Map();
    let resolve = () => {};
    /** @type {Promise<void>} */
    const released = new Promise((settle) => {
      resolve = () => settle(undefined);
    });
    // Inside the promise's constructor, an exception of this call would be swallowed.
    setIn(this.#resolves, lock, resolve);
    return released;
  }

  /** @param {Requester} lock @returns {(() => void) | undefined} */
  resolverOf(lock) {
    return this.#resolves && getFrom(this.#resolves, lock);
  }

  /** @param {Requester} lock */
  forget(lock) {
    if (this.#resolves) deleteFrom(this.#resolves, lock);
  }

  /** Call this once the lock is released or lost. @param {Requester} lock */
  resolve(lock) {
    this.resolverOf(lock)?.();
    this.forget(lock);
  }
}

module.exports = { PendingReleases };
