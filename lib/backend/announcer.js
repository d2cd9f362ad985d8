'use strict';

/**
 * Announces events to users after the state is complete: first losses, then changes of a session,
 * then answers. If user code throws, the remaining events are still announced.
 *
 * Each answer is a task of its own in § 4.4 "process the lock request queue"
 * (https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue). So of several
 * answers that are queued, each has a tick, and all microtasks run between two of them. An answer
 * that is queued later waits at least until user code was called with the one before.
 *
 * If a loss arrives in the event loop (not in a call from user code), the user's promise is
 * rejected in a microtask. Then the stack of the error contains the functions that await the
 * promise. The changes and answers after such a loss are announced only after this microtask.
 */

const { nextTick, report, callInMicrotask } = require('../platform/intrinsics.js');
const { NO_TAG } = require('./contract.js');

/** @import { Requester } from './contract.js' */

/** Emptying a shorter list would save too little memory to be worth the work. */
const LEAST_TO_DROP = 1024;

/** @param {Requester} request */
const announceAnswer = (request) => request.announceAnswer();
/** @param {Requester} lock */
const announceLossInCall = (lock) => lock.announceLoss(false);
/** @param {Requester} lock */
const announceLossFromEvents = (lock) => lock.announceLoss(true);
/** @param {() => void} announce */
const announceChange = (announce) => announce();

/** What must still be announced, in order. @template T */
class Unannounced {
  /** Shrinks only once the queue is empty. @type {(T | undefined)[]} */
  #things = [];
  #first = 0;
  #end = 0;

  get isEmpty() {
    return this.#first === this.#end;
  }

  get first() {
    return this.#things[this.#first];
  }

  /** @param {T} thing */
  add(thing) {
    this.#things[this.#end] = thing;
    this.#end++;
  }

  /**
   * Within a call from user code, an error is a stack overflow: the thing stays in the queue, and
   * the event loop announces it later. In the event loop, an error is only reported, and the queue
   * goes on with the next thing.
   * @param {(thing: T) => void} announce may be called again with the same thing
   * @param {boolean} isInEventLoop
   */
  announceFirst(announce, isInEventLoop) {
    if (this.isEmpty) return;
    try {
      announce(/** @type {T} */ (this.#things[this.#first]));
    } catch (error) {
      if (!isInEventLoop) throw error;
      report(error);
    }
    this.#things[this.#first] = undefined;
    this.#first++;
    if (!this.isEmpty) return;
    if (this.#end >= LEAST_TO_DROP) this.#things = [];
    this.#first = 0;
    this.#end = 0;
  }
}

class Announcer {
  /** @type {Unannounced<Requester>} */
  #losses = new Unannounced();
  /** @type {Unannounced<() => void>} */
  #changes = new Unannounced();
  /** The requests that were granted, are unavailable, or failed. @type {Unannounced<Requester>} */
  #answers = new Unannounced();
  /** Counts the announcements that were queued. Once all of them are done, it is set to 0. */
  count = 0;
  /** The request whose answer is not delivered yet. @type {Requester | undefined} */
  lastAnnounced;
  #isAnnouncing = false;
  /** Whether a tick will announce the next answer. */
  #isTicking = false;
  /** Whether changes and answers wait until the promises of lost locks are rejected. */
  #isLosing = false;
  /** The number of the latest microtask of `#continueAfterLosses`; earlier ones do nothing. */
  #waits = 0;
  #undo;

  /**
   * @param {(tag: number) => unknown} [undo] called with NO_TAG after a stack overflow; see
   *   contract.js. It makes the event loop call `announce`; by default, a tick does so
   */
  constructor(undo) {
    this.#undo = undo;
  }

  /** @param {Requester} lock */
  addLoss(lock) {
    this.#losses.add(lock);
    this.count++;
  }

  /** @param {() => void} announce */
  addChange(announce) {
    this.#changes.add(announce);
    this.count++;
  }

  /** @param {Requester} request was granted, is unavailable, or failed */
  addAnswer(request) {
    this.#answers.add(request);
    this.count++;
  }

  get hasAnswers() {
    return !this.#answers.isEmpty;
  }

  /**
   * See contract.js.
   * @param {Requester} request
   * @returns {boolean} true if the answer was queued behind others; a tick will announce it
   */
  defer(request) {
    const isFirst = this.#answers.isEmpty;
    if (isFirst && !this.#isDelivering) return false;
    this.addAnswer(request);
    if (isFirst) this.#announceInTick();
    return true;
  }

  /** Whether the user code that the last answer is for has not been called yet. */
  get #isDelivering() {
    if (this.lastAnnounced?.isDelivered) this.lastAnnounced = undefined;
    return this.lastAnnounced !== undefined;
  }

  /**
   * Announces all losses and changes and one answer. A tick announces the next answer.
   * @param {boolean} isInEventLoop false within a call from user code
   */
  announce(isInEventLoop) {
    if (this.#isAnnouncing) return;
    this.#isAnnouncing = true;
    try {
      this.#announceLossesAndChanges(isInEventLoop);
      if (this.#isLosing || this.#isTicking || this.#answers.isEmpty) return;
      if (!this.#isDelivering) {
        this.lastAnnounced = this.#answers.first;
        this.#answers.announceFirst(announceAnswer, isInEventLoop);
        // User code may have stolen a lock, so announce losses again.
        this.#announceLossesAndChanges(isInEventLoop);
      }
      if (!this.#answers.isEmpty) this.#announceInTick();
    } catch {
      if (this.#undo) this.#undo(NO_TAG);
      else this.#tryToTick();
    } finally {
      this.#isAnnouncing = false;
      if (this.#losses.isEmpty && this.#changes.isEmpty && this.#answers.isEmpty) this.count = 0;
    }
  }

  /**
   * Called on an empty stack: all microtasks and ticks have run before, so a tick that still seems
   * to be queued was lost in a stack overflow.
   */
  forgetTick() {
    this.#isTicking = false;
    this.lastAnnounced = undefined;
  }

  /**
   * In the event loop, changes that come with losses are announced only in a later microtask.
   * @param {boolean} isInEventLoop
   */
  #announceLossesAndChanges(isInEventLoop) {
    const announceLoss = isInEventLoop ? announceLossFromEvents : announceLossInCall;
    for (;;) {
      // When a change is announced, user code may close the bucket, which loses locks.
      if (!this.#losses.isEmpty) {
        this.#isLosing ||= isInEventLoop;
        this.#losses.announceFirst(announceLoss, isInEventLoop);
      } else if (this.#isLosing) {
        this.#continueAfterLosses();
        return;
      } else if (!this.#changes.isEmpty) {
        this.#changes.announceFirst(announceChange, isInEventLoop);
      } else {
        return;
      }
    }
  }

  /** Announces the rest in a microtask, after the promises of lost locks are rejected. */
  #continueAfterLosses() {
    const wait = this.#waits + 1;
    callInMicrotask(() => {
      if (wait !== this.#waits) return;
      this.#isLosing = false;
      this.announce(true);
    });
    this.#waits = wait;
  }

  #announceInTick() {
    if (this.#isTicking) return;
    callInMicrotask(this.#queueTick);
    this.#isTicking = true;
  }

  /**
   * The microtasks of a callback must run before the next callback is called. So this function is
   * called in a microtask: the tick that it queues runs after all microtasks, and Node.js runs the
   * microtasks again before the next tick.
   */
  #queueTick = () => {
    nextTick(() => {
      this.forgetTick();
      this.announce(true);
    });
  };

  /** After a stack overflow, which this may cause again. */
  #tryToTick() {
    try {
      this.#announceInTick();
    } catch {
      // The next event calls `announce` again.
    }
  }
}

module.exports = { Announcer };
