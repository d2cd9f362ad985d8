'use strict';

/**
 * The adapter's calls that are under way. Only the connection on which a call was made may answer
 * it, and within its time limit. Of several steps, one is timed at a time: the next begins when the
 * one before is answered.
 */

const { unreachableError } = require('../errors.js');

/** @typedef {import('./clock.js').Clock} Clock */
/** @typedef {'open' | 'hello' | 'step' | 'renew' | 'sweep'} Call */
/** @typedef {'no open' | 'no hello' | 'no step' | 'no renew' | 'no sweep'} CallTimeout */

/** @type {Record<Call, CallTimeout>} */
const CALL_TIMEOUTS = {
  open: 'no open',
  hello: 'no hello',
  step: 'no step',
  renew: 'no renew',
  sweep: 'no sweep',
};

/**
 * A server that leaves a call unanswered for so many milliseconds counts as silent. A healthy
 * server answers in less, even on a slow network.
 */
const SILENT_MS = 1000;

class InFlightCalls {
  /** The number of the current connection. */
  connection = 0;
  /** How many calls of each kind are not answered. @type {Map<Call, number>} */
  #calls = new Map();
  /** When the unanswered call of each kind began to be timed. @type {Map<Call, number>} */
  #since = new Map();
  #clock;
  #timers;
  #react;
  #handleRejection;

  /**
   * @param {Clock} clock
   * @param {{ set: (item: CallTimeout, at: number) => void, clear: (item: CallTimeout) => void }}
   *   timers
   *   has an item `no …` for each call under way: if it becomes due, the call exceeded its time
   *   limit
   * @param {(work: () => void) => void} react runs what an answer leads to
   * @param {(call: Call, error: unknown) => void} handleRejection
   */
  constructor(clock, timers, react, handleRejection) {
    this.#clock = clock;
    this.#timers = timers;
    this.#react = react;
    this.#handleRejection = handleRejection;
  }

  /** @param {Call} call */
  #unanswered(call) {
    return this.#calls.get(call) ?? 0;
  }

  /** @param {Call} call */
  has(call) {
    return this.#unanswered(call) > 0;
  }

  /**
   * `then` and `handleRejection` are not called once the connection was replaced.
   * @template T @param {Call} call
   * @param {number} patience the time limit in milliseconds
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
    const others = this.#unanswered(call);
    this.#calls.set(call, others + 1);
    if (others === 0) this.#await(call, patience);
    /** @type {() => void} */
    let use;
    try {
      const result = await make();
      use = () => this.#use(result, then, handleRejection);
    } catch (error) {
      use = () => handleRejection(error);
    }
    if (connection !== this.connection) return;
    this.#react(() => {
      // `react` may have ended the lease, and with it the connection.
      if (connection !== this.connection) return;
      this.#handleReply(call, patience);
      use();
    });
  }

  /** @param {Call} call @param {number} patience */
  #await(call, patience) {
    const now = this.#clock.monotonic();
    this.#since.set(call, now);
    this.#timers.set(CALL_TIMEOUTS[call], now + patience);
  }

  /** Whether the server left a call unanswered for so long that it seems to be down. */
  get isServerSilent() {
    const since = this.#clock.monotonic() - SILENT_MS;
    return [...this.#since].some(([call, asked]) => this.has(call) && asked <= since);
  }

  /** @param {Call} call @param {number} patience */
  #handleReply(call, patience) {
    const others = this.#unanswered(call) - 1;
    this.#calls.set(call, others);
    if (others > 0) this.#await(call, patience);
    else this.#timers.clear(CALL_TIMEOUTS[call]);
  }

  /**
   * Treats an answer that breaks the contract as a rejection.
   * @template T @param {T} result @param {(result: T) => void} then
   * @param {(error: unknown) => void} handleRejection
   */
  #use(result, then, handleRejection) {
    try {
      then(result);
    } catch (error) {
      // The error alone (a TypeError, say) would not show that the adapter is at fault.
      handleRejection(unreachableError('The response of the server cannot be read', error));
    }
  }

  /** Ignores all answers of the connection. */
  hangUp() {
    this.connection++;
    for (const call of this.#calls.keys()) this.#timers.clear(CALL_TIMEOUTS[call]);
    this.#calls.clear();
  }
}

module.exports = { InFlightCalls, SILENT_MS };
