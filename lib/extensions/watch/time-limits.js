'use strict';

/**
 * The time limits of a request: of its wait (`timeout`), of its hold (`holdTimeout`), and of both
 * together (`maxTotal`). When the limit of the wait is reached, the error names the holders of the
 * lock, so they are looked up while the request still waits.
 */

const { report, threadsNow: now } = require('../../platform/intrinsics.js');
const { Deadline, NEVER } = require('./deadline.js');
const { LOOK_MS, holdersOfWaiter, queryHolders } = require('./holder-queries.js');

/** @import { RequestOptions } from '../options.js' */
/** @typedef {InstanceType<typeof import('./watch.js').Watch>} Watch */

/**
 * With the time limit 0, a request waits for its answer and not for the lock. On one machine the
 * answer arrives at once, unless a process is stopped while it changes the locks; in this case the
 * request waits at most this long.
 */
const ANSWER_MS = 1000;

/** @param {Readonly<RequestOptions>} options */
const hasTimeLimit = (options) =>
  options.timeout !== undefined ||
  options.holdTimeout !== undefined ||
  options.maxTotal !== undefined;

class TimeLimits {
  #watch;
  #request;
  /** When the wait began, as a time of `threadsNow()`. */
  #armed = 0;
  /** When the wait ends. */
  #end = NEVER;
  /**
   * Exists if the request has waited and its wait is limited.
   * @type {InstanceType<typeof Deadline> | undefined}
   */
  #wait;
  /** Whether the deadline of the wait comes early, to look for the holders. */
  #isEarly = false;
  /**
   * Exists if the lock was granted and its hold is limited.
   * @type {InstanceType<typeof Deadline> | undefined}
   */
  #hold;
  /**
   * The holders of the lock that the request waits for, once they are known.
   * @type {import('./holder-queries.js').Holders | undefined}
   */
  holders;
  /** Why the server did not answer when the time limit was reached. @type {unknown} */
  outage;
  /**
   * The query for holders that was made shortly before the time limit, until it is answered.
   * @type {Promise<any> | undefined}
   */
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
    this.#end = this.#armed + limit;
    this.#isEarly = this.#request.backend.askHolders !== undefined;
    this.#wait = new Deadline(() => this.#handleWait(), false);
    this.#wait.set(this.#isEarly ? this.#end - Math.min(LOOK_MS, limit / 2) : this.#end);
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

  end() {
    this.#wait?.set(NEVER);
    this.#hold?.set(NEVER);
  }

  /**
   * @returns {number | undefined} how many milliseconds the answer may take; 0 and undefined for no
   *   limit
   */
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

  /**
   * Returns the limit on holding that is reached first.
   * @returns {{ option: string, limit: number }}
   */
  get holdLimit() {
    const { holdTimeout = NEVER, maxTotal = NEVER } = this.#request.options;
    const { asked, granted } = this.#watch;
    return granted + holdTimeout <= asked + maxTotal
      ? { option: 'holdTimeout', limit: holdTimeout }
      : { option: 'maxTotal', limit: maxTotal };
  }

  #handleWait() {
    if (!this.#isEarly) {
      this.#request.handleTimeout();
      return;
    }
    this.#isEarly = false;
    this.#wait?.set(this.#end);
    this.#askAhead().catch(report);
  }

  async #askAhead() {
    const { backend, name } = this.#request;
    this.#ahead = queryHolders(backend, name);
    const holders = await this.#ahead;
    this.#ahead = undefined;
    // Somebody blocks the request while it waits, so an empty list is outdated.
    if (holders?.count) this.holders = holders;
  }

  /**
   * Finds the holders while the request still waits for them, if the backend knows them at once.
   */
  findHoldersNow() {
    if (this.#request.backend.seenHolders) this.holders = holdersOfWaiter(this.#request);
  }

  /**
   * Whether the holders are unknown, but can still become known: a query for them is under way, or
   * the backend keeps them in memory (`seenHolders`) and could not be read because it was not open.
   */
  get canLearnHolders() {
    if (this.holders !== undefined) return false;
    return this.#ahead !== undefined || this.#request.backend.seenHolders !== undefined;
  }

  /** Asks who holds the lock, or waits for the query that is under way. */
  async askForHolders() {
    const { backend, name } = this.#request;
    this.holders = await (this.#ahead ?? queryHolders(backend, name));
  }
}

module.exports = { ANSWER_MS, TimeLimits, hasTimeLimit };
