'use strict';

/**
 * Operations that something is in the way of (BUSY): each is asked for again by itself, at a time
 * of its own. Its delay doubles as long as it is in the way, and is no other operation's: what is
 * obstructed next begins with the first one.
 */

/** @typedef {import('../adapter.js').Op} Op */

// Milliseconds.
const FIRST = 20;
const LAST = 500;

class Obstructed {
  /** When they are asked for again. @type {Map<Op, number>} */
  #times = new Map();
  /** The last delay of each, for as long as it is wanted. @type {WeakMap<Op, number>} */
  #delays = new WeakMap();

  /**
   * @param {Op} op
   * @param {number} now
   * @returns {number} when it is asked for again
   */
  add(op, now) {
    const last = this.#delays.get(op);
    const delay = last === undefined ? FIRST : Math.min(2 * last, LAST);
    this.#delays.set(op, delay);
    this.#times.set(op, now + delay);
    return now + delay;
  }

  /** When the next ones are asked for; Infinity if there are none. */
  get next() {
    let next = Number.POSITIVE_INFINITY;
    for (const time of this.#times.values()) if (time < next) next = time;
    return next;
  }

  /**
   * @param {number} now
   * @returns {Op[]} those whose time has come, which are off the list
   */
  takeDue(now) {
    /** @type {Op[]} */
    const due = [];
    for (const [op, time] of this.#times) if (time <= now) due.push(op);
    for (const op of due) this.#times.delete(op);
    return due;
  }

  clear() {
    this.#times.clear();
  }
}

module.exports = { Obstructed };
