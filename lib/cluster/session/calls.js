'use strict';

/**
 * The calls of the adapter that are under way, one of a kind at a time, but for steps. An answer is
 * listened to on the connection only on which it was asked for, and in its time; one of several of
 * a kind has its time from when the one before it was answered.
 */

const { unreachableError } = require('../errors.js');

/** @typedef {import('./clock.js').Clock} Clock */
/** @typedef {'open' | 'hello' | 'step' | 'renew' | 'sweep'} Call */
/** @typedef {'no open' | 'no hello' | 'no step' | 'no renew' | 'no sweep'} Silence */

/** @type {Record<Call, Silence>} */
const SILENCES = {
  open: 'no open',
  hello: 'no hello',
  step: 'no step',
  renew: 'no renew',
  sweep: 'no sweep',
};

/**
 * A server that has not answered a call for this many milliseconds is said to be silent. On a slow
 * network a healthy server answers in less.
 */
const SILENT_MS = 1000;

class Calls {
  /** Counts the connections. */
  connection = 0;
  /** How many are not answered, of those that were ever made. @type {Map<Call, number>} */
  #calls = new Map();
  /** Since when the server has left calls of a kind unanswered. @type {Map<Call, number>} */
  #since = new Map();
  #clock;
  #agenda;
  #react;
  #isRejected;

  /**
   * @param {Clock} clock
   * @param {{ set: (item: Silence, at: number) => void, clear: (item: Silence) => void }} agenda
   *   `no …` is on it for each call: when it is due, the call was not answered in time
   * @param {(work: () => void) => void} react in which what was answered is done
   * @param {(call: Call, error: unknown) => void} isRejected
   */
  constructor(clock, agenda, react, isRejected) {
    this.#clock = clock;
    this.#agenda = agenda;
    this.#react = react;
    this.#isRejected = isRejected;
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
   * @template T
   * @param {Call} call
   * @param {number} patience milliseconds until it is given up
   * @param {() => Promise<T>} make
   * @param {(result: T) => void} then unless the connection was given up
   * @param {(error: unknown) => void} [isRejected] the same
   */
  async make(call, patience, make, then, isRejected = (error) => this.#isRejected(call, error)) {
    const { connection } = this;
    const others = this.#unanswered(call);
    this.#calls.set(call, others + 1);
    if (others === 0) this.#await(call, patience);
    /** @type {() => void} */
    let use;
    try {
      const result = await make();
      use = () => this.#use(result, then, isRejected);
    } catch (error) {
      use = () => isRejected(error);
    }
    if (connection !== this.connection) return;
    this.#react(() => {
      // It may have begun with the end of the lease.
      if (connection !== this.connection) return;
      this.#isAnswered(call, patience);
      use();
    });
  }

  /**
   * @param {Call} call
   * @param {number} patience
   */
  #await(call, patience) {
    const now = this.#clock.monotonic();
    this.#since.set(call, now);
    this.#agenda.set(SILENCES[call], now + patience);
  }

  /** Whether a call is unanswered for so long that the server seems to be down. */
  get isServerSilent() {
    const since = this.#clock.monotonic() - SILENT_MS;
    return [...this.#since].some(([call, asked]) => this.has(call) && asked <= since);
  }

  /**
   * @param {Call} call
   * @param {number} patience
   */
  #isAnswered(call, patience) {
    const others = this.#unanswered(call) - 1;
    this.#calls.set(call, others);
    if (others > 0) this.#await(call, patience);
    else this.#agenda.clear(SILENCES[call]);
  }

  /**
   * An answer that is not as the contract has it is none.
   * @template T
   * @param {T} result
   * @param {(result: T) => void} then
   * @param {(error: unknown) => void} isRejected
   */
  #use(result, then, isRejected) {
    try {
      then(result);
    } catch (error) {
      // Its type says nothing about who is to blame.
      isRejected(unreachableError('An answer is not what was asked for', error));
    }
  }

  /** What was asked is not listened to any more. */
  hangUp() {
    this.connection++;
    for (const call of this.#calls.keys()) this.#agenda.clear(SILENCES[call]);
    this.#calls.clear();
  }
}

module.exports = { Calls, SILENT_MS };
