'use strict';

/**
 * What a step is at etcd: a few transactions, one after the other, each of which is planned by what
 * the mirror knows and has the conditions under which that is right. Members of a group are in one.
 *
 * An exclusive request that waits, and an end, need no condition; an end that marks the name needs
 * that its lock is there. A shared one needs that there is
 * no other limit. What looks at the queue (ifAvailable, maxPending) needs that nobody has come to
 * it since: who has gone meanwhile only makes room. A thief needs that those he takes the name from
 * are all who hold it.
 */

const { QUEUE_FULL, UNAVAILABLE, otherLimit } = require('../../adapter.js');
const { after, base64, base64Json, doneLease } = require('./keys.js');

/** @typedef {import('../../adapter.js').Answer} Answer */
/** @typedef {import('../../adapter.js').Op} Op */
/** @typedef {import('../../adapter.js').RequestOp} RequestOp */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./mirror.js').Mirror>} BucketMirror */
/** @typedef {InstanceType<typeof import('./mirror.js').Queue>} NameQueue */

/** The most operations, or conditions, that a transaction of ours has; etcd's own limit is 128. */
const MOST = 100;
/** The most characters of values: etcd's own limit is 1.5 MiB. */
const MOST_VALUES = 1_000_000;

/**
 * @typedef {object} Plan
 * @property {Map<Op, Answer>} refused
 * @property {object[]} conditions
 * @property {object[]} changes
 */

/** @param {Op} op */
const isLooking = (op) =>
  op.kind === 'ifAvailable' || op.kind === 'steal' || (op.kind === 'request' && op.maxPending >= 0);

/** A part of a step that is made in one transaction. */
class Part {
  /** @type {Op[]} */
  ops = [];
  #refs = new Set();
  #names = new Set();
  /** By name, of shared requests. @type {Map<string, number>} */
  #limits = new Map();
  #weight = 0;
  #values = 0;

  /**
   * Takes in an operation, or a group, if it can be in the same transaction as the others.
   * @param {Op[]} unit
   * @param {BucketKeys} keys
   * @param {BucketMirror} mirror
   * @returns {boolean}
   */
  take(unit, keys, mirror) {
    const weight = unit.reduce((sum, op) => sum + weightOf(op, mirror), 0);
    const values = unit.reduce(
      (sum, op) => sum + (op.kind === 'end' ? 0 : keys.value(op).length),
      0,
    );
    const isFull = this.#weight + weight > MOST || this.#values + values > MOST_VALUES;
    if (this.ops.length > 0 && (isFull || unit.some((op) => this.#collides(op)))) return false;
    this.#weight += weight;
    this.#values += values;
    for (const op of unit) this.#add(op, mirror);
    return true;
  }

  /** @param {Op} op */
  #collides(op) {
    if (this.#refs.has(op.ref)) return true;
    if (op.kind === 'end') return false;
    const limit = this.#limits.get(op.name);
    const isOther = op.mode === 'shared' && limit !== undefined && limit !== op.limit;
    return isOther || (isLooking(op) && this.#names.has(op.name));
  }

  /**
   * @param {Op} op
   * @param {BucketMirror} mirror
   */
  #add(op, mirror) {
    this.ops.push(op);
    this.#refs.add(op.ref);
    const known = mirror.mine.get(op.ref);
    const name = op.name ?? known?.name;
    if (name === undefined) return;
    this.#names.add(name);
    if (op.kind === 'end' && known?.kind === 'c') this.#limits.set(name, known.limit);
    if (op.kind !== 'end' && op.mode === 'shared') this.#limits.set(name, op.limit);
  }
}

/**
 * @param {Op} op
 * @param {BucketMirror} mirror
 * @returns {number} of conditions or changes, at the most
 */
function weightOf(op, mirror) {
  if (op.kind === 'steal') return 1 + mirror.queue(op.name).held;
  if (op.kind === 'end' && op.keep > 0) return 2;
  return op.kind !== 'end' && op.mode === 'shared' ? 2 : 1;
}

/**
 * @param {Op[]} ops
 * @returns {Op[][]} those of a group together
 */
function unitsOf(ops) {
  /** @type {Op[][]} */
  const units = [];
  let last = 0;
  for (const op of ops) {
    const group = op.kind === 'end' ? 0 : op.group;
    if (group !== 0 && group === last) units[units.length - 1].push(op);
    else units.push([op]);
    last = group;
  }
  return units;
}

/**
 * @param {Op[][]} units that are left; those that are taken are removed
 * @param {BucketKeys} keys
 * @param {BucketMirror} mirror
 * @returns {Op[]} of the next transaction
 */
function nextPart(units, keys, mirror) {
  const part = new Part();
  while (units.length > 0 && part.take(units[0], keys, mirror)) units.shift();
  return part.ops;
}

class Planner {
  #keys;
  #mirror;
  #lease;
  #leaseId;

  /**
   * @param {BucketKeys} keys
   * @param {BucketMirror} mirror
   * @param {string} lease as in keys
   * @param {string} leaseId as etcd has it
   */
  constructor(keys, mirror, lease, leaseId) {
    this.#keys = keys;
    this.#mirror = mirror;
    this.#lease = lease;
    this.#leaseId = leaseId;
  }

  /**
   * @param {Op[]} ops of a part
   * @returns {Plan}
   */
  plan(ops) {
    /** @type {Plan} */
    const plan = { refused: new Map(), conditions: [], changes: [] };
    for (const unit of unitsOf(ops)) this.#planUnit(unit, plan);
    return plan;
  }

  /**
   * @param {Op[]} unit
   * @param {Plan} plan
   */
  #planUnit(unit, plan) {
    const asked = /** @type {RequestOp[]} */ (
      unit.filter((op) => op.kind !== 'end' && !this.#mirror.mine.has(op.ref))
    );
    /** @type {Map<Op, Answer>} */
    const refused = new Map();
    for (const op of asked) {
      const refusal = this.#refusal(op);
      if (refusal) refused.set(op, refusal);
    }
    const isNone = unit.length > 1 && unit[0].kind === 'ifAvailable' && refused.size > 0;
    for (const op of asked) {
      const refusal = refused.get(op) ?? (isNone ? UNAVAILABLE : undefined);
      if (refusal) plan.refused.set(op, refusal);
      else this.#make(op, plan);
    }
    for (const op of unit) if (op.kind === 'end') this.#end(op, plan);
  }

  /**
   * @param {RequestOp} op
   * @returns {Answer | undefined}
   */
  #refusal(op) {
    if (op.kind === 'steal') return undefined;
    const queue = this.#mirror.queue(op.name);
    const limit = op.mode === 'shared' ? queue.limit : undefined;
    if (limit !== undefined && limit !== op.limit) return otherLimit(limit);
    if (!isLooking(op) || queue.fits(op)) return undefined;
    if (op.kind === 'ifAvailable') return UNAVAILABLE;
    return queue.pending >= op.maxPending ? QUEUE_FULL : undefined;
  }

  /**
   * @param {RequestOp} op
   * @param {Plan} plan
   */
  #make(op, plan) {
    const queue = this.#mirror.queue(op.name);
    if (op.kind === 'steal') this.#rob(op, queue, plan);
    else if (isLooking(op)) plan.conditions.push(this.#nobodyCame(op.name));
    else if (op.mode === 'shared') plan.conditions.push(...this.#noOtherLimit(op));
    plan.changes.push({
      request_put: {
        key: base64(this.#keys.request(op, this.#lease)),
        value: this.#keys.value(op),
        lease: this.#leaseId,
      },
    });
  }

  /**
   * @param {RequestOp} op
   * @param {NameQueue} queue
   * @param {Plan} plan
   */
  #rob(op, queue, plan) {
    const { blocked, holders } = queue;
    for (const { key } of holders) plan.changes.push(deletion(key));
    if (!blocked) {
      plan.conditions.push(this.#nobodyCame(op.name));
      return;
    }
    // As long as these are there, it still waits, and so do those behind it.
    plan.conditions.push(isThere(blocked));
    let units = blocked.weight;
    for (const holder of holders) {
      plan.conditions.push(isThere(holder));
      units += holder.weight;
      if (blocked.kind !== 'c' || holder.kind !== 'c' || units > blocked.limit) break;
    }
  }

  /** @param {string} name */
  #nobodyCame(name) {
    const queue = this.#keys.queue(name);
    const revision = String(this.#mirror.revision + 1);
    return { ...range(queue, after(queue)), target: 'MOD', result: 'LESS', mod_revision: revision };
  }

  /** @param {RequestOp} op */
  #noOtherLimit({ limit, name }) {
    const own = this.#keys.shared(name, limit);
    const all = `${this.#keys.queue(name)}c/`;
    const none = { target: 'CREATE', result: 'EQUAL', create_revision: '0' };
    const greater = { ...range(after(own), after(all)), ...none };
    return limit === 0 ? [greater] : [{ ...range(all, own), ...none }, greater];
  }

  /**
   * @param {import('../../adapter.js').EndOp} op
   * @param {Plan} plan
   */
  #end({ keep, name, ref }, plan) {
    const entry = this.#mirror.mine.get(ref);
    if (!entry) return;
    plan.changes.push(deletion(entry.key));
    if (!(keep > 0 && name !== undefined && entry.token)) return;
    plan.conditions.push(isThere(entry));
    plan.changes.push({
      request_put: {
        key: base64(this.#keys.done(name)),
        value: base64Json(setterOf(this.#lease, ref)),
        lease: doneLease(this.#lease, ref),
      },
    });
  }
}

/**
 * @param {string} lease as in keys
 * @param {number} ref
 * @returns {string} who has set a mark
 */
const setterOf = (lease, ref) => `${lease}-${ref}`;

/** @param {string} key */
const deletion = (key) => ({ request_delete_range: { key: base64(key) } });

/**
 * @param {string} from
 * @param {string} to
 */
const range = (from, to) => ({ key: base64(from), range_end: base64(to) });

/** @param {{ key: string, created: number }} entry */
const isThere = ({ key, created }) => ({
  key: base64(key),
  target: 'CREATE',
  result: 'EQUAL',
  create_revision: String(created),
});

module.exports = { Planner, nextPart, setterOf, unitsOf };
