'use strict';

/**
 * Reports the course of a request: to subscribers of diagnostics channels, by warnings
 * (`warnAfter`), and by its time limits (`timeout`, `holdTimeout`, `maxTotal`). Most requests have
 * nothing of this and no Watch.
 */

const { channel } = require('node:diagnostics_channel');
const process = require('node:process');
const { PENDING } = require('../standard/lock-request.js');
const { quote } = require('../platform/errors.js');
const { theLock } = require('../platform/names.js');
const intrinsics = require('../platform/intrinsics.js');
const { placeOf } = require('./origin.js');
const {
  LOOK_MS,
  forUsers,
  holdersNow,
  holdersWhenDue,
  queryHolders,
  queryHoldersToWarn,
  queryWaiters,
} = require('./holder-queries.js');
const { describeHolders, describeOutage, describeWaiting, duration } = require('./holders.js');
const { LockLostError, LockTimeoutError } = require('./lock-errors.js');

const { clearTimeout, report, setTimeout, soon, threadsNow: now, unref } = intrinsics;

/** @typedef {InstanceType<typeof import('./request.js').Request>} Request */
/** @typedef {import('../standard/lock-request.js').Observer} Observer */

/** The names that Node.js's own implementation uses, and four more. */
const start = channel('locks.request.start');
const grant = channel('locks.request.grant');
const miss = channel('locks.request.miss');
const end = channel('locks.request.end');
const abort = channel('locks.request.abort');
const steal = channel('locks.request.steal');
const timeoutChannel = channel('locks.request.timeout');
const lost = channel('locks.request.lost');

/**
 * How long at least the answer to a request is waited for that does not wait for the lock itself,
 * on one machine: it comes at once, unless a process stands still that is just changing the locks.
 */
const ANSWER_MS = 1000;

/** The most milliseconds that a timer of Node.js can wait. */
const LONGEST_TIMER = 2 ** 31 - 1;

const FOREVER = Number.POSITIVE_INFINITY;

/** Milliseconds, of requests without `warnAfter`; undefined for none. */
const warnAfterEverywhere = (() => {
  const { WEB_LOCKS_WARN_AFTER: text = '' } = process.env;
  return /^\d+$/.test(text) ? Number(text) : undefined;
})();

/**
 * @param {Readonly<import('./options.js').RequestOptions>} options
 * @returns {number | undefined} milliseconds
 */
const warnAfterOf = ({ warnAfter = warnAfterEverywhere }) => warnAfter;

/** @implements {Observer} */
class Watch {
  /** The same in all messages of the request, and in no others of the thread. */
  #id = Symbol('lock request');
  #request;
  #options;
  #asked;
  #armed = 0;
  #granted = 0;
  #released = 0;
  #ended = 0;
  /** Whether it waits, so that a time limit counts. */
  #waits = false;
  /** Whether it is held, so that a limit on that counts. */
  #holds = false;
  /** When to warn, as `threadsNow()` tells it; Infinity: not, or not any more. */
  #warnAt = Number.POSITIVE_INFINITY;
  #warned = false;
  /** @type {any} */
  #timeout;
  /** @type {any} */
  #holdTimeout;
  /** @type {any} */
  #warning;
  /** The time for which the warning's timer was set. */
  #warningFor = Number.POSITIVE_INFINITY;
  /** Whether timers will be set to what is wanted, in a microtask. */
  #setting = false;
  /**
   * The holders of the lock that the request waits for, once they are known.
   * @type {import('./holder-queries.js').Holders | undefined}
   */
  holders;
  /** Why the server told nothing when the time limit was reached. @type {unknown} */
  outage;
  /** The query before the time limit, until it is answered. @type {Promise<any> | undefined} */
  #ahead;

  /**
   * @param {Request} request
   * @param {number} [asked] when it was asked for, if that was not now, as `threadsNow()` tells it
   */
  constructor(request, asked = now()) {
    this.#request = request;
    this.#options = request.options;
    this.#asked = asked;
  }

  /** @returns {number} milliseconds from the request to the grant, or so far */
  waited() {
    return (this.#granted || this.#ended || now()) - this.#asked;
  }

  /** @returns {number} milliseconds from the grant to the release, or so far */
  held() {
    return this.#granted ? (this.#released || this.#ended || now()) - this.#granted : 0;
  }

  /** The time of the grant, which may be announced later. */
  noteGrant() {
    this.#granted = now();
  }

  /**
   * This is published before the release: the next holder may publish its grant first otherwise.
   */
  noteRelease() {
    this.#released = now();
  }

  arm() {
    this.#armed = now();
    this.#waits = true;
    this.#warnLater();
    this.#setTimers();
  }

  disarm() {
    this.#waits = false;
    this.#setTimers();
  }

  started() {
    this.#publish(start, { pending: this.#request.state === PENDING });
  }

  granted() {
    this.#holds = !this.#ended;
    // One warning for the wait or for the lock, whichever first takes too long.
    if (!this.#warned) this.#warnLater();
    this.#setTimers();
    this.#publish(grant, { token: this.#request.token });
  }

  missed() {
    this.#warnAt = Number.POSITIVE_INFINITY;
    this.#setTimers();
    this.#publish(miss, { ifAvailable: true });
  }

  /** @param {Error} error */
  lost(error) {
    let to = steal;
    if (error instanceof LockTimeoutError) to = timeoutChannel;
    else if (error instanceof LockLostError) to = lost;
    this.#publish(to, { error });
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
    this.#waits = false;
    this.#holds = false;
    this.#warnAt = Number.POSITIVE_INFINITY;
    this.#ended = now();
    this.#setTimers();
    const { steal, ifAvailable } = this.#options;
    const token = this.#granted ? this.#request.token : undefined;
    this.#publish(end, { steal, ifAvailable, error, token });
  }

  #warnLater() {
    const warnAfter = warnAfterOf(this.#options);
    if (warnAfter !== undefined && !this.#ended) this.#warnAt = now() + warnAfter;
  }

  /** @returns {number | undefined} milliseconds that the answer may take; 0, too, for no limit */
  get #waitLimit() {
    const { maxTotal, timeout } = this.#options;
    const limit = timeout === 0 && this.#request.backend.wait ? ANSWER_MS : timeout;
    if (maxTotal === undefined || limit === 0) return limit;
    const left = Math.max(this.#asked + maxTotal - this.#armed, 1);
    return limit === undefined ? left : Math.min(limit, left);
  }

  /** @returns {number} when it is to be given up, as `threadsNow()` tells it; Infinity: never */
  get #heldUntil() {
    const { holdTimeout = FOREVER, maxTotal = FOREVER } = this.#options;
    return Math.min(this.#granted + holdTimeout, this.#asked + maxTotal);
  }

  /** @returns {{ option: string, limit: number }} which limit on holding comes first */
  get holdLimit() {
    const { holdTimeout = FOREVER, maxTotal = FOREVER } = this.#options;
    return this.#granted + holdTimeout <= this.#asked + maxTotal
      ? { option: 'holdTimeout', limit: holdTimeout }
      : { option: 'maxTotal', limit: maxTotal };
  }

  /**
   * Has timers set to what is wanted now. Not at once: near the end of the stack a timer could be
   * set, or removed, by half.
   */
  #setTimers() {
    const isSet =
      Boolean(this.#timeout) === (this.#waits && Boolean(this.#waitLimit)) &&
      Boolean(this.#holdTimeout) === (this.#holds && this.#heldUntil < FOREVER) &&
      this.#warnAt === this.#warningFor;
    if (this.#setting || isSet) return;
    soon(() => this.#setTimersNow());
    this.#setting = true;
  }

  #setTimersNow() {
    this.#setting = false;
    const timeout = this.#waitLimit;
    if (!this.#waits) {
      clearTimeout(this.#timeout);
      this.#timeout = undefined;
    } else if (timeout && !this.#timeout) {
      this.#limit(timeout, this.#request.backend.askHolders ? Math.min(LOOK_MS, timeout / 2) : 0);
    }
    if (!this.#holds) {
      clearTimeout(this.#holdTimeout);
      this.#holdTimeout = undefined;
    } else if (this.#heldUntil < FOREVER && !this.#holdTimeout) {
      this.#limitHold(Math.max(this.#heldUntil - now(), 0));
    }
    if (this.#warnAt === this.#warningFor) return;
    clearTimeout(this.#warning);
    this.#warningFor = this.#warnAt;
    if (this.#warnAt < Number.POSITIVE_INFINITY) this.#warnIn(Math.max(this.#warnAt - now(), 0));
  }

  /**
   * @param {number} timeout
   * @param {number} ahead milliseconds before it ends, to ask who holds the lock; 0: it ends
   */
  #limit(timeout, ahead) {
    const milliseconds = Math.max(this.#armed + timeout - ahead - now(), 0);
    this.#timeout = later(milliseconds, (rest) => {
      if (rest > 0) {
        this.#limit(timeout, ahead);
      } else if (ahead > 0) {
        this.#limit(timeout, 0);
        this.#lookAhead().catch(report);
      } else {
        this.#request.timedOut();
      }
    });
  }

  async #lookAhead() {
    const { backend, name } = this.#request;
    this.#ahead = queryHolders(backend, name);
    const holders = await this.#ahead;
    this.#ahead = undefined;
    // While the request waits somebody is in its way.
    if (holders?.count) this.holders = holders;
  }

  /** Looks who holds the lock, where that takes no time. The request still waits for them. */
  see() {
    if (this.#request.backend.seenHolders) this.holders = this.#holdersAtOnce();
  }

  /** Whether it is not known who holds the lock, and the answer is under way. */
  get isLooking() {
    return this.holders === undefined && this.#ahead !== undefined;
  }

  /** Asks who holds the lock, or waits for the answer that is under way. */
  async look() {
    const { backend, name } = this.#request;
    this.holders = await (this.#ahead ?? queryHolders(backend, name));
  }

  /** @param {number} milliseconds */
  #limitHold(milliseconds) {
    this.#holdTimeout = later(milliseconds, (rest) => {
      if (rest > 0) this.#limitHold(rest);
      else this.#request.heldTooLong();
    });
    // Neither does a lock keep the event loop alive.
    unref(this.#holdTimeout);
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
    if ((this.#granted || now()) >= this.#warnAt) this.#warn().catch(report);
  }

  async #warn() {
    this.#warnAt = this.#warningFor = Number.POSITIVE_INFINITY;
    clearTimeout(this.#warning);
    const { backend } = this.#request;
    // The requests that it waits for warn themselves.
    if (!this.#granted && backend.progress?.(this.#request) === 'allotted') return;
    this.#warned = true;
    const message = await (this.#holds ? this.#describeHold() : this.#describeWait());
    process.emitWarning(message, { type: 'LockWarning', code: 'WEB_LOCKS_SLOW' });
  }

  get #what() {
    return `${theLock(this.#request.name)}${labelOf(this.#options.label)}`;
  }

  /** @returns {Promise<string>} how long it waits, or has waited: that may be over by then */
  async #describeWait() {
    const { backend } = this.#request;
    let who = '';
    if (!this.#granted) {
      const holders = await this.#holders();
      // A backend that has to ask may be answered when they have given it to this one.
      if (!this.#granted || !backend.askHolders) who = ` (${this.#describe(holders)})`;
    }
    const waited = duration(this.waited());
    return this.#granted || this.#ended
      ? `Waited for ${this.#what} for ${waited}${who}.`
      : `Still waiting for ${this.#what} after ${waited}${who}.`;
  }

  /** @param {import('./holder-queries.js').Holders | undefined} holders */
  #describe(holders) {
    const { backend } = this.#request;
    forUsers(holders);
    const outage = holders ? undefined : backend.outage?.(this.#request);
    if (outage !== undefined) return describeOutage(outage);
    return describeHolders(holders?.list, backend.grantsIn?.(), undefined, holders?.count);
  }

  /** @returns {Promise<import('./holder-queries.js').Holders | undefined>} */
  async #holders() {
    const { backend, name } = this.#request;
    return backend.askHolders ? await queryHoldersToWarn(backend, name) : this.#holdersAtOnce();
  }

  /** @returns {import('./holder-queries.js').Holders | undefined} for a backend that knows them */
  #holdersAtOnce() {
    const { backend, blocks, name } = this.#request;
    return (blocks ? holdersNow : holdersWhenDue)(backend, name, true);
  }

  /** @returns {Promise<string>} how long the lock is held, or was */
  async #describeHold() {
    const { backend, name } = this.#request;
    const waiting = describeWaiting(await queryWaiters(backend, name), backend.outage?.());
    const held = duration(this.held());
    const place = placeOf(this.#request.origin);
    const where = place && ` It was requested:\n${place}`;
    return this.#released || this.#ended
      ? `Held ${this.#what} for ${held} (${waiting}).${where}`
      : `Still holding ${this.#what} after ${held} (${waiting}).${where}`;
  }

  /**
   * @param {import('node:diagnostics_channel').Channel} to
   * @param {object} more
   */
  #publish(to, more) {
    if (!to.hasSubscribers) return;
    const { name, mode, backend } = this.#request;
    const { label } = this.#options;
    const asked = this.#asked;
    const waited = this.waited();
    const held = this.held();
    try {
      to.publish({
        id: this.#id,
        name,
        mode,
        label,
        manager: backend.id,
        asked,
        waited,
        held,
        ...more,
      });
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
  // A timer leaves fractions away, and would be early.
  const part = Math.min(Math.ceil(milliseconds), LONGEST_TIMER);
  return setTimeout(() => then(milliseconds - part), part);
}

/** @param {string | undefined} label */
const labelOf = (label) => (label ? ` (${quote(label)})` : '');

/**
 * @param {import('./options.js').RequestOptions} options
 * @returns {boolean} whether a request with these options is to be watched
 */
const isWatched = (options) =>
  options.timeout !== undefined ||
  options.holdTimeout !== undefined ||
  options.maxTotal !== undefined ||
  warnAfterOf(options) !== undefined ||
  start.hasSubscribers ||
  grant.hasSubscribers ||
  miss.hasSubscribers ||
  end.hasSubscribers ||
  abort.hasSubscribers ||
  steal.hasSubscribers ||
  timeoutChannel.hasSubscribers ||
  lost.hasSubscribers;

module.exports = { ANSWER_MS, Watch, isWatched, warnAfterOf };
