'use strict';

/** Keeps the event loop alive while a user waits for something, and only then. */

/** @import { Clock } from './clock.js' */

/** The longest delay that a Node.js timer accepts, in milliseconds. */
const FOREVER = 2 ** 31 - 1;

class KeepAlive {
  #clock;
  #isWanted;
  #isOver;
  /** How many calls of `during` are under way. */
  #busy = 0;
  /** One timer is reused, because making one is a measurable part of a lock's cost. @type {any} */
  #timer;
  #isHeld = false;

  /**
   * @param {Clock} clock @param {() => boolean} isWanted whether a user waits outside of `during`
   * @param {() => boolean} isOver whether no user will wait again outside of `during`
   */
  constructor(clock, isWanted, isOver) {
    this.#clock = clock;
    this.#isWanted = isWanted;
    this.#isOver = isOver;
  }

  /** Must be called when the result of `isWanted` or `isOver` may have changed. */
  update() {
    const isWanted = this.#busy > 0 || this.#isWanted();
    if (!isWanted && this.#isOver()) this.#stop();
    else if (isWanted !== this.#isHeld) this.#setHeld(isWanted);
  }

  /** @param {boolean} isHeld */
  #setHeld(isHeld) {
    const clock = this.#clock;
    if (!isHeld) clock.unref(this.#timer);
    else if (this.#timer) clock.ref(this.#timer);
    else this.#timer = clock.setTimeout(() => this.#renewTimer(), FOREVER);
    // This is set last: if the stack overflows above, the next call tries again.
    this.#isHeld = isHeld;
  }

  #renewTimer() {
    this.#stop();
    this.update();
  }

  #stop() {
    this.#clock.clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isHeld = false;
  }

  /** @template T @param {() => Promise<T>} work */
  async during(work) {
    this.#busy++;
    try {
      this.update();
      return await work();
    } finally {
      this.#busy--;
      this.update();
    }
  }
}

module.exports = { KeepAlive };
