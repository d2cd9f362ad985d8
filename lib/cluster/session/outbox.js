'use strict';

/**
 * What a manager has to say to the server, in the order in which it was asked: in steps, of which
 * as many are under way as the adapter takes. A step has a number, and is kept until it is
 * answered, to be sent again as it was. It says which one it comes after, as long as that is not
 * answered: the server does it only after that one (R1), so that nothing overtakes what was asked
 * before.
 *
 * One that the server refuses, or has missed, is halved, until it is known what of it cannot be
 * done. What was sent behind it the server does not do either, since it comes after that one. All
 * of it is taken back, and sent in other steps, if it is still wanted. Numbers are not used twice.
 * So those that are not answered may be far apart, and the server, which knows the last ones, is
 * not sent any that is further away from the first of them than the window is long.
 */

/** @typedef {import('../adapter.js').Answer} Answer */
/** @typedef {import('../adapter.js').Op} Op */

/** The most operations of a step; a group may have more. */
const MOST = 100;
/** The most code units of their names and labels: what is long to send is answered too late. */
const MOST_UNITS = 2 ** 18;

/**
 * @typedef {object} Unit what goes into one step: an operation, or a group of them; or a barrier
 * @property {Op[]} ops
 * @property {(isDropped: boolean) => void} [reached] of a barrier: called when all before it was
 *   answered, or dropped
 */

/** @typedef {{ unit?: Unit, since: number }} Missed */

/** A few units that are sent as one. */
class Step {
  /** Whether it is sent, on the connection that there is. */
  isUnderWay = false;
  /** Whether it was sent on another one before. */
  isAgain = false;
  /** Whether the server is known to have done it. */
  isDone = false;
  /** Whether `answers` are those that came on this connection. */
  isAnswered = false;
  /** @type {Answer[]} */
  answers = [];

  /**
   * @param {number} number
   * @param {Unit[]} units
   */
  constructor(number, units) {
    this.number = number;
    this.units = units;
    /** @type {Op[]} */
    this.ops = units.length === 1 ? units[0].ops : units.flatMap(({ ops }) => ops);
  }
}

class Outbox {
  /** Not sent yet. @type {Set<Unit>} */
  #units = new Set();
  /** By operation that is not sent. @type {Map<Op, Unit>} */
  #unitOf = new Map();
  /** Those that were sent, and not answered, in their order. @type {Step[]} */
  #steps = [];
  /** Of the step that was made last. */
  #number = 0;
  #window;
  /** The most operations of the next step. */
  #most = MOST;
  /** What the server misses, and cannot be divided, and since when. @type {Missed} */
  #missed = { since: 0 };

  /** @param {number} window how many steps may be under way */
  constructor(window) {
    this.#window = window;
  }

  /** Of the steps that were sent, the first that is not answered. @returns {Step | undefined} */
  get first() {
    return this.#steps[0];
  }

  get isEmpty() {
    return this.#units.size === 0 && this.#steps.length === 0;
  }

  /** Whether there may be something to send now. */
  get isReady() {
    return this.#unsent !== undefined || (this.#units.size > 0 && this.#hasRoom);
  }

  /** Of the steps that were sent on another connection, the first that is not on this. */
  get #unsent() {
    return this.#steps.find(({ isUnderWay }) => !isUnderWay);
  }

  /** Whether another step may be under way. */
  get #hasRoom() {
    return !this.first || this.#number + 1 - this.first.number < this.#window;
  }

  /** @param {Op[]} ops one, or a group; nobody else's from now on */
  add(ops) {
    const unit = { ops };
    this.#units.add(unit);
    this.#canBeTakenBack(unit);
  }

  /**
   * Adds the end of what is nobody's: before all that is not sent, as it may be in its way.
   * @param {Op} op nobody else's from now on
   */
  addFirst(op) {
    const unit = { ops: [op] };
    this.#units = new Set([unit, ...this.#units]);
    this.#canBeTakenBack(unit);
  }

  /** @param {Unit} unit that is not sent */
  #canBeTakenBack(unit) {
    for (const op of unit.ops) this.#unitOf.set(op, unit);
  }

  /**
   * @param {(isDropped: boolean) => void} reached called when all that is in here was answered, or
   *   dropped
   * @returns {Unit} for `hurry`
   */
  barrier(reached) {
    const barrier = { ops: [], reached };
    if (this.isEmpty) reached(false);
    else this.#units.add(barrier);
    return barrier;
  }

  /**
   * Has a barrier reached when what was sent is answered.
   * @param {Unit} barrier
   * @returns {Unit[]} what it does not wait for any more
   */
  hurry(barrier) {
    const units = [...this.#units];
    const at = units.indexOf(barrier);
    if (at < 0) return [];
    const [passed, behind] = [units.slice(0, at), units.slice(at + 1)];
    this.#units = new Set([barrier, ...passed, ...behind]);
    this.#passBarriers();
    return passed;
  }

  /**
   * @param {Op} op
   * @returns {boolean} whether it could be taken back: false if it was sent
   */
  remove(op) {
    const unit = this.#unitOf.get(op);
    if (!unit) return false;
    this.#unitOf.delete(op);
    // Another list: this one may be that of a step, too.
    unit.ops = unit.ops.filter((one) => one !== op);
    if (unit.ops.length === 0) this.#units.delete(unit);
    this.#passBarriers();
    return true;
  }

  /** @param {Op} op @returns {boolean} whether it is sent, and not answered */
  isSent(op) {
    return this.#steps.some(({ units }) => units.some(({ ops }) => ops.includes(op)));
  }

  /** @param {Step} step @returns {boolean} whether it was neither answered nor taken back */
  has(step) {
    return this.#steps.includes(step);
  }

  /**
   * @returns {Step | undefined} the next that is to be sent now, which is under way then: one that
   *   was sent and not answered on another connection, or a new one, if there is room for it
   */
  next() {
    const step = this.#unsent ?? this.#take();
    if (step) step.isUnderWay = true;
    return step;
  }

  /** @param {Step} step @returns {number} which it comes after; 0 if all before it are answered */
  before(step) {
    return this.#steps[this.#steps.indexOf(step) - 1]?.number ?? 0;
  }

  /** @returns {Step | undefined} of what was not sent yet, and can be now */
  #take() {
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
    const step = new Step(++this.#number, units);
    this.#steps.push(step);
    return step;
  }

  /** The connection is gone: what was not answered is to be sent again. */
  isInterrupted() {
    for (const step of this.#steps) {
      step.isAgain = true;
      step.isUnderWay = step.isAnswered = false;
    }
  }

  /** The first step is answered. */
  answered() {
    this.#steps.shift();
    this.#most = Math.min(2 * this.#most, MOST);
    this.#passBarriers();
  }

  /**
   * A step is not done, and will not be, and so nothing behind it: it is as if they were not sent.
   * @param {Step} step
   */
  takeBack(step) {
    const back = this.#steps.splice(this.#steps.indexOf(step)).flatMap(({ units }) => units);
    this.#units = new Set([...back, ...this.#units]);
    for (const unit of back) this.#canBeTakenBack(unit);
  }

  /**
   * A step is not done, and will not be: the next one is half of it.
   * @param {Step} step
   * @returns {Op[]} what cannot be divided, which is dropped; empty if it can
   */
  refused(step) {
    this.takeBack(step);
    this.#most = Math.ceil(step.units.length / 2);
    return step.units.length === 1 ? this.#drop(step.units[0]) : [];
  }

  /** @param {Unit} unit that is not sent @returns {Op[]} what it had */
  #drop(unit) {
    const ops = [...unit.ops];
    this.#most = MOST;
    for (const op of ops) this.remove(op);
    return ops;
  }

  /**
   * The server has done the steps up to a number, and will not do what was sent behind by the
   * connection that it was sent by: the first of that is halved. What cannot be divided is sent
   * again for a time.
   * @param {number} done
   * @param {(op: Op) => boolean} isWanted what is not is not sent again
   * @param {number} now
   * @param {number} patience milliseconds
   * @returns {Op[]} what is dropped, as `refused` does, as that time is over
   */
  missed(done, isWanted, now, patience) {
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

  /** The server has done the steps up to a number. @param {number} done */
  areDone(done) {
    for (const step of this.#steps) if (step.number <= done) step.isDone = true;
  }

  /** Drops everything. */
  clear() {
    const units = [...this.#units];
    this.#units.clear();
    this.#unitOf.clear();
    this.#steps = [];
    this.#number = 0;
    this.#most = MOST;
    for (const { reached } of units) reached?.(true);
  }

  #passBarriers() {
    if (this.#steps.length > 0) return;
    for (const unit of this.#units) {
      if (!unit.reached) return;
      this.#units.delete(unit);
      unit.reached(false);
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
