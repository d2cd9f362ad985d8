'use strict';

/**
 * The promise that a session is open. It rejects if the server refuses, or if that takes too long.
 * There is another promise for each time that the session is not open and somebody asks.
 */

const { Promise, then } = require('../../platform/intrinsics.js');

class Readiness {
  /** @type {Promise<void>} */
  promise = Promise.resolve();
  /** Whether it can still settle. */
  isAwaited = false;
  /** Whether it was ever open. */
  isReached = false;
  /** Until when it is waited for. */
  by = 0;
  /** @type {() => void} */
  #resolve = () => {};
  /** @type {(error: unknown) => void} */
  #reject = () => {};

  /** @param {number} by until when it is waited for */
  begin(by) {
    this.isAwaited = true;
    this.by = by;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = /** @type {() => void} */ (resolve);
      this.#reject = reject;
    });
    // Whoever does not ask is not told.
    then(this.promise, undefined, () => {});
  }

  reached() {
    this.isReached = true;
    if (this.isAwaited) this.#resolve();
    else this.promise = Promise.resolve();
    this.isAwaited = false;
  }

  /** @param {unknown} error why it is not, or was not in time */
  failed(error) {
    this.isAwaited = false;
    this.#reject(error);
  }
}

module.exports = { Readiness };
