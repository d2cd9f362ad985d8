'use strict';

/**
 * What is told of a request while it goes on: to subscribers of diagnostics channels, by warnings
 * (`warnAfter`), and by its time limit (`timeout`). Most requests have nothing of this and no
 * Watch.
 */

const { channel } = require('node:diagnostics_channel');
const process = require('node:process');
const { quote } = require('../platform/errors.js');
const { clearTimeout, now, report, setTimeout, unref } = require('../platform/intrinsics.js');
const { LockTimeoutError, describeHolders, describeLock } = require('./lock-errors.js');

/** @typedef {InstanceType<typeof import('./request.js').Request>} Request */
/** @typedef {import('../standard/lock-request.js').Observer} Observer */

/** The names that Node.js's own implementation uses, and three more. */
const start = channel('locks.request.start');
const grant = channel('locks.request.grant');
const miss = channel('locks.request.miss');
const end = channel('locks.request.end');
const abort = channel('locks.request.abort');
const steal = channel('locks.request.steal');
const timeoutChannel = channel('locks.request.timeout');

/** The most milliseconds that a timer of Node.js can wait. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** @implements {Observer} */
class Watch {
  #request;
  #options;
  #asked;
  #granted = 0;
  #ended = false;
  /** @type {any} */
  #timeout;
  /** @type {any} */
  #warning;
  /** When to warn, as `now()` tells it; Infinity: not, or not any more. */
  #warnAt = Number.POSITIVE_INFINITY;
  #warned = false;

  /**
   * @param {Request} request
   * @param {number} [asked] when it was asked for, if that was not now, as `now()` tells it
   */
  constructor(request, asked = now()) {
    this.#request = request;
    this.#options = request.options;
    this.#asked = asked;
  }

  /** @returns {number} milliseconds from the request to the grant, or so far */
  waited() {
    return (this.#granted || now()) - this.#asked;
  }

  /** The time of the grant, which may be told later. */
  noteGrant() {
    this.#granted = now();
  }

  arm() {
    const { timeout } = this.#options;
    if (timeout) this.#limit(timeout);
    this.#warnLater();
  }

  disarm() {
    clearTimeout(this.#timeout);
  }

  started() {
    this.#publish(start, {});
  }

  granted() {
    // One warning for the wait or for the lock, whichever first takes too long.
    if (!this.#warned) this.#warnLater();
    this.#publish(grant, {});
  }

  missed() {
    clearTimeout(this.#warning);
    this.#publish(miss, { ifAvailable: true });
  }

  /** @param {Error} error */
  stolen(error) {
    this.#publish(steal, { error });
  }

  /** @param {unknown} reason */
  aborted(reason) {
    this.#publish(abort, { error: reason });
  }

  /** @param {unknown} error */
  failed(error) {
    if (error instanceof LockTimeoutError) this.#publish(timeoutChannel, { error });
  }

  /** @param {unknown} [error] undefined for none */
  ended(error) {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#timeout);
    clearTimeout(this.#warning);
    const { steal, ifAvailable } = this.#options;
    this.#publish(end, { steal, ifAvailable, error });
  }

  /** @param {number} milliseconds */
  #limit(milliseconds) {
    this.#timeout = later(milliseconds, (rest) => {
      if (rest > 0) this.#limit(rest);
      else this.#request.timedOut();
    });
  }

  #warnLater() {
    const { warnAfter } = this.#options;
    if (warnAfter === undefined || this.#ended) return;
    clearTimeout(this.#warning);
    this.#warnAt = now() + warnAfter;
    this.#warnIn(warnAfter);
  }

  /** @param {number} milliseconds */
  #warnIn(milliseconds) {
    this.#warning = later(milliseconds, (rest) => {
      if (rest > 0) this.#warnIn(rest);
      else this.#warn().catch(report);
    });
    unref(this.#warning);
  }

  /** The thread is blocked for a while: timers do not run. */
  blocked() {
    if (now() < this.#warnAt) return;
    clearTimeout(this.#warning);
    this.#warn().catch(report);
  }

  async #warn() {
    this.#warned = true;
    this.#warnAt = Number.POSITIVE_INFINITY;
    const { backend, name } = this.#request;
    const what = `the lock ${quote(name)}${labelOf(this.#options.label)}`;
    let message;
    if (this.#granted) {
      const held = (now() - this.#granted).toFixed(0);
      const { pending } = await backend.details(name);
      message = `Holding ${what} for ${held} ms. ${describeWaiting(pending)}`;
    } else {
      const holders = describeHolders(backend.holders(name));
      message = `Waiting for ${what} for ${this.waited().toFixed(0)} ms. ${holders}`;
    }
    process.emitWarning(message, { type: 'LockWarning', code: 'WEB_LOCKS_SLOW' });
  }

  /**
   * @param {import('node:diagnostics_channel').Channel} to
   * @param {object} more
   */
  #publish(to, more) {
    if (!to.hasSubscribers) return;
    const { name, mode } = this.#request;
    const { label } = this.#options;
    const held = this.#granted ? now() - this.#granted : 0;
    try {
      to.publish({ name, mode, label, waited: this.waited(), held, ...more });
    } catch (error) {
      report(error);
    }
  }
}

/**
 * @param {number} milliseconds
 * @param {(rest: number) => void} then called when they are over, or with how many are left where
 *   they are more than a timer can wait
 * @returns {NodeJS.Timeout}
 */
function later(milliseconds, then) {
  const part = Math.min(milliseconds, LONGEST_TIMER);
  return setTimeout(() => then(milliseconds - part), part);
}

/** @param {string | undefined} label */
const labelOf = (label) => (label ? ` (${quote(label)})` : '');

/** @param {import('../backend/contract.js').LockDetails[]} waiting */
function describeWaiting(waiting) {
  if (waiting.length === 0) return 'Nobody waits for it.';
  const more = waiting.length > 1 ? ` and ${waiting.length - 1} more` : '';
  return `Waiting for it: ${describeLock(waiting[0])}${more}.`;
}

/**
 * @param {import('./options.js').RequestOptions} options
 * @returns {boolean} whether a request with these options is to be watched
 */
const isWatched = (options) =>
  options.timeout !== undefined ||
  options.warnAfter !== undefined ||
  start.hasSubscribers ||
  grant.hasSubscribers ||
  miss.hasSubscribers ||
  end.hasSubscribers ||
  abort.hasSubscribers ||
  steal.hasSubscribers ||
  timeoutChannel.hasSubscribers;

module.exports = { Watch, isWatched };
