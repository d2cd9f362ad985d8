'use strict';

/**
 * The time limits of a request. If its wait reaches the limit, the error names the holders of the
 * lock, so they are looked up while the request still waits.
 */

const { report, threadsNow: now } = require('../../platform/intrinsics.js');
const { Deadline, NEVER } = require('./deadline.js');
const { LOOK_MS, holdersOfWaiter, queryHolders } = require('./holder-queries.js');

/** @import { RequestOptions } from '../options.js' */
/** @typedef {InstanceType<typeof import('./watch.js').Watch>} Watch */

/**
 * On one machine, the answer to a request with the `timeout` 0 arrives at once, unless a process is
 * stopped while it changes the locks. Then the request waits for at most this many milliseconds.
 */
const ANSWER_MS = 1000;

/** @param {RequestOptions} options */
const hasTimeLimit = (options) =>
  options.timeout !== undefined ||
  options.holdTimeout !== undefined ||
  options.maxTotal !== undefined;

class TimeLimits {
  #watch;
  #request;
  /** When the wait began, as a time of `threadsNow()`. */
  #armed = 0;
  /** When the wait reaches its limit. */
  #waitEnd = NEVER;
  /** @type {InstanceType<typeof Deadline> | undefined} */
  #wait;
  /** Whether `#wait` is set to a time before `#waitEnd`, to ask for the holders. */
  #isEarly = false;
  /** @type {InstanceType<typeof Deadline> | undefined} */
  #hold;
  /** The holders, once they are known. @type {import('./holder-queries.js').Holders | undefined} */
  holders;
  /** Why the server did not answer before the time limit. @type {unknown} */
  outage;
  /** The query before the time limit, until its answer. @type {Promise<any> | undefined} */
  #ahead;

  /** @param {Watch} watch */
  constructor(watch) {
    this.#watch = watch;
    this.#request = watch.request;
  }

  beginWait() {
    this.#armed = now();
    const limit = this.#waitLimit;
    if (!limit) return;
    this.#waitEnd = this.#armed + limit;
    this.#isEarly = this.#request.backend.askHolders !== undefined;
    this.#wait = new Deadline(() => this.#handleWait(), false);
    this.#wait.set(this.#isEarly ? this.#waitEnd - Math.min(LOOK_MS, limit / 2) : this.#waitEnd);
  }

  endWait() {
    this.#wait?.set(NEVER);
  }

  beginHold() {
    const end = this.#heldUntil;
    if (end === NEVER) return;
    // A lock does not keep the event loop alive, so its timer must not either.
    this.#hold ??= new Deadline(() => this.#request.handleHoldTimeout(), true);
    this.#hold.set(end);
  }

  /** Removes the timers of the wait and of the hold. */
  clear() {
    this.#wait?.set(NEVER);
    this.#hold?.set(NEVER);
  }

  /** @returns {number | undefined} milliseconds for the wait; 0 or undefined to set no timer */
  get #waitLimit() {
    const { backend, options } = this.#request;
    const { maxTotal, timeout } = options;
    const limit = timeout === 0 && backend.wait ? ANSWER_MS : timeout;
    if (maxTotal === undefined || limit === 0) return limit;
    const left = Math.max(this.#watch.asked + maxTotal - this.#armed, 1);
    return limit === undefined ? left : Math.min(limit, left);
  }

  /** @returns {number} when the limits on holding end the lock; NEVER if there are none */
  get #heldUntil() {
    const { holdTimeout = NEVER, maxTotal = NEVER } = this.#request.options;
    const { asked, granted } = this.#watch;
    return Math.min(granted + holdTimeout, asked + maxTotal);
  }

  /** The limit on holding that is reached first. @returns {{ option: string, limit: number }} */
  get holdLimit() {
    const { holdTimeout = NEVER, maxTotal = NEVER } = this.#request.options;
    const { asked, granted } = this.#watch;
    return granted + holdTimeout <= asked + maxTotal
      ? { option: 'holdTimeout', limit: holdTimeout }
      : { option: 'maxTotal', limit: maxTotal };
  }

  /** If the timer is early, asks for the holders; otherwise handles the time limit. */
  #handleWait() {
    if (!this.#isEarly) {
      this.#request.handleTimeout();
      return;
    }
    this.#isEarly = false;
    this.#wait?.set(this.#waitEnd);
    this.#askAhead().catch(report);
  }

  /** Asks for the holders before the time limit, and keeps the answer if it names any. */
  async #askAhead() {
    const { backend, name } = this.#request;
    this.#ahead = queryHolders(backend, name);
    const holders = await this.#ahead;
    this.#ahead = undefined;
    // While a request waits, somebody blocks it, so an empty list is outdated.
    if (holders?.count) this.holders = holders;
  }

  /** Keeps the holders if the backend has `seenHolders`; otherwise does nothing. */
  findHoldersNow() {
    if (this.#request.backend.seenHolders) this.holders = holdersOfWaiter(this.#request);
  }

  /**
   * Whether the holders are unknown, but may become known: a query for them is under way, or the
   * backend will know them (`seenHolders`) once it is open.
   */
  get canLearnHolders() {
    if (this.holders !== undefined) return false;
    return this.#ahead !== undefined || this.#request.backend.seenHolders !== undefined;
  }

  /** Keeps the answer of the query that is under way, or else of a new one. */
  async askForHolders() {
    const { backend, name } = this.#request;
    this.holders = await (this.#ahead ?? queryHolders(backend, name));
  }
}

module.exports = { ANSWER_MS, TimeLimits, hasTimeLimit };
