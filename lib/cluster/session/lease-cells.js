'use strict';

/**
 * The lease of a session, in memory that the session's thread and the keeper's thread share. Each
 * cell has one writer, and is read and written atomically, so no lock is needed. Times are
 * microseconds on the session's clocks.
 *
 * - IS_OPEN, LAST_TURN: written by the session's thread.
 * - IS_DEAD, MONOTONIC_END, CONTINUOUS_END, WALL_END: written by the keeper's thread. The last
 *   three are the end of the lease by each clock, as the keeper extended it last. A reader may see
 *   old and new values together; the server has granted both, so the earliest end is safe.
 *
 * Each session has cells of its own, so that a late answer to the keeper cannot extend the lease of
 * the next session.
 */

/** @import { Clock } from './clock.js' */
/** @import { Times } from './lease.js' */

const IS_OPEN = 0;
const LAST_TURN = 1;
const IS_DEAD = 2;
const MONOTONIC_END = 3;
const CONTINUOUS_END = 4;
const WALL_END = 5;
const COUNT = 6;

const { load, store } = Atomics;
const { floor } = Math;
const toBigInt = BigInt;
const toNumber = Number;

class LeaseCells {
  #cells;

  /** @param {SharedArrayBuffer} [memory] of the cells that the other thread has made */
  constructor(memory = new SharedArrayBuffer(COUNT * BigInt64Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#cells = new BigInt64Array(memory);
  }

  /** @param {number} cell @returns {number} milliseconds */
  #read(cell) {
    return toNumber(load(this.#cells, cell)) / 1000;
  }

  /** @param {number} cell @param {number} milliseconds */
  #write(cell, milliseconds) {
    store(this.#cells, cell, toBigInt(floor(milliseconds * 1000)));
  }

  /** Whether the session can renew its lease itself, as far as it knows. */
  get isOpen() {
    return load(this.#cells, IS_OPEN) === 1n;
  }

  set isOpen(isOpen) {
    store(this.#cells, IS_OPEN, isOpen ? 1n : 0n);
  }

  /** When the event loop of the session's thread turned last, on the monotonic clock. */
  get lastTurn() {
    return this.#read(LAST_TURN);
  }

  set lastTurn(time) {
    this.#write(LAST_TURN, time);
  }

  /** Whether the server has rejected an extension because the session has ended. */
  get isDead() {
    return load(this.#cells, IS_DEAD) === 1n;
  }

  markDead() {
    store(this.#cells, IS_DEAD, 1n);
  }

  /**
   * @param {Times} times when the answered call was sent
   * @param {number} time how long the lease lasts from then on, in milliseconds
   */
  extend({ sent, continuousSent, wallSent }, time) {
    this.#write(MONOTONIC_END, sent + time);
    this.#write(CONTINUOUS_END, continuousSent + time);
    this.#write(WALL_END, wallSent + time);
  }

  /** How many milliseconds the lease still lasts by these cells. @param {Clock} clock */
  rest(clock) {
    return Math.min(
      this.#read(CONTINUOUS_END) - clock.continuous(),
      this.#read(MONOTONIC_END) - clock.monotonic(),
      this.#read(WALL_END) - clock.wall(),
    );
  }
}

module.exports = { LeaseCells };
