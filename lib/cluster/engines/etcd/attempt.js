'use strict';

/**
 * One attempt to execute operations of a step. It plans them from pictures of their names
 * (plan.js), and finds the answer to each, as a letter for the step's record.
 */

const { ENDED, NOT_HELD, NOT_MARKED, PASSED, PUBLISHED } = require('../../adapter.js');
const { QUEUED, QUEUE_FULL, UNAVAILABLE, isRequest } = require('../../adapter.js');
const { isMarking } = require('./marks.js');
const { NOTHING } = require('./picture.js');
const { NamePlan } = require('./plan.js');

/** @import { Answer, EndOp, Op, PublishOp, RequestOp } from '../../adapter.js' */
/** @import { Picture, QueuedRequest } from './picture.js' */
/** @typedef {InstanceType<typeof import('./etcd-session.js').EtcdSession>} Own */
/** @typedef {InstanceType<typeof NamePlan>} Plan */

/** A record has one letter for each operation. Etcd stores them, so they keep their meaning. */
const LETTER = Object.freeze({
  /** Etcd decided, and the holders show it: granted or queued. */
  DECIDED: 'b',
  ENDED: 'e',
  GRANTED: 'g',
  NOT_HELD: 'h',
  NOT_MARKED: 'm',
  /** The operation was answered without being sent. */
  NOT_SENT: '-',
  OTHER_LIMIT: 'l',
  PASSED: 'p',
  PUBLISHED: 'd',
  QUEUED: 'q',
  QUEUE_FULL: 'f',
  UNAVAILABLE: 'u',
});

/** The answers that their letters determine. @type {Record<string, Readonly<Answer>>} */
const ANSWERS = {
  [LETTER.ENDED]: ENDED,
  [LETTER.NOT_HELD]: NOT_HELD,
  [LETTER.NOT_MARKED]: NOT_MARKED,
  [LETTER.PASSED]: PASSED,
  [LETTER.PUBLISHED]: PUBLISHED,
  [LETTER.QUEUED]: QUEUED,
  [LETTER.QUEUE_FULL]: QUEUE_FULL,
  [LETTER.UNAVAILABLE]: UNAVAILABLE,
};
const letterOf = new Map(Object.entries(ANSWERS).map(([letter, answer]) => [answer, letter]));

class Attempt {
  /** The plan of each name that etcd does not decide on. @type {Map<string, Plan>} */
  plans = new Map();
  /** StepPart replaces each DECIDED, or sets all letters from a record. @type {Map<Op, string>} */
  letters = new Map();
  /** The limits of the answers OTHER_LIMIT; StepPart may set them. @type {number[]} */
  limits = [];
  /** The entries of the requests; StepPart may set them. @type {Map<RequestOp, QueuedRequest>} */
  entries = new Map();
  /** The queues behind granted locks; StepPart sets them. @type {Map<RequestOp, Picture>} */
  pictures = new Map();
  #own;

  /** @param {Own} own */
  constructor(own) {
    this.#own = own;
    this.isQuarantined = own.isQuarantined;
  }

  /**
   * Plans operations.
   * @param {Op[]} ops @param {string[]} names that need a plan
   * @param {Map<string, Picture>} pictures of these names
   */
  plan(ops, names, pictures) {
    for (const name of names)
      this.plans.set(name, new NamePlan(pictures.get(name) ?? NOTHING, this.isQuarantined));
    for (let i = 0; i < ops.length; i++) {
      const op = ops[i];
      if (op.kind === 'end') this.#planEnd(op);
      else if (op.kind === 'publish') this.#planPublication(op);
      else {
        const group = op.kind === 'ifAvailable' && op.group > 0 ? groupAt(ops, i) : [op];
        this.#planRequests(group);
        i += group.length - 1;
      }
    }
    // Later operations of the step may have granted requests that waited, or let them pass.
    for (const [op, entry] of this.entries) {
      if (this.letters.get(op) !== LETTER.QUEUED || entry.created > 0) continue;
      if (entry.isHeld) this.letters.set(op, LETTER.GRANTED);
      else if (this.plans.get(op.name)?.passed.includes(entry)) this.letters.set(op, LETTER.PASSED);
    }
  }

  /** Plans a request, or all requests of a group or none. @param {RequestOp[]} ops */
  #planRequests(ops) {
    const { info, requests } = this.#own;
    const parts = ops.map((op) => {
      const plan = this.plans.get(op.name);
      const entry = requests.entryOf(op);
      const known = plan?.find(entry);
      this.entries.set(op, known ?? entry);
      return { op, entry, known, plan, refusal: known ? undefined : plan?.refusalOf(op, entry) };
    });
    const isRefused = parts.some(({ refusal }) => refusal);
    for (const { op, entry, known, plan, refusal = UNAVAILABLE } of parts) {
      if (!plan) this.letters.set(op, LETTER.DECIDED);
      // The step was executed, but somebody has deleted its record.
      else if (known) this.letters.set(op, LETTER.QUEUED);
      else if (isRefused) {
        this.letters.set(op, letterOf.get(refusal) ?? LETTER.OTHER_LIMIT);
        if (refusal.code === 'otherLimit') this.limits.push(refusal.limit);
      } else if (plan.request(op, entry, info.clientId) === PASSED)
        this.letters.set(op, LETTER.PASSED);
      else this.letters.set(op, entry.isHeld ? LETTER.GRANTED : LETTER.QUEUED);
    }
  }

  /** @param {EndOp} op */
  #planEnd(op) {
    const plan = this.plans.get(op.name ?? this.#own.requests.get(op.ref)?.name ?? '');
    const entry = this.#find(op.ref);
    const marks = isMarking(op) && entry !== undefined && plan?.find(entry)?.isHeld === true;
    this.letters.set(op, isMarking(op) && !marks ? LETTER.NOT_MARKED : LETTER.ENDED);
    if (entry) plan?.end(entry, marks);
  }

  /** @param {PublishOp} op */
  #planPublication(op) {
    const answer = this.plans.get(op.name)?.publish(this.#find(op.ref), op.data) ?? NOT_HELD;
    this.letters.set(op, String(letterOf.get(answer)));
  }

  /** A request that this step makes, or that the session knows. @param {number} ref */
  #find(ref) {
    const made = [...this.entries].find(([op]) => op.ref === ref)?.[1];
    return made ?? this.#own.requests.get(ref)?.entry;
  }
}

/** The members of the group that begins at a place. @param {Op[]} ops @param {number} i */
function groupAt(ops, i) {
  const first = /** @type {RequestOp} */ (ops[i]);
  const rest = ops.slice(i);
  const end = rest.findIndex((op) => !isRequest(op) || op.group !== first.group);
  return /** @type {RequestOp[]} */ (end < 0 ? rest : rest.slice(0, end));
}

module.exports = { ANSWERS, Attempt, LETTER };
