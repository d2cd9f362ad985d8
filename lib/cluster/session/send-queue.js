'use strict';

/**
 * The session's send queue: operations in the order in which they were requested. They are sent in
 * numbered steps, of which up to `window` may be under way. A step contains the number of the
 * unanswered step before it, and the server executes it only after that step (R1). A step without
 * an answer is sent again over the next connection, unchanged if the server has not missed it.
 *
 * If the server refuses or misses a step, this step and all later steps are taken back. The next
 * step is half as long, until it contains only the operation at fault (R3). A session never reuses
 * a number, so there may be gaps between the numbers of unanswered steps. But the numbers must
 * differ by less than `window`, because the server keeps the answers of the last `window` numbers.
 */

/** @import { Answer, Op } from '../adapter.js' */

/** The greatest number of operations in a step; only a step of one group may have more. */
const MOST = 100;
/**
 * The greatest total length of the names, labels and data in a step, in code units. The server
 * might not answer a longer step in time, so only a single operation or group may be longer.
 */
const MOST_UNITS = 2 ** 18;

/**
 * @typedef {object} Unit an operation or a group, which is never divided between steps; or a
 *   barrier
 * @property {Op[]} ops
 * @property {(isDropped: boolean) => void} [reached] only of a barrier: called with false when
 *   everything ahead of the barrier was answered or dropped, or with true when `clear` drops it
 */

/** @typedef {{ unit?: Unit, since: number }} Missed */

class QueuedStep {
  /** Whether the step was sent over the current connection. */
  isUnderWay = false;
  /** Whether the step was sent over an earlier connection. */
  isAgain = false;
  /** Whether a renewal showed that the server executed the step. */
  isDone = false;
  isAnswered = false;
  /** @type {Answer[]} */
  answers = [];

  /** @param {number} number @param {Unit[]} units */
  constructor(number, units) {
    this.number = number;
    this.units = units;
    this.ops = units.length === 1 ? units[0].ops : units.flatMap(({ ops }) => ops);
  }
}

class SendQueue {
  /** The units to send, in their order. @type {Set<Unit>} */
  #units = new Set();
  /** @type {Map<Op, Unit>} */
  #unitOf = new Map();
  /** The steps whose answers have not been applied, in their order. @type {QueuedStep[]} */
  #steps = [];
  #number = 0;
  #window;
  /** The most operations of the next step. A refusal lowers it to half of the step's units. */
  #most = MOST;
  /** The indivisible unit that the server missed last, and since when. @type {Missed} */
  #missed = { since: 0 };

  /** @param {number} window */
  constructor(window) {
    this.#window = window;
  }

  /** The oldest step whose answers were not applied; undefined for none. */
  get first() {
    return this.#steps[0];
  }

  /** Whether no unit is queued and no step is unanswered. */
  get isEmpty() {
    return this.#units.size === 0 && this.#steps.length === 0;
  }

  /** Whether a step may be sent now, unless a barrier holds it back. */
  get isReady() {
    return this.#unsent !== undefined || (this.#units.size > 0 && this.#hasRoom);
  }

  /** The first step to send again over the current connection; undefined for none. */
  get #unsent() {
    return this.#steps.find(({ isUnderWay }) => !isUnderWay);
  }

  get #hasRoom() {
    return !this.first || this.#number + 1 - this.first.number < this.#window;
  }

  /** @param {Op[]} ops one operation or a group */
  add(ops) {
    const unit = { ops };
    this.#units.add(unit);
    this.#remember(unit);
  }

  /** Adds an end ahead of all, because its request may block unsent ones. @param {Op} op */
  addFirst(op) {
    const unit = { ops: [op] };
    this.#units = new Set([unit, ...this.#units]);
    this.#remember(unit);
  }

  /** @param {Unit} unit */
  #remember(unit) {
    for (const op of unit.ops) this.#unitOf.set(op, unit);
  }

  /** Calls `reached` at once if empty. @param {NonNullable<Unit['reached']>} reached see Unit */
  addBarrier(reached) {
    const barrier = { ops: [], reached };
    if (this.isEmpty) reached(false);
    else this.#units.add(barrier);
    return barrier;
  }

  /** Lets a barrier wait only for sent steps; returns the overtaken units. @param {Unit} barrier */
  moveToFront(barrier) {
    const units = [...this.#units];
    const at = units.indexOf(barrier);
    if (at < 0) return [];
    const [passed, behind] = [units.slice(0, at), units.slice(at + 1)];
    this.#units = new Set([barrier, ...passed, ...behind]);
    this.#passBarriers();
    return passed;
  }

  /** Takes an operation back; returns false if it was already sent. @param {Op} op */
  remove(op) {
    const unit = this.#unitOf.get(op);
    if (!unit) return false;
    this.#unitOf.delete(op);
    // A step may use the list, so it is replaced and not changed.
    unit.ops = unit.ops.filter((one) => one !== op);
    if (unit.ops.length === 0) this.#units.delete(unit);
    this.#passBarriers();
    return true;
  }

  /** Whether the operation was sent and not answered. @param {Op} op */
  isInFlight(op) {
    return this.#steps.some(({ units }) => units.some(({ ops }) => ops.includes(op)));
  }

  /** Whether the step was neither answered nor taken back. @param {QueuedStep} step */
  has(step) {
    return this.#steps.includes(step);
  }

  /** Returns the next step to send, and marks it as under way; undefined for none. */
  takeNext() {
    const step = this.#unsent ?? this.#makeStep();
    if (step) step.isUnderWay = true;
    return step;
  }

  /** The number of the step before this one in the queue; 0 for none. @param {QueuedStep} step */
  numberBefore(step) {
    return this.#steps[this.#steps.indexOf(step) - 1]?.number ?? 0;
  }

  /** Makes a step of queued units; undefined for none, at a barrier, or if the window is full. */
  #makeStep() {
    if (!this.#hasRoom) return undefined;
    const units = [];
    let count = 0;
    let size = 0;
    for (const unit of this.#units) {
      size += sizeOf(unit);
      const isFull = count + unit.ops.length > this.#most || size > MOST_UNITS;
      if (unit.reached || (count > 0 && isFull)) break;
      this.#units.delete(unit);
      for (const op of unit.ops) this.#unitOf.delete(op);
      units.push(unit);
      count += unit.ops.length;
    }
    if (count === 0) return undefined;
    const step = new QueuedStep(++this.#number, units);
    this.#steps.push(step);
    return step;
  }

  requeueAfterDisconnect() {
    for (const step of this.#steps) {
      step.isAgain = true;
      step.isUnderWay = step.isAnswered = false;
    }
  }

  /** Removes the oldest step, reaches barriers behind it, and lets later steps be longer again. */
  finishFirst() {
    this.#steps.shift();
    this.#most = Math.min(2 * this.#most, MOST);
    this.#passBarriers();
  }

  /** Puts the units of this and all later steps back at the head. @param {QueuedStep} step */
  takeBack(step) {
    const back = this.#steps.splice(this.#steps.indexOf(step)).flatMap(({ units }) => units);
    this.#units = new Set([...back, ...this.#units]);
    for (const unit of back) this.#remember(unit);
  }

  /**
   * Takes a refused step back and makes the next step half as long. If the refused step has only
   * one unit, this drops the unit instead, and returns its operations.
   * @param {QueuedStep} step
   */
  halveOrDrop(step) {
    this.takeBack(step);
    this.#most = Math.ceil(step.units.length / 2);
    return step.units.length === 1 ? this.#drop(step.units[0]) : [];
  }

  /** Removes the unit, and returns its operations. @param {Unit} unit */
  #drop(unit) {
    const ops = [...unit.ops];
    this.#most = MOST;
    for (const op of ops) this.remove(op);
    return ops;
  }

  /**
   * The server executed every step up to `done`. Of later steps, sent over the old connection, it
   * will execute ends at most (R1), so the first of them is halved and resent. An indivisible unit
   * is resent until `patience` milliseconds are over; then its operations are dropped and returned.
   * @param {number} done @param {(op: Op) => boolean} isWanted whether an operation must be resent
   * @param {number} now @param {number} patience @returns {Op[]}
   */
  takeBackMissedSteps(done, isWanted, now, patience) {
    const step = this.#steps.find(({ number }) => number > done);
    if (!step) return [];
    this.takeBack(step);
    this.#most = Math.ceil(step.units.length / 2);
    for (const op of this.#unitOf.keys()) if (!isWanted(op)) this.remove(op);
    const [unit] = step.units;
    if (step.units.length > 1 || unit.ops.length === 0) return [];
    if (this.#missed.unit !== unit) this.#missed = { unit, since: now };
    return now - this.#missed.since < patience ? [] : this.#drop(unit);
  }

  /** @param {number} done the last step that the server executed */
  markDone(done) {
    for (const step of this.#steps) if (step.number <= done) step.isDone = true;
  }

  /** Drops all units, steps and barriers; the steps of the next session are numbered from 1. */
  clear() {
    const units = [...this.#units];
    this.#units.clear();
    this.#unitOf.clear();
    this.#steps = [];
    this.#number = 0;
    this.#most = MOST;
    for (const { reached } of units) reached?.(true);
  }

  /** Reaches the barriers at the head, if no step is unanswered. */
  #passBarriers() {
    if (this.#steps.length > 0) return;
    for (const unit of this.#units) {
      if (!unit.reached) return;
      this.#units.delete(unit);
      unit.reached(false);
    }
  }
}

/** The length of what a unit sends but for numbers and marks. @param {Unit} unit */
function sizeOf({ ops }) {
  let size = 0;
  for (const op of ops) {
    if (op.kind === 'publish') size += op.name.length + op.data.length;
    else if (op.kind !== 'end') size += op.name.length + op.label.length;
  }
  return size;
}

module.exports = { MOST, SendQueue };
