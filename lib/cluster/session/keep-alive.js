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
  #isOver;
  /** Work of `during` that is under way. */
  #busy = 0;
  /** Kept for the next time: to make one is a part of what a lock costs. @type {any} */
  #timer;
  /** Whether the timer keeps the event loop alive. */
  #isHeld = false;

  /**
   * @param {Clock} clock
   * @param {() => boolean} isWanted whether it is, but for `during`
   * @param {() => boolean} isOver whether it will not be any more, but for `during`
   */
  constructor(clock, isWanted, isOver) {
    this.#clock = clock;
    this.#isWanted = isWanted;
    this.#isOver = isOver;
  }

  /** Looks whether it is wanted: to be called when that may have changed, or it is over. */
  look() {
    const isWanted = this.#busy > 0 || this.#isWanted();
    if (!isWanted && this.#isOver()) this.#end();
    else if (isWanted !== this.#isHeld) this.#hold(isWanted);
  }

  /** @param {boolean} isHeld */
  #hold(isHeld) {
    const clock = this.#clock;
    if (!isHeld) clock.unref(this.#timer);
    else if (this.#timer) clock.ref(this.#timer);
    else this.#timer = clock.setTimeout(() => this.#again(), FOREVER);
    // Not before: there may be no stack for that.
    this.#isHeld = isHeld;
  }

  #again() {
    this.#end();
    this.look();
  }

  #end() {
    this.#clock.clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isHeld = false;
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  async during(work) {
    this.#busy++;
    try {
      this.look();
      return await work();
    } finally {
      this.#busy--;
      this.look();
    }
  }
}

module.exports = { KeepAlive };
