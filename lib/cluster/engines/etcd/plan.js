'use strict';

/**
 * What a step is at etcd: a few transactions, one after the other. Each has a *move* for each
 * operation, or for a group that gets all or none: what it changes, the conditions under which it
 * does, and what is read if they are not met. Conditions are judged at etcd, so that most of these
 * are answered at the first attempt, however many others come and go:
 *
 * - A request that may wait, and an end, need none. A shared request needs that there is no other
 *   limit.
 * - `ifAvailable` needs that there is no request but shared ones of the same limit, if it is
 *   shared; else that there is none at all.
 * - An end that marks the name needs that its lock is there.
 *
 * What has become of a request is read in the transaction that makes it: so a free name is had by
 * one call, and nothing has to be known of it before. Of a name that is followed (mirror.js)
 * nothing is read: the watch tells.
 *
 * What no condition of etcd can express is whether units suffice (`ifAvailable` with a limit), and
 * how many wait (`maxPending`). The request is made, and is taken back if it is not held (or if
 * too many wait before it). Others may have seen it wait for that time, as a request that is
 * aborted soon.
 *
 * A thief has to name those that it robs, so the queue is read before, and has to tell them, each
 * in the keys of its session. The condition of its transaction is that no others hold the name. If
 * that is not so, the steal is planned anew.
 */

const { UNAVAILABLE, otherLimit } = require('../../adapter.js');
const { NONE, after, allWith, base64, base64Json } = require('./keys.js');
const { doneLease, exists, leaseNumber, range } = require('./keys.js');

/** @typedef {import('../../adapter.js').Answer} Answer */
/** @typedef {import('../../adapter.js').Op} Op */
/** @typedef {import('../../adapter.js').RequestOp} RequestOp */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./mirror.js').Mirror>} BucketMirror */
/** @typedef {import('./queue.js').Entry} MirrorEntry */
/** @typedef {InstanceType<typeof import('./queue.js').Queue>} NameQueue */

/**
 * Queues as of a revision of etcd, by name.
 * @typedef {object} View
 * @property {number} revision
 * @property {Map<string, NameQueue>} queues
 * @property {boolean} isForgotten by etcd: some are as of later
 */

/** The most operations, or conditions, that a transaction of ours has; etcd's own limit is 128. */
const MOST = 100;
/** The most characters of values: etcd's own limit is 1.5 MiB. */
const MOST_VALUES = 1_000_000;
/** Queues that are read by one operation of a transaction: etcd counts those within it, too. */
const MOST_READS = 20;
/** Requests that are read of a queue, unless it has to be known as a whole. */
const SHORT = 64;

/**
 * @typedef {object} Plan
 * @property {Map<Op, Answer>} refused for there is a quarantine, or one like it before
 * @property {Set<string>} tried names that somebody wants who does not wait
 * @property {object[]} conditions of all moves
 * @property {Move[]} moves
 * @property {string[]} names whose queues are read
 */

/**
 * @typedef {object} Move
 * @property {Op[]} ops
 * @property {object[]} conditions
 * @property {object[]} changes the last one of a mark that is looked at reads it
 * @property {object[]} reads if the conditions are not met: for each operation, or none
 */

/** @param {Op} op @returns {op is RequestOp} */
const isRequest = (op) => op.kind !== 'end';

/** @param {Op} op */
const isLooking = (op) =>
  op.kind === 'ifAvailable' || op.kind === 'steal' || (op.kind === 'request' && op.maxPending >= 0);

/**
 * @param {Op} op
 * @returns {op is RequestOp} one that is not to be had, if one like it was asked for just before:
 *   whether that one was had or not
 */
const isTried = (op) => op.kind === 'ifAvailable' && op.mode === 'exclusive' && op.group === 0;

/** A part of a step that is made in one transaction. */
class Part {
  #refs = new Set();
  #names = new Set();
  /** Those of which the last operation is such a one. @type {Set<string>} */
  #tried = new Set();
  /** Those of which one has asked who may share it, or rob. @type {Set<string>} */
  #mixed = new Set();
  /** Those that are stolen. @type {Set<string>} */
  #stolen = new Set();
  /** By name, of shared requests. @type {Map<string, number>} */
  #limits = new Map();
  #weight = 0;
  #values = 0;

  /**
   * Takes in an operation, or a group, if it can be in the same transaction as the others.
   * @param {Op[]} unit
   * @param {BucketKeys} keys
   * @param {BucketMirror} mirror
   * @param {View} view of what is stolen
   * @returns {boolean}
   */
  take(unit, keys, mirror, view) {
    const weight = unit.reduce((sum, op) => sum + weightOf(op, view), 0);
    const values = unit.reduce(
      (sum, op) => sum + (op.kind === 'end' ? 0 : keys.value(op).length),
      0,
    );
    const isFull = this.#weight + weight > MOST || this.#values + values > MOST_VALUES;
    if (this.#refs.size > 0 && (isFull || unit.some((op) => this.#collides(op)))) return false;
    this.#weight += weight;
    this.#values += values;
    for (const op of unit) this.#add(op, mirror);
    return true;
  }

  /** @param {Op} op */
  #collides(op) {
    if (this.#refs.has(op.ref)) return true;
    if (op.kind === 'end') return op.keep > 0 && op.name !== undefined && this.#names.has(op.name);
    // Conditions are judged before anything is changed: by those who are robbed.
    if (op.mode === 'shared' && this.#stolen.has(op.name)) return true;
    const limit = this.#limits.get(op.name);
    const isOther = op.mode === 'shared' && limit !== undefined && limit !== op.limit;
    const isAfterOne = isTried(op) && this.#tried.has(op.name);
    if (isOther || isAfterOne) return isOther;
    // What is read is as of after what comes before it, but for what is to be taken back.
    const isCounted = op.kind === 'request' && op.mode === 'exclusive' && !this.#mixed.has(op.name);
    return isLooking(op) && !isCounted && this.#names.has(op.name);
  }

  /**
   * @param {Op} op
   * @param {BucketMirror} mirror
   */
  #add(op, mirror) {
    this.#refs.add(op.ref);
    const known = mirror.mine.get(op.ref);
    const name = op.name ?? known?.name;
    if (name === undefined) return;
    this.#names.add(name);
    if (isTried(op)) this.#tried.add(name);
    else this.#tried.delete(name);
    if (op.kind === 'steal') this.#stolen.add(name);
    if (op.kind !== 'end' && (op.kind === 'steal' || op.mode === 'shared')) this.#mixed.add(name);
    if (op.kind === 'end' && known?.kind === 'c') this.#limits.set(name, known.limit);
    if (op.kind !== 'end' && op.mode === 'shared') this.#limits.set(name, op.limit);
  }
}

/**
 * @param {Op} op
 * @param {View} view
 * @returns {number} of conditions or changes, at the most
 */
function weightOf(op, { queues }) {
  if (op.kind === 'steal') return 1 + Math.min(queues.get(op.name)?.held ?? 0, MOST_READS);
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
 * @param {View} view of what is stolen
 * @returns {Op[][]} units of the next transaction
 */
function nextPart(units, keys, mirror, view) {
  const part = new Part();
  const taken = [];
  while (units.length > 0 && part.take(units[0], keys, mirror, view)) {
    taken.push(...units.splice(0, 1));
  }
  return taken;
}

class Planner {
  #keys;
  #mirror;
  #lease;
  #clientId;

  /**
   * @param {BucketKeys} keys
   * @param {BucketMirror} mirror
   * @param {string} lease as in keys
   * @param {string} clientId who is told to those whose locks are stolen
   */
  constructor(keys, mirror, lease, clientId) {
    this.#keys = keys;
    this.#mirror = mirror;
    this.#lease = lease;
    this.#clientId = clientId;
  }

  /**
   * @param {Op[][]} units of a part
   * @param {View} view of what is stolen
   * @returns {Plan}
   */
  plan(units, view) {
    /** @type {Plan} */
    const plan = { refused: new Map(), conditions: [], moves: [], names: [], tried: new Set() };
    for (const unit of units) this.#planUnit(unit, plan, view);
    const made = /** @type {RequestOp[]} */ (
      plan.moves.flatMap(({ ops }) => ops).filter(isRequest)
    );
    const names = new Set(made.map(({ name }) => name));
    plan.names = [...names].filter((name) => !this.#mirror.queue(name));
    return plan;
  }

  /**
   * @param {Op[]} unit
   * @param {Plan} plan
   * @param {View} view
   */
  #planUnit(unit, plan, view) {
    const [first] = unit;
    if (first.kind === 'end') {
      const move = this.#end(first);
      if (move.changes.length > 0) plan.moves.push(move);
      return;
    }
    const asked = /** @type {RequestOp[]} */ (unit);
    if (first.kind !== 'ifAvailable') {
      for (const op of asked) plan.moves.push(this.#make(op, plan, view));
    } else if (this.#mirror.isQuarantined) {
      for (const op of asked) plan.refused.set(op, UNAVAILABLE);
    } else if (isTried(first) && plan.tried.has(first.name)) {
      plan.refused.set(first, UNAVAILABLE);
    } else {
      if (isTried(first)) plan.tried.add(first.name);
      plan.moves.push(this.#tryAll(asked));
    }
  }

  // What etcd is asked to do.

  /**
   * @param {RequestOp[]} ops all of which are made, or none
   * @returns {Move}
   */
  #tryAll(ops) {
    return {
      ops,
      conditions: ops.flatMap((op) =>
        op.mode === 'shared' ? this.#onlyWithLimit(op) : [this.#nobody(op.name)],
      ),
      changes: ops.map((op) => this.#put(op)),
      reads: ops.map((op) => this.#readLimit(op)),
    };
  }

  /**
   * @param {RequestOp} op
   * @param {Plan} plan
   * @param {View} view
   * @returns {Move}
   */
  #make(op, plan, view) {
    const changes = [this.#put(op)];
    if (op.kind === 'steal') {
      const robbed = this.#rob(op, plan, view);
      return { ops: [op], conditions: [], changes: [...robbed, ...changes], reads: [] };
    }
    if (op.mode === 'exclusive') return { ops: [op], conditions: [], changes, reads: [] };
    const conditions = this.#noOtherLimit(op);
    return { ops: [op], conditions, changes, reads: [this.#readLimit(op)] };
  }

  /** @param {RequestOp} op */
  #put(op) {
    return {
      request_put: {
        key: base64(this.#keys.request(op, this.#lease, this.#mirror.slots.of(op.ref))),
        value: this.#keys.value(op, this.#clientId),
        lease: leaseNumber(this.#lease),
      },
    };
  }

  /**
   * @param {RequestOp} op
   * @param {Plan} plan
   * @param {View} view
   * @returns {object[]}
   */
  #rob({ name }, { conditions }, { queues, revision }) {
    if (this.#mirror.isQuarantined) {
      conditions.push(exists(base64(this.#keys.quarantine)));
      return [];
    }
    const { holders = [], obstacle = [] } = queues.get(name) ?? {};
    if (holders.length === 0) conditions.push(this.#nobody(name));
    // While it is there, nobody else holds the name.
    else if (holders[0].kind !== 'c') conditions.push(isThere(holders[0]));
    else if (obstacle.length === 0) conditions.push(this.#nobodyCame(name, revision));
    else conditions.push(...obstacle.map(isThere));
    return bundled(holders.map((holder) => this.#robOne(holder)));
  }

  /**
   * @param {MirrorEntry} holder which is told if it is still there: then its lease is there, too
   * @returns {object}
   */
  #robOne(holder) {
    const { key, lease, ref } = holder;
    const told = {
      key: base64(this.#keys.stolen(lease, ref)),
      value: base64Json(this.#clientId),
      lease: leaseNumber(lease),
    };
    return {
      request_txn: {
        compare: [isThere(holder)],
        success: [deletion(key), { request_put: told }],
      },
    };
  }

  /**
   * @param {import('../../adapter.js').EndOp} op
   * @returns {Move}
   */
  #end(op) {
    const { keep, name, ref } = op;
    const entry = this.#mirror.mine.get(ref);
    /** @type {object[]} */
    const changes = entry ? [deletion(entry.key)] : [];
    if (!(keep > 0 && name !== undefined)) return { ops: [op], conditions: [], changes, reads: [] };
    const key = base64(this.#keys.done(name));
    const look = { request_range: { key } };
    if (!entry?.token) return { ops: [op], conditions: [], changes: [...changes, look], reads: [] };
    changes.push({
      request_put: {
        key,
        value: base64Json(setterOf(this.#lease, ref)),
        lease: doneLease(this.#lease, ref),
      },
    });
    return { ops: [op], conditions: [isThere(entry)], changes, reads: [look] };
  }

  // Conditions.

  /** @param {string} name */
  #nobody(name) {
    return { ...allWith(this.#keys.queue(name)), ...NONE };
  }

  /**
   * @param {string} name
   * @param {number} revision since which
   */
  #nobodyCame(name, revision) {
    const next = String(revision + 1);
    return {
      ...allWith(this.#keys.queue(name)),
      ...{ target: 'MOD', result: 'LESS', mod_revision: next },
    };
  }

  /** @param {RequestOp} op */
  #onlyWithLimit({ limit, name }) {
    const queue = this.#keys.queue(name);
    const own = this.#keys.shared(name, limit);
    const before = { ...range(queue, own), ...NONE };
    return [before, { ...range(after(own), after(queue)), ...NONE }];
  }

  /** @param {RequestOp} op */
  #noOtherLimit({ limit, name }) {
    const own = this.#keys.shared(name, limit);
    const all = this.#keys.allShared(name);
    const greater = { ...range(after(own), after(all)), ...NONE };
    return limit === 0 ? [greater] : [{ ...range(all, own), ...NONE }, greater];
  }

  /** @param {RequestOp} op */
  #readLimit({ name }) {
    const all = this.#keys.allShared(name);
    return { request_range: { ...allWith(all), limit: '1', keys_only: true } };
  }

  /**
   * @param {string[]} names
   * @returns {object[]} operations, each with an answer for each of some names
   */
  reads(names) {
    const reads = names.map((name) => ({
      request_range: { ...allWith(this.#keys.queue(name)), limit: String(SHORT) },
    }));
    const some = [];
    for (let i = 0; i < reads.length; i += MOST_READS) {
      some.push({ request_txn: { compare: [], success: reads.slice(i, i + MOST_READS) } });
    }
    return some;
  }

  // Answers.

  /**
   * @param {Move} move whose conditions were not met
   * @param {any[]} responses to its reads
   * @returns {Map<Op, Answer>} to all of it
   */
  refusedBy({ ops }, responses) {
    const asked = /** @type {RequestOp[]} */ (ops);
    return new Map(
      asked.map((op, i) => {
        const [found] = responses[i].response_range.kvs ?? [];
        const limit = found && op.mode === 'shared' ? this.#keys.limitOf(found.key) : op.limit;
        return [op, limit === op.limit ? UNAVAILABLE : otherLimit(limit)];
      }),
    );
  }
}

/**
 * @param {object[]} changes each a transaction of its own
 * @returns {object[]} fewer: etcd counts those within one, but not those of one beside it
 */
function bundled(changes) {
  if (changes.length <= MOST_READS) return changes;
  const some = [];
  for (let i = 0; i < changes.length; i += MOST_READS) {
    some.push({ request_txn: { compare: [], success: changes.slice(i, i + MOST_READS) } });
  }
  return some;
}

/**
 * @param {string} lease as in keys
 * @param {number} ref
 * @returns {string} who has set a mark
 */
const setterOf = (lease, ref) => `${lease}-${ref}`;

/** @param {string} key */
const deletion = (key) => ({ request_delete_range: { key: base64(key) } });

/** @param {{ key: string, created: number }} entry */
const isThere = ({ key, created }) => ({
  key: base64(key),
  target: 'CREATE',
  result: 'EQUAL',
  create_revision: String(created),
});

module.exports = { Planner, isRequest, nextPart, setterOf, unitsOf };
