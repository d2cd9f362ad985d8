'use strict';

/**
 * Runs the timers of a session with a single Node.js timer, which does not keep the event loop
 * alive. Each item has at most one time. Items that are due together run in the order of their
 * times.
 */

/** @import { Clock } from './clock.js' */

/** The longest delay that a Node.js timer accepts, in milliseconds. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** @template {string} Item */
class Timers {
  #clock;
  #run;
  /** Infinity for a cleared item; deleting it would be slower. @type {Map<Item, number>} */
  #times = new Map();
  /** @type {any} */
  #timer;
  #timerFor = Number.POSITIVE_INFINITY;

  /** @param {Clock} clock @param {(due: Item[]) => void} run gets the due items, already cleared */
  constructor(clock, run) {
    this.#clock = clock;
    this.#run = run;
  }

  /** @param {Item} item @param {number} at on the monotonic clock */
  set(item, at) {
    this.#times.set(item, at);
    if (at < this.#timerFor) this.#arm(at);
  }

  /** Sets an item unless it is due earlier. @param {Item} item @param {number} at */
  setBy(item, at) {
    if (at < this.timeOf(item)) this.set(item, at);
  }

  /** The time of an item; Infinity for none. @param {Item} item */
  timeOf(item) {
    return this.#times.get(item) ?? Number.POSITIVE_INFINITY;
  }

  /** @param {Item} item */
  clear(item) {
    // The Node.js timer is not cleared: when it fires, it is set for the next item.
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
    // setTimeout truncates fractions and would fire early.
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

module.exports = { Timers };
