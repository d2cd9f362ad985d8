'use strict';

const { uncurry } = require('../platform/intrinsics.js');

/** @import { Requester } from './contract.js' */

const getFrom = uncurry(Map.prototype.get);
const setIn = uncurry(Map.prototype.set);
const deleteFrom = uncurry(Map.prototype.delete);

/**
 * The locks of the host scope whose release is under way, with the functions that resolve the
 * releases' promises.
 */
class PendingReleases {
  /** @type {Map<Requester, () => void>} */
  #resolves = new Map();

  /** @param {Requester} lock @param {() => void} resolve */
  add(lock, resolve) {
    setIn(this.#resolves, lock, resolve);
  }

  /** @param {Requester} lock @returns {(() => void) | undefined} */
  resolverOf(lock) {
    return getFrom(this.#resolves, lock);
  }

  /** @param {Requester} lock */
  forget(lock) {
    deleteFrom(this.#resolves, lock);
  }
}

module.exports = { PendingReleases };
