'use strict';

/**
 * What is to be done at which times, by one timer, which does not keep the event loop alive. An
 * item has one time; a new one replaces it. Items that are due together are done in the order of
 * their times.
 */

/** @typedef {import('./clock.js').Clock} Clock */

/** The most milliseconds that a timer of Node.js can wait. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** @template {string} Item */
class Agenda {
  #clock;
  #run;
  /**
   * Infinity for what is not on it: to delete it each time takes longer.
   * @type {Map<Item, number>}
   */
  #times = new Map();
  /** @type {any} */
  #timer;
  #timerFor = Number.POSITIVE_INFINITY;

  /**
   * @param {Clock} clock
   * @param {(due: Item[]) => void} run does what is due, which is off the agenda by then
   */
  constructor(clock, run) {
    this.#clock = clock;
    this.#run = run;
  }

  /**
   * @param {Item} item
   * @param {number} at when, on the monotonic clock
   */
  set(item, at) {
    this.#times.set(item, at);
    if (at < this.#timerFor) this.#arm(at);
  }

  /**
   * @param {Item} item
   * @param {number} at the latest time for it
   */
  setBy(item, at) {
    if (at < this.timeOf(item)) this.set(item, at);
  }

  /** @param {Item} item @returns {number} Infinity if it is not on the agenda */
  timeOf(item) {
    return this.#times.get(item) ?? Number.POSITIVE_INFINITY;
  }

  /** @param {Item} item */
  clear(item) {
    // The timer stays: it finds nothing, or what comes next.
    if (this.#times.has(item)) this.#times.set(item, Number.POSITIVE_INFINITY);
  }

  clearAll() {
    this.#times.clear();
    this.#arm(Number.POSITIVE_INFINITY);
  }

  /** @param {number} at */
  #arm(at) {
    const clock = this.#clock;
    clock.clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerFor = at;
    if (at === Number.POSITIVE_INFINITY) return;
    // A timer leaves fractions away, and would be early.
    const rest = Math.max(Math.ceil(at - clock.monotonic()), 0);
    this.#timer = clock.setTimeout(() => this.#fire(), Math.min(rest, LONGEST_TIMER));
    clock.unref(this.#timer);
  }

  #fire() {
    const now = this.#clock.monotonic();
    const due = [...this.#times].filter(([, at]) => at <= now).sort(([, a], [, b]) => a - b);
    for (const [item] of due) this.clear(item);
    this.#arm(Math.min(...this.#times.values()));
    if (due.length > 0) this.#run(due.map(([item]) => item));
  }
}

module.exports = { Agenda };
