'use strict';

/** A request as its session tracks it, from the queue to the lock. Only the session changes it. */

const { Promise } = require('../../platform/intrinsics.js');

/** @import { Op, RequestOp } from '../adapter.js' */

/** @typedef {0 | 1 | 2 | 3 | 4 | 5} RequestState */

/** The operation is in the send queue, or was sent and not answered. @type {0} */
const ASKED = 0;
/** The request is in the queue of its name. @type {1} */
const WAITING = 1;
/** The server granted this request, but not yet all requests of its group. @type {2} */
const GRANTED_PARTIAL = 2;
/** @type {3} */
const HELD = 3;
/** The user gave the request up, and the server has not confirmed that yet. @type {4} */
const ENDING = 4;
/** @type {5} */
const GONE = 5;

class TrackedRequest {
  /** @type {RequestState} */
  state = ASKED;
  token = 0n;
  /** When the user made the request, on the monotonic clock; a new session does not change it. */
  asked = 0;
  /** The number of the latest change; see `RequestTable`. */
  lastChange = 0;
  /**
   * The client that stole the lock, if the theft was reported before the grant of the lock, or
   * before the answer to its end; '' for none.
   */
  thief = '';
  thiefLife = '';
  /** The token of the session's latest theft of the name. A lock with a smaller one was stolen. */
  lastTheft = 0n;
  /** For how many milliseconds the end of the request marks the name; 0 for no mark. */
  markFor = 0;
  /** Whether its end was answered, could not mark the name, and it is not known yet why. */
  isUnmarked = false;
  /** The error of the latest BUSY answer to this request. @type {unknown} */
  obstacle;
  /** @type {Promise<void> | undefined} */
  #ended;
  /** @type {(() => void) | undefined} */
  #end;

  /** @param {any} owner the backend's request @param {RequestOp} op a repetition replaces it */
  constructor(owner, op) {
    this.owner = owner;
    this.op = op;
  }

  /** Resolves when the request has ended; never rejects. @returns {Promise<void>} */
  get ended() {
    this.#ended ??= new Promise((resolve) => {
      this.#end = resolve;
    });
    return this.#ended;
  }

  /** Resolves `ended`. */
  resolveEnded() {
    this.#end?.();
    // The request may be repeated, and then it ends once more.
    this.#ended = this.#end = undefined;
  }
}

/**
 * Whether an operation must still be sent. A request must not be sent if the user has withdrawn it
 * meanwhile, or if a hint has reported it as granted. The publication of a lock that has ended must
 * not be sent, either.
 * @param {Op} op @param {TrackedRequest | undefined} tracked its request
 */
function isWanted({ kind }, tracked) {
  if (kind === 'end') return true;
  return tracked?.state === (kind === 'publish' ? HELD : ASKED);
}

module.exports = {
  GRANTED_PARTIAL,
  ASKED,
  ENDING,
  GONE,
  HELD,
  TrackedRequest,
  WAITING,
  isWanted,
};
