'use strict';

/**
 * Reports the course of a request to subscribers of diagnostics channels and by warnings
 * (`warnAfter`), and applies its time limits (`timeout`, `holdTimeout`, `maxTotal`). Most requests
 * need none of these features, and have no Watch.
 */

const { channel } = require('node:diagnostics_channel');
const { PENDING } = require('../../standard/lock-request.js');
const { readSetting, warn } = require('../../platform/environment.js');
const { quote } = require('../../platform/errors.js');
const { describeLock } = require('../../platform/names.js');
const intrinsics = require('../../platform/intrinsics.js');
const { placeOf } = require('../sites/origin.js');
const {
  LOOK_MS,
  prepareForUsers,
  holdersNow,
  holdersForTimers,
  queryHolders,
  queryHoldersToWarn,
  queryWaiters,
} = require('./holder-queries.js');
const {
  describeHolders,
  describeOutage,
  describeWaiting,
  duration,
} = require('../errors/descriptions.js');
const { LockLostError, LockTimeoutError } = require('../errors/lock-errors.js');

const { clearTimeout, report, setTimeout, callInMicrotask, threadsNow: now, unref } = intrinsics;

/** @typedef {InstanceType<typeof import('../request/request.js').Request>} Request */
/** @import { Observer } from '../../standard/lock-request.js' */

/** Node.js's own implementation has the same first six channels. */
const start = channel('locks.request.start');
const grant = channel('locks.request.grant');
const miss = channel('locks.request.miss');
const end = channel('locks.request.end');
const abort = channel('locks.request.abort');
const steal = channel('locks.request.steal');
const timeoutChannel = channel('locks.request.timeout');
const lost = channel('locks.request.lost');

/**
 * With the time limit 0, a request waits for its answer and not for the lock. On one machine the
 * answer arrives at once, unless a process is stopped while it changes the locks; in this case the
 * request waits at most this long.
 */
const ANSWER_MS = 1000;

/** The most milliseconds that a timer of Node.js can wait. */
const LONGEST_TIMER = 2 ** 31 - 1;

const FOREVER = Number.POSITIVE_INFINITY;

/** The `warnAfter` of requests that have none, in milliseconds; undefined for no warnings. */
const warnAfterEverywhere = readSetting(
  'WEB_LOCKS_WARN_AFTER',
  (text) => (/^\d+$/.test(text) ? Number(text) : undefined),
  'a whole number of milliseconds',
);

/** @param {Readonly<import('../options.js').RequestOptions>} options */
const warnAfterOf = ({ warnAfter = warnAfterEverywhere }) => warnAfter;

/** @implements {Observer} */
class Watch {
  /** The id in all messages of the request; no other request of the thread has it. */
  #id = Symbol('lock request');
  #request;
  #options;
  #asked;
  #armed = 0;
  #granted = 0;
  #released = 0;
  #ended = 0;
  /** Whether the time limit of the wait applies now. */
  #waits = false;
  /** Whether the limit on holding applies now. */
  #holds = false;
  /** When the warning is due, as a time of `threadsNow()`; Infinity if no warning will follow. */
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
  /** Whether a microtask will set the timers. */
  #setting = false;
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

  /**
   * @param {Request} request
   * @param {number} [asked] when the user called, in the time of `threadsNow()`
   */
  constructor(request, asked = now()) {
    this.#request = request;
    this.#options = request.options;
    this.#asked = asked;
  }

  /** @returns {number} milliseconds from the call to the grant, or until now */
  waitDuration() {
    return (this.#granted || this.#ended || now()) - this.#asked;
  }

  /** @returns {number} milliseconds from the grant to the release, or until now */
  holdDuration() {
    return this.#granted ? (this.#released || this.#ended || now()) - this.#granted : 0;
  }

  /** Records the time of the grant, which may be announced later. */
  noteGrant() {
    this.#granted = now();
  }

  /**
   * Records the time. This must happen before the release, because otherwise the next holder could
   * publish an earlier grant.
   */
  noteRelease() {
    this.#released = now();
  }

  arm() {
    this.#armed = now();
    this.#waits = true;
    this.#scheduleWarning();
    this.#setTimers();
  }

  disarm() {
    this.#waits = false;
    this.#setTimers();
  }

  onStart() {
    this.#publish(start, { pending: this.#request.state === PENDING });
  }

  onGrant() {
    this.#holds = !this.#ended;
    // One warning suffices: either for the wait or for the hold.
    if (!this.#warned) this.#scheduleWarning();
    this.#setTimers();
    this.#publish(grant, { token: this.#request.token });
  }

  onMiss() {
    this.#warnAt = Number.POSITIVE_INFINITY;
    this.#setTimers();
    this.#publish(miss, { ifAvailable: true });
  }

  /** @param {Error} error */
  onLoss(error) {
    let to = steal;
    if (error instanceof LockTimeoutError) to = timeoutChannel;
    else if (error instanceof LockLostError) to = lost;
    this.#publish(to, { error });
  }

  /** @param {unknown} reason */
  onAbort(reason) {
    this.#publish(abort, { error: reason });
  }

  /** @param {unknown} error */
  onFailure(error) {
    if (error instanceof LockTimeoutError) this.#publish(timeoutChannel, { error });
  }

  /** @param {unknown} [error] */
  onEnd(error) {
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

  #scheduleWarning() {
    const warnAfter = warnAfterOf(this.#options);
    if (warnAfter !== undefined && !this.#ended) this.#warnAt = now() + warnAfter;
  }

  /**
   * @returns {number | undefined} how many milliseconds the answer may take; 0 and undefined for no
   *   limit
   */
  get #waitLimit() {
    const { maxTotal, timeout } = this.#options;
    const limit = timeout === 0 && this.#request.backend.wait ? ANSWER_MS : timeout;
    if (maxTotal === undefined || limit === 0) return limit;
    const left = Math.max(this.#asked + maxTotal - this.#armed, 1);
    return limit === undefined ? left : Math.min(limit, left);
  }

  /**
   * @returns {number} the time of `threadsNow()` at which the limits on holding end the lock;
   *   Infinity for never
   */
  get #heldUntil() {
    const { holdTimeout = FOREVER, maxTotal = FOREVER } = this.#options;
    return Math.min(this.#granted + holdTimeout, this.#asked + maxTotal);
  }

  /**
   * Returns the limit on holding that is reached first.
   * @returns {{ option: string, limit: number }}
   */
  get holdLimit() {
    const { holdTimeout = FOREVER, maxTotal = FOREVER } = this.#options;
    return this.#granted + holdTimeout <= this.#asked + maxTotal
      ? { option: 'holdTimeout', limit: holdTimeout }
      : { option: 'maxTotal', limit: maxTotal };
  }

  /**
   * Sets the timers in a microtask, because a stack overflow could leave a timer half set or half
   * removed.
   */
  #setTimers() {
    const isSet =
      Boolean(this.#timeout) === (this.#waits && Boolean(this.#waitLimit)) &&
      Boolean(this.#holdTimeout) === (this.#holds && this.#heldUntil < FOREVER) &&
      this.#warnAt === this.#warningFor;
    if (this.#setting || isSet) return;
    callInMicrotask(() => this.#setTimersNow());
    this.#setting = true;
  }

  #setTimersNow() {
    this.#setting = false;
    const timeout = this.#waitLimit;
    if (!this.#waits) {
      clearTimeout(this.#timeout);
      this.#timeout = undefined;
    } else if (timeout && !this.#timeout) {
      this.#startTimeout(
        timeout,
        this.#request.backend.askHolders ? Math.min(LOOK_MS, timeout / 2) : 0,
      );
    }
    if (!this.#holds) {
      clearTimeout(this.#holdTimeout);
      this.#holdTimeout = undefined;
    } else if (this.#heldUntil < FOREVER && !this.#holdTimeout) {
      this.#startHoldTimeout(Math.max(this.#heldUntil - now(), 0));
    }
    if (this.#warnAt === this.#warningFor) return;
    clearTimeout(this.#warning);
    this.#warningFor = this.#warnAt;
    if (this.#warnAt < Number.POSITIVE_INFINITY)
      this.#startWarning(Math.max(this.#warnAt - now(), 0));
  }

  /**
   * @param {number} timeout
   * @param {number} ahead how many milliseconds before the end to ask who holds the lock; 0 if the
   *   query was already made
   */
  #startTimeout(timeout, ahead) {
    const milliseconds = Math.max(this.#armed + timeout - ahead - now(), 0);
    this.#timeout = setLongTimeout(milliseconds, (rest) => {
      if (rest > 0) {
        this.#startTimeout(timeout, ahead);
      } else if (ahead > 0) {
        this.#startTimeout(timeout, 0);
        this.#askAhead().catch(report);
      } else {
        this.#request.handleTimeout();
      }
    });
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
    if (this.#request.backend.seenHolders) this.holders = this.#readHolders();
  }

  /**
   * Whether the holders are unknown, but can still become known: a query for them is under way, or
   * a backend that knows them at once was not open yet.
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

  /** @param {number} milliseconds */
  #startHoldTimeout(milliseconds) {
    this.#holdTimeout = setLongTimeout(milliseconds, (rest) => {
      if (rest > 0) this.#startHoldTimeout(rest);
      else this.#request.handleHoldTimeout();
    });
    // A lock does not keep the event loop alive, so its timer must not either.
    unref(this.#holdTimeout);
  }

  /** @param {number} milliseconds */
  #startWarning(milliseconds) {
    this.#warning = setLongTimeout(milliseconds, (rest) => {
      if (rest > 0) this.#startWarning(rest);
      else this.#warn().catch(report);
    });
    unref(this.#warning);
  }

  /** Called in a blocked thread, in which timers do not run: emits the warning if it is due. */
  warnIfDue() {
    if ((this.#granted || now()) >= this.#warnAt) this.#warn().catch(report);
  }

  async #warn() {
    this.#warnAt = this.#warningFor = Number.POSITIVE_INFINITY;
    clearTimeout(this.#warning);
    const { backend } = this.#request;
    // If this request only waits for other requests of its group, these requests emit the warnings.
    if (!this.#granted && backend.progress?.(this.#request) === 'allotted') return;
    this.#warned = true;
    const message = await (this.#holds ? this.#describeHold() : this.#describeWait());
    warn(message, 'WEB_LOCKS_SLOW');
  }

  get #what() {
    return `${describeLock(this.#request.name)}${labelInParentheses(this.#options.label)}`;
  }

  /** Describes how long the request waits, or has waited if the wait ends meanwhile. */
  async #describeWait() {
    const { backend, name } = this.#request;
    let who = '';
    if (!this.#granted) {
      const known = backend.askHolders ? undefined : this.#readHolders();
      const mustAsk = !known && !backend.holders;
      const holders = mustAsk ? await queryHoldersToWarn(backend, name) : known;
      // If the backend had to ask, the answer may come after this request was granted.
      if (!mustAsk || !this.#granted) who = ` (${this.#describeBlockers(holders)})`;
    }
    const waited = duration(this.waitDuration());
    return this.#granted || this.#ended
      ? `Waited for ${this.#what} for ${waited}${who}.`
      : `Still waiting for ${this.#what} after ${waited}${who}.`;
  }

  /** @param {import('./holder-queries.js').Holders | undefined} holders */
  #describeBlockers(holders) {
    const { backend } = this.#request;
    prepareForUsers(holders);
    const outage = holders ? undefined : backend.outage?.(this.#request);
    if (outage !== undefined) return describeOutage(outage);
    return describeHolders(holders?.list, backend.grantsIn?.(), undefined, holders?.count);
  }

  /**
   * @returns {import('./holder-queries.js').Holders | undefined} undefined if the backend has to
   *   ask
   */
  #readHolders() {
    const { backend, blocks, name } = this.#request;
    return (blocks ? holdersNow : holdersForTimers)(backend, name, true);
  }

  /** Describes how long the lock is held, or was held. */
  async #describeHold() {
    const { backend, name } = this.#request;
    const waiting = describeWaiting(await queryWaiters(backend, name), backend.outage?.());
    const held = duration(this.holdDuration());
    const place = placeOf(this.#request.origin);
    const where = place && ` It was requested:\n${place}`;
    return this.#released || this.#ended
      ? `Held ${this.#what} for ${held} (${waiting}).${where}`
      : `Still holding ${this.#what} after ${held} (${waiting}).${where}`;
  }

  /** @param {import('node:diagnostics_channel').Channel} to @param {object} more */
  #publish(to, more) {
    if (!to.hasSubscribers) return;
    const { name, mode, backend } = this.#request;
    const { label } = this.#options;
    const asked = this.#asked;
    const waited = this.waitDuration();
    const held = this.holdDuration();
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
 * Sets a timer. If the time is longer than a timer can wait, `then` is called early, with the
 * remaining time.
 * @param {number} milliseconds @param {(rest: number) => void} then
 * @returns {NodeJS.Timeout}
 */
function setLongTimeout(milliseconds, then) {
  // setTimeout truncates fractions and would fire early.
  const part = Math.min(Math.ceil(milliseconds), LONGEST_TIMER);
  return setTimeout(() => then(milliseconds - part), part);
}

/** @param {string | undefined} label */
const labelInParentheses = (label) => (label ? ` (${quote(label)})` : '');

/** @param {import('../options.js').RequestOptions} options */
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
