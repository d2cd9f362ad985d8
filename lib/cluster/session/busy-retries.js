'use strict';

/**
 * Operations that the server answered with BUSY (R4). Each is repeated in a later step, after a
 * delay that doubles every time up to a limit.
 */

/** @import { Op } from '../adapter.js' */

// Delays are in milliseconds.
const FIRST = 20;
const LAST = 500;

class BusyRetries {
  /** The time at which each operation is repeated next. @type {Map<Op, number>} */
  #times = new Map();
  /** @type {WeakMap<Op, number>} */
  #delays = new WeakMap();

  /** Schedules a repetition and returns its time. @param {Op} op @param {number} now */
  add(op, now) {
    const last = this.#delays.get(op);
    const delay = last === undefined ? FIRST : Math.min(2 * last, LAST);
    this.#delays.set(op, delay);
    this.#times.set(op, now + delay);
    return now + delay;
  }

  /** The time of the next repetition; Infinity for none. */
  get next() {
    let next = Number.POSITIVE_INFINITY;
    for (const time of this.#times.values()) if (time < next) next = time;
    return next;
  }

  /** @param {number} now */
  takeDue(now) {
    const due = [];
    for (const [op, time] of this.#times) if (time <= now) due.push(op);
    for (const op of due) this.#times.delete(op);
    return due;
  }

  clear() {
    this.#times.clear();
  }
}

module.exports = { BusyRetries };
