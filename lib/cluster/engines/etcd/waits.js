'use strict';

/** Lets callers wait for conditions, which must be checked after each change of the state. */

class Waits {
  /** @type {{ isOver: () => boolean, resolve: () => void, reject: (error: unknown) => void }[]} */
  #waiting = [];

  /** Resolves when the condition holds. @param {() => boolean} isOver */
  async until(isOver) {
    if (isOver()) return;
    /** @type {Promise<void>} */
    const over = new Promise((resolve, reject) => {
      this.#waiting.push({ isOver, resolve, reject });
    });
    await over;
  }

  /** Resolves the waits whose condition holds. */
  check() {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const one of waiting) {
      if (one.isOver()) one.resolve();
      else this.#waiting.push(one);
    }
  }

  /** Rejects all waits. @param {unknown} error */
  reject(error) {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { reject } of waiting) reject(error);
  }
}

module.exports = { Waits };
