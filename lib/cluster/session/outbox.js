'use strict';

/**
 * What a manager has to say to the server, in the order in which it was asked: one step at a time,
 * and what comes up while one is under way is the next. A step has a number, and is kept until it
 * is answered, to be sent again as it was. One that the server refuses, or has missed, is halved,
 * until it is known what of it cannot be done.
 */

/** @typedef {import('../adapter.js').Op} Op */

/** The most operations of a step; a group may have more. */
const MOST = 100;
/** The most code units of their names and labels: what is long to send is answered too late. */
const MOST_UNITS = 2 ** 18;

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
  /** Of the step that was sent, and not answered. @type {Unit[]} */
  #sent = [];
  /** Its number; the last one's, if there is none. */
  number = 0;
  /** The most operations of the next step. */
  #most = MOST;
  /** Since when the server misses what was sent, which cannot be divided. */
  #missedSince = Number.POSITIVE_INFINITY;

  /** Whether a step was sent, and not answered. */
  get hasStep() {
    return this.#sent.length > 0;
  }

  get isEmpty() {
    return this.#units.size === 0 && !this.hasStep;
  }

  /** @param {Op[]} ops one, or a group */
  add(ops) {
    const unit = { ops: new Set(ops) };
    this.#units.add(unit);
    this.#canBeTakenBack(unit);
  }

  /** @param {Unit} unit that is not sent */
  #canBeTakenBack(unit) {
    for (const op of unit.ops) this.#unitOf.set(op, unit);
  }

  /**
   * @param {() => void} reached called when all that is in here was answered, or dropped; if that
   *   is much, when what comes next of it was
   */
  barrier(reached) {
    if (this.isEmpty) {
      reached();
      return;
    }
    const barrier = { ops: new Set(), reached };
    const units = [...this.#units];
    let count = 0;
    const behind = units.findIndex(({ ops }, i) => {
      count += ops.size;
      return i > 0 && count > MOST;
    });
    if (behind < 0) this.#units.add(barrier);
    else this.#units = new Set([...units.slice(0, behind), barrier, ...units.slice(behind)]);
  }

  /** @returns {Iterable<Op>} what is not known to have come to the server */
  *unanswered() {
    for (const { ops } of this.#sent) yield* ops;
    for (const { ops } of this.#units) yield* ops;
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

  /** @param {Op} op @returns {boolean} whether it is sent, and not answered */
  isSent(op) {
    return this.#sent.some(({ ops }) => ops.has(op));
  }

  /**
   * @returns {Op[]} the next step, with the next `number`, or the one that was not answered; empty
   *   if there is nothing
   */
  next() {
    if (this.#sent.length === 0) this.#take();
    return this.#sent.flatMap(({ ops }) => [...ops]);
  }

  #take() {
    let count = 0;
    let size = 0;
    for (const unit of this.#units) {
      size += sizeOf(unit);
      const isFull = count + unit.ops.size > this.#most || size > MOST_UNITS;
      if (unit.reached || (count > 0 && isFull)) break;
      this.#units.delete(unit);
      for (const op of unit.ops) this.#unitOf.delete(op);
      this.#sent.push(unit);
      count += unit.ops.size;
    }
    if (count > 0) this.number++;
  }

  /** The step that was sent is answered. */
  answered() {
    this.#sent = [];
    this.#missedSince = Number.POSITIVE_INFINITY;
    this.#most = Math.min(2 * this.#most, MOST);
    this.#passBarriers();
  }

  /**
   * The step that was sent is not done, and will not be: the next one is half of it.
   * @returns {Op[]} what cannot be divided, which is dropped; empty if it can
   */
  refused() {
    const sent = this.#sent;
    this.#sent = [];
    this.#missedSince = Number.POSITIVE_INFINITY;
    if (sent.length === 1) {
      this.#most = MOST;
      this.#passBarriers();
      return [...sent[0].ops];
    }
    this.#most = Math.ceil(sent.length / 2);
    this.#units = new Set([...sent, ...this.#units]);
    for (const unit of sent) this.#canBeTakenBack(unit);
    return [];
  }

  /**
   * The step that was sent is not done, and will not be by the connection that it was sent by: it
   * is halved. What cannot be divided is sent again for a time.
   * @param {number} now
   * @param {number} patience milliseconds
   * @returns {Op[]} what is dropped, as `refused` does, as that time is over
   */
  missed(now, patience) {
    if (this.#sent.length > 1) return this.refused();
    this.#missedSince = Math.min(this.#missedSince, now);
    return now - this.#missedSince < patience ? [] : this.refused();
  }

  /** Drops everything. */
  clear() {
    const units = [...this.#units];
    this.#units.clear();
    this.#unitOf.clear();
    this.#sent = [];
    this.number = 0;
    this.#most = MOST;
    this.#missedSince = Number.POSITIVE_INFINITY;
    for (const { reached } of units) reached?.();
  }

  #passBarriers() {
    if (this.#sent.length > 0) return;
    for (const unit of this.#units) {
      if (!unit.reached) return;
      this.#units.delete(unit);
      unit.reached();
    }
  }
}

/** @param {Unit} unit @returns {number} code units */
function sizeOf({ ops }) {
  let size = 0;
  for (const op of ops) {
    if (op.kind !== 'end') size += op.name.length + op.label.length;
  }
  return size;
}

module.exports = { MOST, Outbox };
