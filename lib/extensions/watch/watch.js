'use strict';

/**
 * Observes a request that has a time limit or a warning, or that is published on diagnostics
 * channels. Most requests have no Watch.
 */

const { threadsNow: now } = require('../../platform/intrinsics.js');
const { LockTimeoutError } = require('../errors/lock-errors.js');
const channels = require('./channels.js');
const { TimeLimits, hasTimeLimit } = require('./time-limits.js');
const { Warning, warnAfterOf } = require('./warnings.js');

const { areSubscribed, publish } = channels;

/** @typedef {InstanceType<typeof import('../request/request.js').Request>} Request */
/** @import { Observer } from '../../standard/lock-request.js' */
/** @import { RequestOptions } from '../options.js' */

/** `granted`, `released` and `ended` are 0 or times of `threadsNow()`. @implements {Observer} */
class Watch {
  id = Symbol('lock request');
  granted = 0;
  released = 0;
  ended = 0;
  /** Whether the grant was announced and the request has not ended. */
  isHoldAnnounced = false;
  /** @type {InstanceType<typeof TimeLimits> | undefined} */
  limits;
  /** @type {InstanceType<typeof Warning> | undefined} */
  #warning;

  /** @param {Request} request @param {number} [asked] the time of the user's call */
  constructor(request, asked = now()) {
    this.request = request;
    this.asked = asked;
    const { options } = request;
    const warnAfter = warnAfterOf(options);
    if (hasTimeLimit(options)) this.limits = new TimeLimits(this);
    if (warnAfter !== undefined) this.#warning = new Warning(this, warnAfter);
  }

  /** @returns {number} milliseconds from the call to the grant or the end, or until now */
  waitDuration() {
    return (this.granted || this.ended || now()) - this.asked;
  }

  /** @returns {number} milliseconds from the grant to the release or the end, or until now */
  holdDuration() {
    return this.granted ? (this.released || this.ended || now()) - this.granted : 0;
  }

  noteGrant() {
    this.granted = now();
  }

  /** Call this before the release: otherwise the next grant could have an earlier time. */
  noteRelease() {
    this.released = now();
  }

  /** Starts the timers of the wait: its warning and its time limit. */
  arm() {
    this.#warning?.begin();
    this.limits?.beginWait();
  }

  /** Removes the time limit of the wait; the warning stays. */
  disarm() {
    this.limits?.endWait();
  }

  warnIfDue() {
    this.#warning?.emitIfDue();
  }

  onStart() {
    publish(channels.start, this, { pending: this.request.isPending });
  }

  /** Starts the timers of the hold, and publishes the grant. */
  onGrant() {
    if (!this.ended) {
      this.isHoldAnnounced = true;
      this.#warning?.begin();
      this.limits?.beginHold();
    }
    publish(channels.grant, this, { token: this.request.token });
  }

  /** Removes the warning, and publishes that the lock is unavailable. */
  onMiss() {
    this.#warning?.end();
    publish(channels.miss, this, { ifAvailable: true });
  }

  /** @param {Error} error */
  onLoss(error) {
    publish(channels.channelOfLoss(error), this, { error });
  }

  /** @param {unknown} reason */
  onAbort(reason) {
    publish(channels.abort, this, { error: reason });
  }

  /** Publishes only a LockTimeoutError. Harmless to repeat after the end. @param {unknown} error */
  onFailure(error) {
    if (error instanceof LockTimeoutError && !this.ended)
      publish(channels.timeout, this, { error });
  }

  /** Removes all timers, and publishes the end. Harmless to repeat. @param {unknown} [error] */
  onEnd(error) {
    if (this.ended) return;
    // `ended` is set after these calls: if one overflows the stack, this function is called again.
    this.limits?.clear();
    this.#warning?.end();
    this.isHoldAnnounced = false;
    this.ended = now();
    const { steal, ifAvailable } = this.request.options;
    const token = this.granted ? this.request.token : undefined;
    publish(channels.end, this, { steal, ifAvailable, error, token });
  }
}

/** Whether an error or warning may show the origin of a request. @param {RequestOptions} options */
const needsOrigin = (options) => hasTimeLimit(options) || warnAfterOf(options) !== undefined;

/** Whether a request needs a Watch. @param {RequestOptions} options */
const isWatched = (options) => needsOrigin(options) || areSubscribed();

module.exports = { Watch, isWatched, needsOrigin };
