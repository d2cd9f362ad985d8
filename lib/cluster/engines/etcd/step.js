'use strict';

/**
 * A step that is under way, or was the last one: what is left of it, and what is known of what was
 * done. It is kept until the next one comes, so that the same step, if it comes again, goes on
 * where its answers got lost, or is answered at once (R1).
 */

const { ENDED, QUEUED, QUEUE_FULL, UNAVAILABLE, granted } = require('../../adapter.js');
const { unitsOf } = require('./plan.js');

/** @typedef {import('../../adapter.js').Answer} Answer */
/** @typedef {import('../../adapter.js').Op} Op */
/** @typedef {InstanceType<typeof import('./queue.js').Queue>} NameQueue */
/** @typedef {import('./queue.js').Entry} QueueEntry */

class Step {
  number;
  ops;
  /** Those that are not answered by their tokens. @type {Map<Op, Answer>} */
  answers = new Map();
  /** Units that are in no transaction yet. @type {Op[][]} */
  left;
  /** Those of the transaction under way; none: it is over. @type {Op[][]} */
  part = [];
  /** Whether that transaction may have been done. */
  isInDoubt = false;
  /** Whether something of it is known to be done. */
  isBegun = false;
  /** @type {import('./plan.js').View | undefined} */
  view;
  /** Requests whose locks were stolen meanwhile. @type {Set<number>} */
  robbed = new Set();
  /** Those that are to be taken back. @type {Set<number>} */
  refused = new Set();
  /** Ends: nobody else has ended those. @type {Set<number>} */
  ending = new Set();
  /** @type {Answer[] | undefined} */
  result;
  /** Requests, until all is answered: their tokens, or 0n. @type {Map<number, bigint>} */
  #tokens = new Map();
  #parts = 0;

  /**
   * @param {Op[]} ops
   * @param {number} number
   */
  constructor(ops, number) {
    this.ops = ops;
    this.number = number;
    this.left = unitsOf(ops);
    for (const { kind, ref } of ops) if (kind !== 'end') this.#tokens.set(ref, 0n);
  }

  /**
   * @param {number} ref
   * @param {bigint} token
   * @returns {boolean} whether the answer will tell it
   */
  granted(ref, token) {
    if (this.result || !this.#tokens.has(ref)) return false;
    this.#tokens.set(ref, token);
    return true;
  }

  /** @param {Op} op @returns {bigint} 0n: not granted */
  #tokenOf({ ref }) {
    return this.#tokens.get(ref) ?? 0n;
  }

  /** @returns {Op[][]} what is left of the part that is not answered yet */
  get open() {
    return this.part
      .map((unit) => unit.filter((op) => !this.answers.has(op)))
      .filter((unit) => unit.length > 0);
  }

  /**
   * @param {Op[][]} units of the next transaction
   * @param {import('./plan.js').View} [view] of what they steal, if that was just read
   */
  begin(units, view) {
    this.part = units;
    this.view = view;
    this.#parts++;
  }

  /** What the part is called in the session's key: the same in each attempt. */
  get partId() {
    return `${this.number}.${this.#parts}`;
  }

  /** The part's transaction was refused: half of it may be less than too much. */
  halve() {
    const half = Math.ceil(this.part.length / 2);
    this.left.unshift(...this.part.slice(half));
    this.begin(this.part.slice(0, half));
  }

  /** @param {Op} op of which nothing was done */
  again(op) {
    this.part = this.part.map((unit) => unit.filter((one) => one !== op));
    const { left } = this;
    const [next] = left;
    // Members of a group follow one another.
    const isSame = op.kind !== 'end' && op.group > 0 && next?.[0].kind === op.kind;
    if (isSame && next[0].kind !== 'end' && next[0].group === op.group) next.unshift(op);
    else left.unshift([op]);
  }

  /**
   * @param {Map<Op, Answer>} answers
   */
  answer(answers) {
    for (const [op, answer] of answers) this.answers.set(op, answer);
  }

  /**
   * Refuses what the part has made and what is not as it was wanted, as far as only that shows it.
   * @param {Map<string, NameQueue>} queues of its names, as of the part's transaction or later
   * @param {Map<number, QueueEntry>} mine requests of the session
   */
  judge(queues, mine) {
    /** How many were refused, by name. @type {Map<string, number>} */
    const full = new Map();
    for (const unit of this.open) {
      if (unit[0].kind === 'ifAvailable') this.#judgeTried(unit);
      else for (const op of unit) this.#judgeWaiting(op, queues, mine.get(op.ref), full);
    }
  }

  /** @param {Op[]} unit */
  #judgeTried(unit) {
    if (unit.every((op) => this.#tokenOf(op))) return;
    for (const op of unit) this.#refuse(op, UNAVAILABLE);
  }

  /**
   * @param {Op} op
   * @param {Map<string, NameQueue>} queues
   * @param {QueueEntry | undefined} entry
   * @param {Map<string, number>} full those that were refused before it, by name
   */
  #judgeWaiting(op, queues, entry, full) {
    if (op.kind !== 'request' || op.maxPending < 0 || this.#tokenOf(op)) return;
    const queue = queues.get(op.name);
    const refused = full.get(op.name) ?? 0;
    if (!entry || !queue || queue.waitingBefore(entry) - refused < op.maxPending) return;
    this.#refuse(op, QUEUE_FULL);
    full.set(op.name, refused + 1);
  }

  /**
   * @param {Op} op
   * @param {Answer} answer
   */
  #refuse(op, answer) {
    this.answers.set(op, answer);
    this.refused.add(op.ref);
    this.ending.add(op.ref);
  }

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
