'use strict';

/** A request, and later its lock, as its session tracks it. Only the session changes it. */

const { Promise } = require('../../platform/intrinsics.js');

/** @typedef {import('../adapter.js').RequestOp} RequestOp */

/** @typedef {0 | 1 | 2 | 3 | 4 | 5} RequestState */

/** In the send queue, or sent and not answered. @type {0} */
const ASKED = 0;
/** In the queue of its name. @type {1} */
const WAITING = 1;
/** Granted by the server, while the rest of its group is not. @type {2} */
const GRANTED_PARTIAL = 2;
/** @type {3} */
const HELD = 3;
/** Given up here, while the server has not confirmed it. @type {4} */
const ENDING = 4;
/** @type {5} */
const GONE = 5;

class TrackedRequest {
  /** @type {RequestState} */
  state = ASKED;
  token = 0n;
  /** When the user requested it, on the monotonic clock; a new session does not change it. */
  asked = 0;
  /** The number of its last change: see `RequestTable`. */
  news = 0;
  /** The client that stole the lock before its grant arrived, and the server's epoch then. */
  thief = '';
  thiefLife = '';
  /** Milliseconds for which its end marks the name; 0 for no mark. */
  keep = 0;
  /** Why the server answered its last operation with BUSY. @type {unknown} */
  obstacle;
  /** @type {Promise<void> | undefined} */
  #ended;
  /** @type {(() => void) | undefined} */
  #end;

  /**
   * @param {any} owner the backend's object
   * @param {RequestOp} op gets a new `ref` in each session
   */
  constructor(owner, op) {
    this.owner = owner;
    this.op = op;
  }

  /** Settles when it is gone, and never rejects. @returns {Promise<void>} */
  get ended() {
    this.#ended ??= new Promise((resolve) => {
      this.#end = resolve;
    });
    return this.#ended;
  }

  end() {
    this.state = GONE;
    this.#end?.();
    // A new session may request it again.
    this.#ended = this.#end = undefined;
  }
}

/** Whether the request waits until it is granted, instead of failing. @param {RequestOp} op */
const waits = ({ kind }) => kind === 'request' || kind === 'pass';

module.exports = { GRANTED_PARTIAL, ASKED, ENDING, GONE, HELD, TrackedRequest, WAITING, waits };
