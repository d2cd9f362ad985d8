'use strict';

/**
 * The calls to the adapter that are under way. An answer counts only while the connection of its
 * call is in use, and the session gives up this connection if the answer takes too long. Several
 * unanswered steps share one time limit, which begins anew with each answer.
 */

const { unreachableError } = require('./outage.js');

/** @import { Clock } from './clock.js' */
/** @typedef {'open' | 'hello' | 'step' | 'renew' | 'sweep'} Call */
/** @typedef {`no ${Call}`} CallTimeout */

/** @param {Call} call @returns {CallTimeout} */
const timeoutOf = (call) => `no ${call}`;

/** What each call does, for messages. @type {Record<Call, string>} */
const WORK = {
  open: 'the opening of a session',
  hello: 'the greeting of a new connection',
  step: 'a step of requests and releases',
  renew: 'the renewal of the lease',
  sweep: 'the check for expired leases',
};

/** A server that has not answered a call for this many milliseconds counts as silent. */
const SILENT_MS = 1000;

class InFlightCalls {
  connection = 0;
  /** How many calls of each kind are unanswered. @type {Map<Call, number>} */
  #calls = new Map();
  /** When the time limit of each kind began. @type {Map<Call, number>} */
  #since = new Map();
  #clock;
  #timers;
  #react;
  #handleRejection;

  /**
   * @param {Clock} clock
   * @param {{ set: (item: CallTimeout, at: number) => void, clear: (item: CallTimeout) => void }}
   *   timers get an item for each kind of call under way; it is due when the time limit is over
   * @param {(work: () => void) => void} react runs the work that an answer causes
   * @param {(call: Call, error: unknown) => void} handleRejection
   */
  constructor(clock, timers, react, handleRejection) {
    this.#clock = clock;
    this.#timers = timers;
    this.#react = react;
    this.#handleRejection = handleRejection;
  }

  /** @param {Call} call */
  #countUnanswered(call) {
    return this.#calls.get(call) ?? 0;
  }

  /** @param {Call} call */
  has(call) {
    return this.#countUnanswered(call) > 0;
  }

  /**
   * Makes a call. Once the connection is replaced, neither `then` nor `handleRejection` runs.
   * @template T @param {Call} call @param {number} patience the time limit in milliseconds
   * @param {() => Promise<T>} make @param {(result: T) => void} then
   * @param {(error: unknown) => void} [handleRejection]
   */
  async make(
    call,
    patience,
    make,
    then,
    handleRejection = (error) => this.#handleRejection(call, error),
  ) {
    const { connection } = this;
    const others = this.#countUnanswered(call);
    this.#calls.set(call, others + 1);
    if (others === 0) this.#startTimeLimit(call, patience);
    /** @type {() => void} */
    let handleOutcome;
    try {
      const result = await make();
      handleOutcome = () => this.#useResult(result, then, handleRejection);
    } catch (error) {
      handleOutcome = () => handleRejection(error);
    }
    if (connection !== this.connection) return;
    this.#react(() => {
      // `react` may have found the lease expired, which drops the connection.
      if (connection !== this.connection) return;
      this.#handleReply(call, patience);
      handleOutcome();
    });
  }

  /** @param {Call} call @param {number} patience */
  #startTimeLimit(call, patience) {
    const now = this.#clock.monotonic();
    this.#since.set(call, now);
    this.#timers.set(timeoutOf(call), now + patience);
  }

  /** Whether calls of one kind have had no answer for `SILENT_MS`. */
  get isServerSilent() {
    const since = this.#clock.monotonic() - SILENT_MS;
    return [...this.#since].some(([call, asked]) => this.has(call) && asked <= since);
  }

  /**
   * Restarts the time limit for the unanswered calls of this kind, or ends it if there are none.
   * @param {Call} call @param {number} patience
   */
  #handleReply(call, patience) {
    const others = this.#countUnanswered(call) - 1;
    this.#calls.set(call, others);
    if (others > 0) this.#startTimeLimit(call, patience);
    else this.#timers.clear(timeoutOf(call));
  }

  /**
   * If `then` throws, the server's response counts as invalid.
   * @template T @param {T} result @param {(result: T) => void} then
   * @param {(error: unknown) => void} handleRejection
   */
  #useResult(result, then, handleRejection) {
    try {
      then(result);
    } catch (error) {
      // A plain TypeError would not show that the adapter is at fault.
      handleRejection(unreachableError('The server sent an invalid response', error));
    }
  }

  /** @param {CallTimeout} item the item that is due @returns {string} the beginning of a message */
  describeTimeout(item) {
    const call = /** @type {Call} */ (item.slice('no '.length));
    const time = this.#clock.monotonic() - Number(this.#since.get(call));
    const what = WORK[call];
    return `The server did not answer ${what} for ${Math.round(time)} ms, so web-locks reconnects`;
  }

  /** Ignores all further answers over the current connection. */
  dropConnection() {
    this.connection++;
    for (const call of this.#calls.keys()) this.#timers.clear(timeoutOf(call));
    this.#calls.clear();
  }
}

module.exports = { InFlightCalls, SILENT_MS };
