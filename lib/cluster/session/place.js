'use strict';

/**
 * A request's place in the queue of its name, and then its lock, as its session knows it. Only the
 * session changes it.
 */

const { Promise } = require('../../platform/intrinsics.js');

/** @typedef {import('../adapter.js').RequestOp} RequestOp */

/** @typedef {0 | 1 | 2 | 3 | 4 | 5} PlaceState */

/** In the outbox, or on its way: not answered. @type {0} */
const ASKED = 0;
/** In the queue. @type {1} */
const WAITING = 1;
/** Granted by the server, and not held here: the rest of its group is not granted. @type {2} */
const ALLOTTED = 2;
/** @type {3} */
const HELD = 3;
/** Given up here, and not known to be so at the server. @type {4} */
const ENDING = 4;
/** @type {5} */
const GONE = 5;

class Place {
  /** @type {PlaceState} */
  state = ASKED;
  token = 0n;
  /** When it was asked for, on the monotonic clock; not anew in another session. */
  asked = 0;
  /** Of the news that the session had of its places, the last one about this. */
  news = 0;
  /** Who stole the lock before the answer that it was granted came, in which life of the server. */
  thief = '';
  thiefLife = '';
  /** Milliseconds for which its end marks the name; 0 for no mark. */
  keep = 0;
  /** Why the server could not do what was asked last, if it said so. @type {unknown} */
  obstacle;
  /** @type {Promise<void> | undefined} */
  #ended;
  /** @type {(() => void) | undefined} */
  #end;

  /**
   * @param {any} owner whose it is
   * @param {RequestOp} op how it was asked for; its `ref` is another one in each session
   */
  constructor(owner, op) {
    this.owner = owner;
    this.op = op;
  }

  /** @returns {Promise<void>} settles when it is gone; never rejects */
  get ended() {
    this.#ended ??= new Promise((resolve) => {
      this.#end = resolve;
    });
    return this.#ended;
  }

  end() {
    this.state = GONE;
    this.#end?.();
    // It may be asked for again.
    this.#ended = this.#end = undefined;
  }
}

module.exports = { ALLOTTED, ASKED, ENDING, GONE, HELD, Place, WAITING };
