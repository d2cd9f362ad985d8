'use strict';

/**
 * A timer that can be moved and removed even where the stack may overflow. It sets its Node.js
 * timer in a microtask, on an empty stack, because an overflow could leave that timer half set.
 */

const {
  callInMicrotask,
  clearTimeout,
  setTimeout,
  threadsNow: now,
  unref,
} = require('../../platform/intrinsics.js');

/** The most milliseconds that a Node.js timer can wait. */
const LONGEST_TIMER = 2 ** 31 - 1;

const NEVER = Number.POSITIVE_INFINITY;

class Deadline {
  #handle;
  #isBackground;
  /** A time of `threadsNow()`, or NEVER. */
  #due = NEVER;
  /** The time for which the Node.js timer is set. */
  #setFor = NEVER;
  /** @type {any} */
  #timer;
  /** Whether `#setTimer` will be called anyway, in a microtask or after the handler. */
  #isSetting = false;

  /** @param {() => void} handle @param {boolean} isBackground whether the thread may end earlier */
  constructor(handle, isBackground) {
    this.#handle = handle;
    this.#isBackground = isBackground;
  }

  get due() {
    return this.#due;
  }

  /** @param {number} due a time of `threadsNow()`, or `NEVER` to remove the timer */
  set(due) {
    this.#due = due;
    if (this.#isSetting || due === this.#setFor) return;
    callInMicrotask(() => this.#setTimer());
    this.#isSetting = true;
  }

  #setTimer() {
    this.#isSetting = false;
    if (this.#due === this.#setFor) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#setFor = this.#due;
    if (this.#due < NEVER) this.#start(Math.max(this.#due - now(), 0));
  }

  /** @param {number} milliseconds */
  #start(milliseconds) {
    // setTimeout truncates fractions and would fire early.
    const part = Math.min(Math.ceil(milliseconds), LONGEST_TIMER);
    this.#timer = setTimeout(() => this.#handleTimer(milliseconds - part), part);
    if (this.#isBackground) unref(this.#timer);
  }

  /** @param {number} rest milliseconds beyond LONGEST_TIMER, which still have to pass */
  #handleTimer(rest) {
    if (this.#due !== this.#setFor) {
      this.#setTimer();
    } else if (rest > 0) {
      this.#start(rest);
    } else {
      this.#due = this.#setFor = NEVER;
      this.#handleInTimer();
    }
  }

  /**
   * If the handler sets a new time, the Node.js timer is set here, in the callback of a timer: such
   * a timer fires after the immediates of this turn of the event loop, in which the queries of
   * holder-queries.js are sent. A timer that is set in a microtask might fire before them.
   */
  #handleInTimer() {
    this.#isSetting = true;
    try {
      this.#handle();
    } finally {
      this.#setTimer();
    }
  }
}

module.exports = { Deadline, NEVER };
