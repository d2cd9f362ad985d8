'use strict';

/**
 * What is told of a request while it goes on: to subscribers of diagnostics channels, by warnings
 * (`warnAfter`), and by its time limit (`timeout`). Most requests have nothing of this and no
 * Watch.
 */

const { channel } = require('node:diagnostics_channel');
const process = require('node:process');
const { describeHolders, describeLock, quote } = require('../platform/errors.js');

/** @typedef {InstanceType<typeof import('../standard/lock-request.js').LockRequest>} LockRequest */

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

class Watch {
  #request;
  #options;
  #asked = performance.now();
  #granted = 0;
  #ended = false;
  /** @type {NodeJS.Timeout | undefined} */
  #timeout;
  /** @type {NodeJS.Timeout | undefined} */
  #warning;

  /**
   * @param {LockRequest} request
   * @param {import('../standard/webidl.js').LockOptions} options
   */
  constructor(request, options) {
    this.#request = request;
    this.#options = options;
    if (options.timeout) this.#limit(options.timeout);
    this.#warnLater();
    this.#publish(start, {});
  }

  /** @returns {number} milliseconds from the request to the grant, or so far */
  waited() {
    return (this.#granted || performance.now()) - this.#asked;
  }

  granted() {
    clearTimeout(this.#timeout);
    this.#granted = performance.now();
    if (this.#warning) this.#warnLater();
    this.#publish(grant, {});
  }

  missed() {
    this.#publish(miss, { ifAvailable: true });
  }

  /** @param {Error} error */
  stolen(error) {
    this.#publish(steal, { error });
    this.ended(error);
  }

  /** @param {unknown} reason */
  aborted(reason) {
    this.#publish(abort, { error: reason });
  }

  /** @param {Error} error */
  timedOut(error) {
    this.#publish(timeoutChannel, { error });
  }

  /** @param {unknown} error undefined for none */
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
    this.#timeout = setTimeout(
      () => {
        if (milliseconds > LONGEST_TIMER) this.#limit(milliseconds - LONGEST_TIMER);
        else this.#request.timedOut();
      },
      Math.min(milliseconds, LONGEST_TIMER),
    );
  }

  /** One warning for the wait or for the lock, whichever first takes too long. */
  #warnLater() {
    clearTimeout(this.#warning);
    const { warnAfter } = this.#options;
    if (warnAfter === undefined) return;
    this.#warning = setTimeout(() => this.#warn(), Math.min(warnAfter, LONGEST_TIMER));
    this.#warning.unref();
  }

  async #warn() {
    this.#warning = undefined;
    const { backend, name } = this.#request;
    const what = `the lock ${quote(name)}${labelOf(this.#options.label)}`;
    let message;
    if (this.#granted) {
      const held = (performance.now() - this.#granted).toFixed(0);
      const { pending } = await backend.details();
      const waiting = pending.filter((request) => request.name === name);
      message = `Holding ${what} for ${held} ms. ${describeWaiting(waiting)}`;
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
    const held = this.#granted ? performance.now() - this.#granted : 0;
    to.publish({ name, mode, label, waited: this.waited(), held, ...more });
  }
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
 * @param {import('../standard/webidl.js').LockOptions} options
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
