'use strict';

/** Sends the operations of an open session in steps, and applies their answers (R1 to R4). */

const { BusyRetries } = require('./busy-retries.js');
const { SIGN_OF_LIFE } = require('./renewing.js');
const { isWanted } = require('./tracked-request.js');

/** @import { Adapter, Answer, Meaning, Op } from '../adapter.js' */
/** @import { Clock } from './clock.js' */
/** @import { SessionTimers } from './session.js' */
/** @typedef {InstanceType<typeof import('./send-queue.js').SendQueue>} SendQueue */
/** @typedef {NonNullable<SendQueue['first']>} SentStep */

class Sending {
  #adapter;
  #calls;
  #clock;
  #grants;
  #listener;
  #outage;
  #requests;
  #sendQueue;
  #status;
  #timers;
  #session;
  #busyRetries = new BusyRetries();
  /** Whether a call of `#sendSteps` is scheduled. */
  #isScheduled = false;

  /**
   * @param {object} parts of the session @param {Adapter} parts.adapter
   * @param {InstanceType<typeof import('./in-flight-calls.js').InFlightCalls>} parts.calls
   * @param {Clock} parts.clock
   * @param {InstanceType<typeof import('./grants.js').Grants>} parts.grants
   * @param {import('./session.js').Listener} parts.listener
   * @param {InstanceType<typeof import('./outage.js').Outage>} parts.outage
   * @param {InstanceType<typeof import('./request-table.js').RequestTable>} parts.requests
   * @param {SendQueue} parts.sendQueue
   * @param {InstanceType<typeof import('./status.js').Status>} parts.status
   * @param {SessionTimers} parts.timers
   * @param {object} session
   * @param {() => void} session.renewIfOpen
   * @param {(error: unknown) => void} session.handleRejection of a step
   * @param {(error: unknown) => void} session.handleDisconnect
   */
  constructor(parts, session) {
    this.#adapter = parts.adapter;
    this.#calls = parts.calls;
    this.#clock = parts.clock;
    this.#grants = parts.grants;
    this.#listener = parts.listener;
    this.#outage = parts.outage;
    this.#requests = parts.requests;
    this.#sendQueue = parts.sendQueue;
    this.#status = parts.status;
    this.#timers = parts.timers;
    this.#session = session;
  }

  /**
   * Sends the queued operations after the promise jobs of the current code. Operations that users
   * request together then share one step, which costs more than its operations. If another step is
   * under way or user callbacks are due, more operations may follow. Then the step is sent only
   * after this turn of the event loop.
   */
  sendSoon() {
    if (this.#isScheduled || !this.#status.isOpen || !this.#sendQueue.isReady) return;
    const isMoreToCome = this.#sendQueue.first !== undefined || this.#listener.hasPendingAnswers();
    const later = isMoreToCome ? this.#clock.setImmediate : this.#clock.nextTick;
    later(() => {
      this.#isScheduled = false;
      this.#sendSteps();
    });
    this.#isScheduled = true;
  }

  #sendSteps() {
    if (!this.#status.isOpen) return;
    for (;;) {
      const step = this.#sendQueue.takeNext();
      if (!step) return;
      this.#send(step);
    }
  }

  /** @param {SentStep} step */
  #send(step) {
    const { number, ops } = step;
    const before = this.#sendQueue.numberBefore(step);
    this.#timers.setBy('renew', this.#clock.monotonic() + SIGN_OF_LIFE);
    this.#calls.make(
      'step',
      this.#status.ttl / 3,
      () => this.#adapter.step(ops, number, before),
      (answers) => this.#handleReply(step, answers),
      (error) => this.#handleUnexecuted(step, error),
    );
  }

  /**
   * Replies may arrive in any order, but are applied in the order of their steps.
   * @param {SentStep} step @param {Answer[]} answers
   */
  #handleReply(step, answers) {
    step.answers = answers;
    step.isAnswered = true;
    for (let { first } = this.#sendQueue; first?.isAnswered; { first } = this.#sendQueue) {
      this.#grants.handleAnswers(first.ops, first.answers);
      this.#sendQueue.finishFirst();
      // A lock that a repeated step granted may have been stolen since; a renewal finds that out.
      if (first.isAgain) this.#session.renewIfOpen();
    }
  }

  /**
   * Halves a step that was refused, or fails its only unit; the session handles all other errors.
   * @param {SentStep} step @param {unknown} error
   */
  #handleUnexecuted(step, error) {
    // An earlier step was refused, and this step was taken back with it.
    if (!this.#sendQueue.has(step)) return;
    const kind = this.#adapter.classify(error);
    // If a step was sent only once and is rejected as `dead`, nothing of it was executed. It is
    // taken back, so that its operations count as unsent and the next session repeats its thefts.
    if (kind === 'dead' && !step.isAgain) this.#sendQueue.takeBack(step);
    if (!isRefusal(kind) && kind !== 'local') this.#session.handleRejection(error);
    // The server has already executed this step, and only refuses to repeat its answers (R1). So
    // the step must not be halved.
    else if (step.isDone) this.#session.handleDisconnect(error);
    else for (const op of this.#sendQueue.halveOrDrop(step)) this.#grants.handleRefusal(op, error);
  }

  /**
   * Takes back the steps that the server has missed: they were sent over an older connection, so
   * the server will never execute them.
   * @param {number | undefined} done the last executed step; undefined if unknown
   */
  dropMissedSteps(done) {
    if (done === undefined) return;
    const { ttl } = this.#status;
    const isWanted = (/** @type {Op} */ op) => this.#isWanted(op);
    const now = this.#clock.monotonic();
    const ops = this.#sendQueue.dropMissedSteps(done, isWanted, now, ttl);
    const error = this.#outage.timeoutError(
      `The server did not answer this request within ${ttl} ms, although it answered others`,
    );
    for (const op of ops) this.#grants.handleRefusal(op, error);
  }

  /** @param {Op} op */
  repeatLater(op) {
    this.#timers.setBy('busy', this.#busyRetries.add(op, this.#clock.monotonic()));
  }

  repeatBusy() {
    for (const op of this.#busyRetries.takeDue(this.#clock.monotonic())) {
      if (this.#isWanted(op)) this.#sendQueue.add([op]);
    }
    const { next } = this.#busyRetries;
    if (next < Number.POSITIVE_INFINITY) this.#timers.set('busy', next);
  }

  /** @param {Op} op */
  #isWanted(op) {
    return isWanted(op, this.#requests.get(op.ref));
  }

  clear() {
    this.#busyRetries.clear();
    this.#timers.clear('busy');
    this.#sendQueue.clear();
  }
}

/** @param {Meaning} kind */
const isRefusal = (kind) => kind === 'fatal' || kind === 'refused';

module.exports = { Sending, isRefusal };
