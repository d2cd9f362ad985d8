'use strict';

/**
 * What a manager has to say to the server, in the order in which it was asked: one step at a time,
 * and what comes up while one is under way is the next. A step is kept until it is answered, to be
 * sent again as it was.
 */

/** @typedef {import('../adapter.js').Op} Op */

/** The most operations of a step; a group may have more. */
const MOST = 100;

/**
 * @typedef {object} Unit what goes into one step: an operation, or a group of them; or a barrier
 * @property {Set<Op>} ops
 * @property {() => void} [reached] of a barrier: called when all before it was answered
 */

class Outbox {
  /** Not sent yet. @type {Set<Unit>} */
  #units = new Set();
  /** By operation that is not sent. @type {Map<Op, Unit>} */
  #unitOf = new Map();
  /** Sent, and not answered. @type {Op[]} */
  #step = [];

  get isEmpty() {
    return this.#units.size === 0 && this.#step.length === 0;
  }

  /** @param {Op[]} ops one, or a group */
  add(ops) {
    const unit = { ops: new Set(ops) };
    this.#units.add(unit);
    for (const op of ops) this.#unitOf.set(op, unit);
  }

  /** @param {() => void} reached called when all that is in here was answered, or dropped */
  barrier(reached) {
    if (this.isEmpty) reached();
    else this.#units.add({ ops: new Set(), reached });
  }

  /**
   * @param {Op} op
   * @returns {boolean} whether it could be taken back: false if it was sent
   */
  remove(op) {
    const unit = this.#unitOf.get(op);
    if (!unit) return false;
    this.#unitOf.delete(op);
    unit.ops.delete(op);
    if (unit.ops.size === 0) this.#units.delete(unit);
    this.#passBarriers();
    return true;
  }

  /** @returns {Op[]} the next step, or the one that was not answered; empty if there is nothing */
  next() {
    if (this.#step.length > 0) return this.#step;
    for (const unit of this.#units) {
      const count = this.#step.length;
      if (unit.reached || (count > 0 && count + unit.ops.size > MOST)) break;
      this.#units.delete(unit);
      for (const op of unit.ops) {
        this.#unitOf.delete(op);
        this.#step.push(op);
      }
    }
    return this.#step;
  }

  /** The step that was sent is answered. */
  answered() {
    this.#step = [];
    this.#passBarriers();
  }

  /** Drops everything. */
  clear() {
    const units = [...this.#units];
    this.#units.clear();
    this.#unitOf.clear();
    this.#step = [];
    for (const { reached } of units) reached?.();
  }

  #passBarriers() {
    if (this.#step.length > 0) return;
    for (const unit of this.#units) {
      if (!unit.reached) return;
      this.#units.delete(unit);
      unit.reached();
    }
  }
}

module.exports = { MOST, Outbox };
