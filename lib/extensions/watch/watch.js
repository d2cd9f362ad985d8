'use strict';

/**
 * Follows the course of a request: notes its times, publishes it on diagnostics channels, and
 * starts and ends its time limits and its warning. Most requests need none of these features, and
 * have no Watch.
 */

const { PENDING } = require('../../standard/lock-request.js');
const { threadsNow: now } = require('../../platform/intrinsics.js');
const { LockTimeoutError } = require('../errors/lock-errors.js');
const channels = require('./channels.js');
const { TimeLimits, hasTimeLimit } = require('./time-limits.js');
const { Warning, warnAfterOf } = require('./warnings.js');

const { areSubscribed, publish } = channels;

/** @typedef {InstanceType<typeof import('../request/request.js').Request>} Request */
/** @import { Observer } from '../../standard/lock-request.js' */
/** @import { RequestOptions } from '../options.js' */

/**
 * The fields with times have the time of `threadsNow()`, and are 0 before the event.
 * @implements {Observer}
 */
class Watch {
  /** The id in all messages of the request; no other request of the thread has it. */
  id = Symbol('lock request');
  granted = 0;
  released = 0;
  ended = 0;
  /** Whether the grant was announced and the request has not ended. */
  holds = false;
  /** @type {InstanceType<typeof TimeLimits> | undefined} */
  limits;
  /** @type {InstanceType<typeof Warning> | undefined} */
  #warning;

  /**
   * @param {Request} request
   * @param {number} [asked] when the user called
   */
  constructor(request, asked = now()) {
    this.request = request;
    this.asked = asked;
    const { options } = request;
    const warnAfter = warnAfterOf(options);
    if (hasTimeLimit(options)) this.limits = new TimeLimits(this);
    if (warnAfter !== undefined) this.#warning = new Warning(this, warnAfter);
  }

  /** @returns {number} milliseconds from the call to the grant, or until now */
  waitDuration() {
    return (this.granted || this.ended || now()) - this.asked;
  }

  /** @returns {number} milliseconds from the grant to the release, or until now */
  holdDuration() {
    return this.granted ? (this.released || this.ended || now()) - this.granted : 0;
  }

  /** Records the time of the grant, which may be announced later. */
  noteGrant() {
    this.granted = now();
  }

  /**
   * Records the time of the release. This must happen before the lock is released: otherwise the
   * next holder could publish a grant with an earlier time.
   */
  noteRelease() {
    this.released = now();
  }

  arm() {
    this.#warning?.begin();
    this.limits?.beginWait();
  }

  disarm() {
    this.limits?.endWait();
  }

  /** Called in a blocked thread, in which timers do not run. */
  warnIfDue() {
    this.#warning?.emitIfDue();
  }

  onStart() {
    publish(channels.start, this, { pending: this.request.state === PENDING });
  }

  onGrant() {
    if (!this.ended) {
      this.holds = true;
      this.#warning?.begin();
      this.limits?.beginHold();
    }
    publish(channels.grant, this, { token: this.request.token });
  }

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

  /** @param {unknown} error */
  onFailure(error) {
    if (error instanceof LockTimeoutError) publish(channels.timeout, this, { error });
  }

  /** @param {unknown} [error] */
  onEnd(error) {
    if (this.ended) return;
    // `ended` is set after these calls: if one overflows the stack, this function is called again.
    this.limits?.end();
    this.#warning?.end();
    this.holds = false;
    this.ended = now();
    const { steal, ifAvailable } = this.request.options;
    const token = this.granted ? this.request.token : undefined;
    publish(channels.end, this, { steal, ifAvailable, error, token });
  }
}

/**
 * Whether an error or a warning will show the place of a request, which then needs a Watch.
 * @param {Readonly<RequestOptions>} options
 */
const needsOrigin = (options) => hasTimeLimit(options) || warnAfterOf(options) !== undefined;

/** Whether a request needs a Watch. @param {Readonly<RequestOptions>} options */
const isWatched = (options) => needsOrigin(options) || areSubscribed();

module.exports = { Watch, isWatched, needsOrigin };
