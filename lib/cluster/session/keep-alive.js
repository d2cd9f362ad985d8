'use strict';

/**
 * Keeps the event loop alive while somebody waits for something, and only then.
 */

/** @typedef {import('./clock.js').Clock} Clock */

/** As long a timer as there is. */
const FOREVER = 2 ** 31 - 1;

class KeepAlive {
  #clock;
  #isWanted;
  /** Work of `during` that is under way. */
  #busy = 0;
  /** @type {any} */
  #timer;

  /**
   * @param {Clock} clock
   * @param {() => boolean} isWanted whether it is, but for `during`
   */
  constructor(clock, isWanted) {
    this.#clock = clock;
    this.#isWanted = isWanted;
  }

  /** Looks whether it is wanted: to be called when that may have changed. */
  look() {
    const isWanted = this.#busy > 0 || this.#isWanted();
    if (isWanted === (this.#timer !== undefined)) return;
    if (isWanted) {
      this.#timer = this.#clock.setTimeout(() => {
        this.#timer = undefined;
        this.look();
      }, FOREVER);
    } else {
      this.#clock.clearTimeout(this.#timer);
      this.#timer = undefined;
    }
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  async during(work) {
    this.#busy++;
    this.look();
    try {
      return await work();
    } finally {
      this.#busy--;
      this.look();
    }
  }
}

module.exports = { KeepAlive };
