'use strict';

/**
 * Announces events to users after the state is complete: first losses, then changes of the session,
 * then answers. Answers come one at a time, and all microtasks run between them, since each answer
 * is a task of its own in § 4.4 "process the lock request queue"
 * (https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue). If user code
 * throws, the remaining events are still announced.
 *
 * If a loss arrives in the event loop (not in a call from user code), the user's promise is
 * rejected in a microtask. Then the stack of the error contains the functions that await the
 * promise. The events after such a loss are announced only after this microtask.
 */

const { nextTick, report, callInMicrotask } = require('../platform/intrinsics.js');

/** @import { Requester } from '../backend/contract.js' */

class Announcements {
  /** @type {Requester[]} */
  #losses = [];
  /** @type {(() => void)[]} */
  #changes = [];
  /** @type {Requester[]} */
  #answers = [];
  #isAnnouncing = false;
  #ticking = false;
  /** Whether changes and answers wait until the promises of lost locks are rejected. */
  #isLosing = false;
  /** The number of the latest microtask of `#continueAfterLosses`; earlier ones do nothing. */
  #waits = 0;

  /** @param {Requester} lock */
  addLoss(lock) {
    this.#losses.push(lock);
  }

  /** @param {() => void} announce */
  addChange(announce) {
    this.#changes.push(announce);
  }

  /** @param {Requester} request */
  addAnswer(request) {
    this.#answers.push(request);
  }

  get hasAnswers() {
    return this.#answers.length > 0;
  }

  /**
   * Announces all losses and changes and the first answer, and schedules the next answer.
   * @param {boolean} isInEventLoop false within a call from user code
   */
  announce(isInEventLoop) {
    if (this.#isAnnouncing) return;
    this.#isAnnouncing = true;
    try {
      this.#announceLossesAndChanges(isInEventLoop);
      if (this.#isLosing || this.#ticking || this.#answers.length === 0) return;
      this.#announceFirst(this.#answers, isInEventLoop, (request) => request.announceAnswer());
      // User code may have stolen a lock of this manager, so announce losses again.
      this.#announceLossesAndChanges(isInEventLoop);
      if (this.#answers.length > 0) this.#scheduleAnswer();
    } catch {
      this.#tryToSchedule();
    } finally {
      this.#isAnnouncing = false;
    }
  }

  /**
   * In the event loop, changes that come with losses are announced only in a later microtask.
   * @param {boolean} isInEventLoop
   */
  #announceLossesAndChanges(isInEventLoop) {
    for (;;) {
      // When a change is announced, user code may close the bucket, which loses locks.
      if (this.#losses.length > 0) {
        this.#isLosing ||= isInEventLoop;
        this.#announceFirst(this.#losses, isInEventLoop, (lock) =>
          lock.announceLoss(isInEventLoop),
        );
      } else if (this.#isLosing) {
        this.#continueAfterLosses();
        return;
      } else if (this.#changes.length > 0) {
        this.#announceFirst(this.#changes, isInEventLoop, (announce) => announce());
      } else {
        return;
      }
    }
  }

  /**
   * Announces the first thing and removes it. If that overflows the stack in a call from user code,
   * the thing stays in the list, and the event loop announces it.
   * @template T @param {T[]} things @param {boolean} isInEventLoop
   * @param {(thing: T) => void} announce harmless to repeat
   */
  #announceFirst(things, isInEventLoop, announce) {
    try {
      announce(things[0]);
    } catch (error) {
      if (!isInEventLoop && error instanceof RangeError) throw error;
      report(error);
    }
    things.shift();
  }

  /** Announces the rest in a microtask, after the promises of lost locks are rejected. */
  #continueAfterLosses() {
    const wait = ++this.#waits;
    callInMicrotask(() => {
      if (wait !== this.#waits) return;
      this.#isLosing = false;
      this.announce(true);
    });
  }

  #scheduleAnswer() {
    if (this.#ticking) return;
    callInMicrotask(() => {
      nextTick(() => {
        this.#ticking = false;
        this.announce(true);
      });
    });
    this.#ticking = true;
  }

  /** Called after a stack overflow, so scheduling may overflow the stack as well. */
  #tryToSchedule() {
    try {
      this.#scheduleAnswer();
    } catch {
      // The next event of the session calls `announce` again.
    }
  }
}

module.exports = { Announcements };
