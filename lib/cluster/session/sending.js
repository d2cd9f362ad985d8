'use strict';

/** Sends the operations of an open session in steps, and applies their answers (R1 to R4). */

const { BusyRetries } = require('./busy-retries.js');
const { SIGN_OF_LIFE } = require('./renewing.js');
const { isWanted } = require('./tracked-request.js');

/** @import { Answer, Meaning, Op } from '../adapter.js' */
/** @typedef {InstanceType<typeof import('./send-queue.js').SendQueue>} SendQueue */
/** @typedef {NonNullable<SendQueue['first']>} SentStep */
/** @typedef {InstanceType<typeof import('./parts.js').SessionParts>} Parts */

class Sending {
  #parts;
  #busyRetries = new BusyRetries();
  /** Whether a call of `#sendSteps` is scheduled. */
  #isScheduled = false;

  /** @param {Parts} parts */
  constructor(parts) {
    this.#parts = parts;
  }

  /**
   * Sends the queued operations after the promise jobs of the current code. Operations that users
   * request together then share one step, which costs more than its operations. If another step is
   * under way or user callbacks are due, more operations may follow. Then the step is sent only
   * after this turn of the event loop.
   */
  sendSoon() {
    const { clock, listener, sendQueue, status } = this.#parts;
    if (this.#isScheduled || !status.isOpen || !sendQueue.isReady) return;
    const isMoreToCome = sendQueue.first !== undefined || listener.hasPendingAnswers();
    const later = isMoreToCome ? clock.setImmediate : clock.nextTick;
    later(() => {
      this.#isScheduled = false;
      this.#sendSteps();
    });
    this.#isScheduled = true;
  }

  #sendSteps() {
    if (!this.#parts.status.isOpen) return;
    for (;;) {
      const step = this.#parts.sendQueue.takeNext();
      if (!step) return;
      this.#send(step);
    }
  }

  /** @param {SentStep} step */
  #send(step) {
    const { number, ops } = step;
    const before = this.#parts.sendQueue.numberBefore(step);
    this.#parts.timers.setBy('renew', this.#parts.clock.monotonic() + SIGN_OF_LIFE);
    this.#parts.calls.make(
      'step',
      this.#parts.status.ttl / 3,
      () => this.#parts.adapter.step(ops, number, before),
      (answers) => this.#handleReply(step, answers),
      (error) => this.#handleStepRejection(step, error),
    );
  }

  /**
   * Replies may arrive in any order, but are applied in the order of their steps.
   * @param {SentStep} step @param {Answer[]} answers
   */
  #handleReply(step, answers) {
    step.answers = answers;
    step.isAnswered = true;
    const { grants, renewing, sendQueue } = this.#parts;
    for (let { first } = sendQueue; first?.isAnswered; { first } = sendQueue) {
      grants.handleAnswers(first.ops, first.answers);
      sendQueue.finishFirst();
      // A lock that a repeated step granted may have been stolen since; a renewal finds that out.
      if (first.isAgain) renewing.renewIfOpen();
    }
  }

  /**
   * Halves a step that was refused, or fails its only unit; the session handles all other errors.
   * Not called if the link reported first that the connection is lost: see `InFlightCalls.make` and
   * `takeBackMissedSteps`. (A cluster client of Redis reports no such loss and only rejects calls.)
   * @param {SentStep} step @param {unknown} error
   */
  #handleStepRejection(step, error) {
    const { adapter, connection, grants, reactions, sendQueue } = this.#parts;
    // An earlier step was refused, and this step was taken back with it.
    if (!sendQueue.has(step)) return;
    const meaning = adapter.classify(error);
    // If a step was sent only once and is rejected as `dead`, nothing of it was executed. It is
    // taken back, so that its operations count as unsent and the next session repeats its thefts.
    if (meaning === 'dead' && !step.isAgain) sendQueue.takeBack(step);
    if (!isRefusal(meaning) && meaning !== 'local') reactions.handleRejection('step', error);
    // The server has already executed this step, and only refuses to repeat its answers (R1). So
    // the step must not be halved.
    else if (step.isDone) connection.handleDisconnect(error);
    else for (const op of sendQueue.halveOrDrop(step)) grants.handleRefusal(op, error);
  }

  /**
   * Takes back the steps that the server has missed, which were sent over an older connection. It
   * will execute nothing of them any more but ends (R1).
   * @param {number | undefined} done the last executed step; undefined if unknown
   */
  takeBackMissedSteps(done) {
    if (done === undefined) return;
    const { clock, grants, outage, sendQueue, status } = this.#parts;
    const isWanted = (/** @type {Op} */ op) => this.#isWanted(op);
    const ops = sendQueue.takeBackMissedSteps(done, isWanted, clock.monotonic(), status.ttl);
    const error = outage.timeoutError(
      `The server did not answer this request within ${status.ttl} ms, although it answered others`,
    );
    for (const op of ops) grants.handleRefusal(op, error);
  }

  /** @param {Op} op */
  repeatLater(op) {
    this.#parts.timers.setBy('busy', this.#busyRetries.add(op, this.#parts.clock.monotonic()));
  }

  repeatBusy() {
    for (const op of this.#busyRetries.takeDue(this.#parts.clock.monotonic())) {
      if (this.#isWanted(op)) this.#parts.sendQueue.add([op]);
    }
    const { next } = this.#busyRetries;
    if (next < Number.POSITIVE_INFINITY) this.#parts.timers.set('busy', next);
  }

  /** @param {Op} op */
  #isWanted(op) {
    return isWanted(op, this.#parts.requests.get(op.ref));
  }

  clear() {
    this.#busyRetries.clear();
    this.#parts.timers.clear('busy');
    this.#parts.sendQueue.clear();
  }
}

/** @param {Meaning} meaning */
const isRefusal = (meaning) => meaning === 'fatal' || meaning === 'refused';

module.exports = { Sending, isRefusal };
