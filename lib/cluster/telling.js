'use strict';

/**
 * What is to be told to users, once the state that it is about is complete: losses first, then what
 * has become of the session, then answers. Answers one at a time, with all microtasks in between
 * (4.4: each is a task). Users' code that throws keeps nobody else from being told.
 */

const { nextTick, report } = require('../platform/intrinsics.js');

/** @typedef {import('../backend/contract.js').Requester} Requester */

class Telling {
  /** @type {Requester[]} */
  #losses = [];
  /** @type {(() => void)[]} */
  #changes = [];
  /** @type {Requester[]} */
  #answers = [];
  #isTelling = false;
  /** Whether the next answer is told in a tick of its own. */
  #ticking = false;

  /** @param {Requester} lock */
  loss(lock) {
    this.#losses.push(lock);
  }

  /** @param {() => void} tell */
  change(tell) {
    this.#changes.push(tell);
  }

  /** @param {Requester} request */
  answer(request) {
    this.#answers.push(request);
  }

  /** @param {boolean} fromEvents not within a call of users' */
  tell(fromEvents) {
    if (this.#isTelling) return;
    this.#isTelling = true;
    try {
      this.#tellNews(fromEvents);
      if (this.#ticking || this.#answers.length === 0) return;
      this.#tellOne(this.#answers, fromEvents, (request) => request.answer());
      // Who hears of it may have stolen.
      this.#tellNews(fromEvents);
      if (this.#answers.length > 0) this.#tick();
    } catch {
      // No stack for it, in a call of users'.
      this.#tick();
    } finally {
      this.#isTelling = false;
    }
  }

  /** @param {boolean} fromEvents */
  #tellNews(fromEvents) {
    for (;;) {
      // Who hears of a change may close, and lose what is held.
      if (this.#losses.length > 0) {
        this.#tellOne(this.#losses, fromEvents, (lock) => lock.lose(fromEvents));
      } else if (this.#changes.length > 0) {
        this.#tellOne(this.#changes, fromEvents, (tell) => tell());
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
   * @param {(thing: T) => void} tell harmless to call again
   */
  #tellOne(things, fromEvents, tell) {
    try {
      tell(things[0]);
    } catch (error) {
      if (!fromEvents && error instanceof RangeError) throw error;
      report(error);
    }
    things.shift();
  }

  /** Microtasks that run now come before a tick. */
  async #tick() {
    if (this.#ticking) return;
    this.#ticking = true;
    await undefined;
    nextTick(() => {
      this.#ticking = false;
      this.tell(true);
    });
  }
}

module.exports = { Telling };
