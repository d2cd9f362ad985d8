'use strict';

/**
 * The calls of the adapter that are under way, one of a kind at a time. An answer is listened to
 * on the connection only on which it was asked for, and in its time.
 */

const { unreachableError } = require('../errors.js');

/** @typedef {import('./clock.js').Clock} Clock */
/** @typedef {'open' | 'hello' | 'step' | 'renew' | 'sweep'} Call */
/** @typedef {'no open' | 'no hello' | 'no step' | 'no renew' | 'no sweep'} Silence */

class Calls {
  /** Counts the connections. */
  connection = 0;
  /** Not answered. @type {Set<Call>} */
  #calls = new Set();
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
  has(call) {
    return this.#calls.has(call);
  }

  /**
   * @template T
   * @param {Call} call not under way
   * @param {number} patience milliseconds until it is given up
   * @param {() => Promise<T>} make
   * @param {(result: T) => void} then unless the connection was given up
   */
  async make(call, patience, make, then) {
    const { connection } = this;
    this.#calls.add(call);
    this.#agenda.set(`no ${call}`, this.#clock.monotonic() + patience);
    /** @type {() => void} */
    let use;
    try {
      const result = await make();
      use = () => this.#use(call, result, then);
    } catch (error) {
      use = () => this.#isRejected(call, error);
    }
    if (connection !== this.connection) return;
    this.#react(() => {
      // It may have begun with the end of the lease.
      if (connection !== this.connection) return;
      this.#calls.delete(call);
      this.#agenda.clear(`no ${call}`);
      use();
    });
  }

  /**
   * An answer that is not as the contract has it is none.
   * @template T
   * @param {Call} call
   * @param {T} result
   * @param {(result: T) => void} then
   */
  #use(call, result, then) {
    try {
      then(result);
    } catch (error) {
      // Its type says nothing about who is to blame.
      this.#isRejected(call, unreachableError('An answer is not what was asked for', error));
    }
  }

  /** What was asked is not listened to any more. */
  hangUp() {
    this.connection++;
    for (const call of this.#calls) this.#agenda.clear(`no ${call}`);
    this.#calls.clear();
  }
}

module.exports = { Calls };
