'use strict';

const { Promise, rejected, then } = require('../platform/intrinsics.js');
const { asyncDispose } = require('../platform/realm.js');
const { createLockManager } = require('./lock-manager.js');
const { close } = require('./reentrant-parent.js');

/** @import { Backend } from '../backend/contract.js' */

/**
 * A storage bucket that was opened (2.2, 6.1): a lock manager, in the scope of its backend. Other
 * handles of the same bucket are independent of this one.
 */
class Bucket {
  #backend;
  /** @type {Promise<void> | undefined} */
  #ready;
  /** @type {Promise<void> | undefined} */
  #closed;

  /** @param {string} name @param {Backend} backend belongs to this handle alone */
  constructor(name, backend) {
    this.name = name;
    this.locks = createLockManager(backend);
    this.#backend = backend;
    Object.freeze(this);
  }

  /**
   * Resolves when the bucket is open; rejects if it cannot be opened, or was closed. Reading it
   * after that tries again. Requests wait for it by themselves.
   * @returns {Promise<void>}
   */
  get ready() {
    const closed = this.#closed && this.#backend.closed;
    if (this.#ready && closed === undefined) return this.#ready;
    const ready =
      closed === undefined ? (this.#backend.ready ?? Promise.resolve()) : rejected(closed);
    this.#ready = ready;
    // If the user does not read `ready`, the requests report the failure.
    then(ready, undefined, () => {
      this.#ready = undefined;
    });
    return ready;
  }

  /**
   * Gives back the locks held through this handle, which are lost. Pending and later requests fail
   * with an `InvalidStateError`.
   * @returns {Promise<void>} resolves when that is done
   */
  close() {
    this.#closed ??= close(this.#backend);
    return this.#closed;
  }

  [asyncDispose]() {
    return this.close();
  }
}

module.exports = { Bucket };
