'use strict';

/**
 * What is to be told to users, once the state that it is about is complete: losses first, then what
 * has become of the session, then answers. Answers one at a time, with all microtasks in between
 * (4.4: each is a task). Users' code that throws does not prevent what is told after it.
 *
 * A loss that comes from the event loop is told in a microtask, in which the error gets the frames
 * of the functions that await it. What comes after losses comes after that.
 */

const { nextTick, report, soon } = require('../platform/intrinsics.js');

/** @typedef {import('../backend/contract.js').Requester} Requester */

class Announcements {
  /** @type {Requester[]} */
  #losses = [];
  /** @type {(() => void)[]} */
  #changes = [];
  /** @type {Requester[]} */
  #answers = [];
  #isAnnouncing = false;
  /** Whether the next answer is told in a tick of its own. */
  #ticking = false;
  /** Whether there are losses whose microtask has not come. */
  #isLosing = false;
  /** Counts the waits for that, of which the last counts. */
  #waits = 0;

  /** @param {Requester} lock */
  loss(lock) {
    this.#losses.push(lock);
  }

  /** @param {() => void} announce */
  change(announce) {
    this.#changes.push(announce);
  }

  /** @param {Requester} request */
  answer(request) {
    this.#answers.push(request);
  }

  /** Whether there are answers that are not announced: each has a turn of its own. */
  get hasAnswers() {
    return this.#answers.length > 0;
  }

  /** @param {boolean} fromEvents not within a call of users' */
  announce(fromEvents) {
    if (this.#isAnnouncing) return;
    this.#isAnnouncing = true;
    try {
      this.#announceNews(fromEvents);
      if (this.#isLosing || this.#ticking || this.#answers.length === 0) return;
      this.#announceOne(this.#answers, fromEvents, (request) => request.announceAnswer());
      // Who hears of it may have stolen.
      this.#announceNews(fromEvents);
      if (this.#answers.length > 0) this.#tick();
    } catch {
      this.#tickAnyhow();
    } finally {
      this.#isAnnouncing = false;
    }
  }

  /** @param {boolean} fromEvents */
  #announceNews(fromEvents) {
    for (;;) {
      // Who hears of a change may close, and lose what is held.
      if (this.#losses.length > 0) {
        this.#isLosing ||= fromEvents;
        this.#announceOne(this.#losses, fromEvents, (lock) => lock.announceLoss(fromEvents));
      } else if (this.#isLosing) {
        this.#goOnAfterLosses();
        return;
      } else if (this.#changes.length > 0) {
        this.#announceOne(this.#changes, fromEvents, (announce) => announce());
      } else {
        return;
      }
    }
  }

  /**
   * What cannot be told for want of stack stays, to be told from the event loop.
   * @template T
   * @param {T[]} things of which the first is told, and taken off
   * @param {boolean} fromEvents
   * @param {(thing: T) => void} announce harmless to call again
   */
  #announceOne(things, fromEvents, announce) {
    try {
      announce(things[0]);
    } catch (error) {
      if (!fromEvents && error instanceof RangeError) throw error;
      report(error);
    }
    things.shift();
  }

  #goOnAfterLosses() {
    const wait = ++this.#waits;
    soon(() => {
      if (wait !== this.#waits) return;
      this.#isLosing = false;
      this.announce(true);
    });
  }

  /** Microtasks that run now come before a tick. */
  #tick() {
    if (this.#ticking) return;
    soon(() => {
      nextTick(() => {
        this.#ticking = false;
        this.announce(true);
      });
    });
    this.#ticking = true;
  }

  /** There was no stack to tell something, in a call of users'. */
  #tickAnyhow() {
    try {
      this.#tick();
    } catch {
      // Not even for that: it is told with what happens next in the session.
    }
  }
}

module.exports = { Announcements };
