'use strict';

const { Promise, rejected, then } = require('../../platform/intrinsics.js');
const { asyncDispose } = require('../../platform/realm.js');
const { createLockManager } = require('../manager/lock-manager.js');
const { close } = require('../reentrancy/reentrant-parent.js');

/** @import { Backend } from '../../backend/contract.js' */

/** For messages. */
const OPEN_BUCKET = "'openBucket'";

/**
 * A handle of an open storage bucket (sections 2.2 and 6.1 of the specification). Handles of the
 * same bucket are independent of each other.
 */
class Bucket {
  #backend;
  /** @type {Promise<void> | undefined} */
  #ready;
  /** @type {Promise<void> | undefined} */
  #closed;

  /** @param {string} name @param {Backend} backend must belong to this handle alone */
  constructor(name, backend) {
    this.name = name;
    this.locks = createLockManager(backend);
    this.#backend = backend;
    Object.freeze(this);
  }

  /**
   * Resolves when the bucket is open; rejects if the bucket cannot be opened or was closed. Reading
   * this property after a failure starts another attempt. Requests need not wait for this promise.
   * @returns {Promise<void>}
   */
  get ready() {
    const closed = this.#closed && this.#backend.closed;
    if (this.#ready && closed === undefined) return this.#ready;
    const ready =
      closed === undefined ? (this.#backend.ready ?? Promise.resolve()) : rejected(closed);
    this.#ready = ready;
    // The requests report the failure, too, so this rejection must not count as unhandled.
    then(ready, undefined, () => {
      this.#ready = undefined;
    });
    return ready;
  }

  /**
   * Releases the locks held through this handle, which count as lost. Pending and later requests
   * fail with an `InvalidStateError`.
   * @returns {Promise<void>} resolves when the bucket is closed
   */
  close() {
    this.#closed ??= close(this.#backend);
    return this.#closed;
  }

  [asyncDispose]() {
    return this.close();
  }
}

module.exports = { Bucket, OPEN_BUCKET };
