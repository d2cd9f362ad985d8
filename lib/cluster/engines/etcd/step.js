'use strict';

/**
 * The state of the session's current or last step: the operations that are left, and those that
 * etcd is known to have executed. The state is kept until the next step. If the session sends the
 * step again, the step continues where an answer was lost, or is answered at once (R1).
 */

const { ENDED, QUEUED, QUEUE_FULL, UNAVAILABLE } = require('../../adapter.js');
const { granted, isRequest } = require('../../adapter.js');
const { unitsOf } = require('./plan.js');

/** @import { Answer, Op } from '../../adapter.js' */
/** @import { Entry as QueueEntry } from './queue.js' */
/** @typedef {InstanceType<typeof import('./queue.js').Queue>} NameQueue */

class Step {
  number;
  ops;
  /** Answers that do not follow from tokens. @type {Map<Op, Answer>} */
  answers = new Map();
  /** Units (an operation, or a group) that no transaction contains yet. @type {Op[][]} */
  left;
  /** The units of the transaction under way. @type {Op[][]} */
  part = [];
  /** True while it is unknown whether etcd executed the transaction under way. */
  isOutcomeUnknown = false;
  /** Whether etcd executed one of the step's transactions. */
  isBegun = false;
  /** @type {import('./plan.js').View | undefined} */
  view;
  /** Requests whose locks were stolen during the step. @type {Set<number>} */
  stolenFrom = new Set();
  /** Requests that were written, must not stay, and will be deleted. @type {Set<number>} */
  refused = new Set();
  /** Requests that this step itself ends. @type {Set<number>} */
  ending = new Set();
  /** @type {Answer[] | undefined} */
  result;
  /** The token of each request of the step, 0n while it waits. @type {Map<number, bigint>} */
  #tokens = new Map();
  #parts = 0;

  /** @param {Op[]} ops @param {number} number */
  constructor(ops, number) {
    this.ops = ops;
    this.number = number;
    this.left = unitsOf(ops);
    for (const { ref } of ops.filter(isRequest)) this.#tokens.set(ref, 0n);
  }

  /**
   * Notes a grant. Returns true if the answer to the step will report it, so that no event is
   * needed.
   * @param {number} ref @param {bigint} token
   */
  noteGrant(ref, token) {
    if (this.result || !this.#tokens.has(ref)) return false;
    this.#tokens.set(ref, token);
    return true;
  }

  /** @param {Op} op */
  #tokenOf({ ref }) {
    return this.#tokens.get(ref) ?? 0n;
  }

  /** The units of the current transaction, without operations that are already answered. */
  get open() {
    return this.part
      .map((unit) => unit.filter((op) => !this.answers.has(op)))
      .filter((unit) => unit.length > 0);
  }

  /**
   * Begins the next transaction of the step.
   * @param {Op[][]} units @param {import('./plan.js').View} [view]
   */
  begin(units, view) {
    this.part = units;
    this.view = view;
    this.#parts++;
  }

  /** The id that the transaction writes into the session's step key, the same in each attempt. */
  get partId() {
    return `${this.number}.${this.#parts}`;
  }

  /** Halves a transaction that etcd refused, since a smaller transaction may be accepted. */
  halve() {
    const half = Math.ceil(this.part.length / 2);
    this.left.unshift(...this.part.slice(half));
    this.begin(this.part.slice(0, half));
  }

  /** Puts back an operation that etcd has not executed, as the next one. @param {Op} op */
  putBack(op) {
    this.part = this.part.map((unit) => unit.filter((one) => one !== op));
    const { left } = this;
    const [next] = left;
    // Members of a group must follow one another.
    const isSame = isRequest(op) && op.group > 0 && next?.[0].kind === op.kind;
    if (isSame && isRequest(next[0]) && next[0].group === op.group) next.unshift(op);
    else left.unshift([op]);
  }

  /** @param {Map<Op, Answer>} answers */
  addAnswers(answers) {
    for (const [op, answer] of answers) this.answers.set(op, answer);
  }

  /**
   * Refuses requests of the transaction if the resulting queue shows that they must not stay: an
   * `ifAvailable` that is not held, or more waiters than `maxPending`.
   * @param {Map<string, NameQueue>} queues of the part's names, after its transaction
   * @param {Map<number, QueueEntry>} mine requests of the session
   */
  refuseExcess(queues, mine) {
    /** How many requests of each name were refused. @type {Map<string, number>} */
    const refusedCounts = new Map();
    for (const unit of this.open) {
      if (unit[0].kind === 'ifAvailable') this.#refuseTried(unit);
      else {
        for (const op of unit) this.#refuseIfQueueFull(op, queues, mine.get(op.ref), refusedCounts);
      }
    }
  }

  /** Refuses the whole unit unless all its requests are granted. @param {Op[]} unit */
  #refuseTried(unit) {
    if (unit.every((op) => this.#tokenOf(op))) return;
    for (const op of unit) this.#refuse(op, UNAVAILABLE);
  }

  /**
   * Refuses and counts a waiting request if `maxPending` or more requests wait ahead of it.
   * @param {Op} op @param {Map<string, NameQueue>} queues @param {QueueEntry | undefined} entry
   * @param {Map<string, number>} refusedCounts by name
   */
  #refuseIfQueueFull(op, queues, entry, refusedCounts) {
    if (op.kind !== 'request' && op.kind !== 'pass') return;
    if (op.maxPending < 0 || this.#tokenOf(op) || this.answers.has(op)) return;
    const queue = queues.get(op.name);
    const refused = refusedCounts.get(op.name) ?? 0;
    if (!entry || !queue || queue.countWaitersAhead(entry) - refused < op.maxPending) return;
    this.#refuse(op, QUEUE_FULL);
    refusedCounts.set(op.name, refused + 1);
  }

  /** Answers a request whose key must be deleted again. @param {Op} op @param {Answer} answer */
  #refuse(op, answer) {
    this.answers.set(op, answer);
    this.refused.add(op.ref);
    this.ending.add(op.ref);
  }

  /** Ends the step, and returns the answers to all its operations. */
  finish() {
    this.result = this.ops.map((op) => {
      const known = this.answers.get(op);
      if (known) return known;
      if (op.kind === 'end') return ENDED;
      const token = this.#tokenOf(op);
      return token ? granted(token) : QUEUED;
    });
    return this.result;
  }
}

module.exports = { Step };
