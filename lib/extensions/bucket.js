'use strict';

const { Promise, rejected, then } = require('../platform/intrinsics.js');
const { asyncDispose } = require('../platform/realm.js');
const { createLockManager } = require('./lock-manager.js');
const { close } = require('./reentrant-parent.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */

/**
 * A storage bucket that was opened (2.2, 6.1): a lock manager, in whatever scope its backend has.
 * Others who opened the same one are not touched by what is done here.
 */
class Bucket {
  #backend;
  /** @type {Promise<void> | undefined} */
  #ready;
  /** @type {Promise<void> | undefined} */
  #closed;

  /**
   * @param {string} name
   * @param {Backend} backend this bucket's alone
   */
  constructor(name, backend) {
    this.name = name;
    this.locks = createLockManager(backend);
    this.#backend = backend;
    Object.freeze(this);
  }

  /**
   * @returns {Promise<void>} resolves when it is open, rejects with why it could not be opened, or
   *   that it was closed. Reading it after that tries again. Requests wait for it by themselves
   */
  get ready() {
    const closed = this.#closed && this.#backend.closed;
    if (this.#ready && closed === undefined) return this.#ready;
    const ready =
      closed === undefined ? (this.#backend.ready ?? Promise.resolve()) : rejected(closed);
    this.#ready = ready;
    // If the user does not look at it, requests tell of the failure.
    then(ready, undefined, () => {
      this.#ready = undefined;
    });
    return ready;
  }

  /**
   * Gives back what is held through this bucket: those locks are lost. Pending and later requests
   * fail with an `InvalidStateError`.
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
