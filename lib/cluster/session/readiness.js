'use strict';

/**
 * The promise that resolves when the session is open. It rejects if the server refuses, or if the
 * session does not open in time. When a user reads `ready` after that, a new promise is made.
 */

const { Promise, then } = require('../../platform/intrinsics.js');

class Readiness {
  promise = Promise.resolve();
  /** Whether the promise can still settle. */
  isAwaited = false;
  /** Whether the session has ever been open. */
  isReached = false;
  by = 0;
  #resolve = () => {};
  /** @type {(error: unknown) => void} */
  #reject = () => {};

  /** Makes a new promise, and only notes its deadline. @param {number} by the deadline */
  begin(by) {
    this.isAwaited = true;
    this.by = by;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = /** @type {() => void} */ (resolve);
      this.#reject = reject;
    });
    // Without this handler, a rejection that no user awaits would count as unhandled.
    then(this.promise, undefined, () => {});
  }

  /** If no promise is pending, a resolved one replaces the last, which may have been rejected. */
  resolve() {
    this.isReached = true;
    if (this.isAwaited) this.#resolve();
    else this.promise = Promise.resolve();
    this.isAwaited = false;
  }

  /** @param {unknown} error */
  reject(error) {
    this.isAwaited = false;
    this.#reject(error);
  }
}

module.exports = { Readiness };
