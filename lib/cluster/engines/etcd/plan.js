'use strict';

/**
 * Plans a step as a few transactions, one after the other. A transaction has a *move* for each
 * operation, or for each group of `ifAvailable`. A move consists of changes, of conditions that
 * etcd checks, and of reads that etcd executes if a condition does not hold. Conditions are as weak
 * as possible, so most transactions succeed at the first attempt, even for busy names:
 *
 * - A request that may wait requires nothing if it is exclusive. If it is shared, it requires that
 *   no request with another limit exists.
 * - `ifAvailable` requires an empty queue or, if it is shared, only shared requests with its limit.
 * - An end that marks the name requires that the lock exists, and so does a publication.
 * - A passing request completes at once if no existing request can hold the name; otherwise its key
 *   is written.
 * - A theft requires that nobody has come to hold the name since its queue was read. It deletes the
 *   requests of the holders, and writes a notice for each of their sessions.
 *
 * No condition of etcd can add up units (`ifAvailable` with a limit) or count waiters
 * (`maxPending`). Such a request is written first, and deleted again if it is not granted or if too
 * many requests wait ahead of it. Until then, other sessions may see it wait.
 */

const { NOT_HELD, UNAVAILABLE, isRequest, otherLimit } = require('../../adapter.js');
const { after, base64Json, base64Text, doneLease, leaseNumber } = require('./keys.js');
const { partsOf } = require('./lists.js');
const { allWith, exists, isEmpty, isSame, nested } = require('./operations.js');
const { only, put, range, read, remove } = require('./operations.js');

/** @import { Answer, Op, RequestOp } from '../../adapter.js' */
/** @import { Entry as CachedRequest } from './queue.js' */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./queue-cache.js').QueueCache>} Cache */
/** @typedef {InstanceType<typeof import('./queue.js').Queue>} NameQueue */

/**
 * The queues of names at a revision. If etcd has compacted that revision (`isCompacted`), some of
 * the queues were read at a later one.
 * @typedef {{ revision: number, queues: Map<string, NameQueue>, isCompacted: boolean }} View
 */

/** The most operations or conditions of a transaction; etcd's default limit is 128. */
const MOST = 100;
/** The most characters of all values; etcd's default limit is 1.5 MiB. */
const MOST_VALUES = 1_000_000;
/** The most operations of a nested transaction. Etcd limits the sum of these and the outer ones. */
const MOST_READS = 20;
/** How many requests of a queue are read, unless the whole queue is needed. */
const SHORT = 64;

/**
 * @typedef {object} Plan
 * @property {Map<Op, Answer>} refused requests that are not sent, because of a quarantine, or
 *   because an equal request is directly ahead
 * @property {Set<string>} tried names of exclusive `ifAvailable` requests
 * @property {object[]} conditions the conditions of all moves
 * @property {Move[]} moves
 * @property {string[]} names whose queues are read
 */

/**
 * @typedef {object} Move
 * @property {Op[]} ops
 * @property {object[]} conditions
 * @property {object[]} changes if an end with `keep` has no lock, the last of its changes is a read
 *   of the mark
 * @property {object[]} reads executed if a condition does not hold: one read for each operation, or
 *   none; for a `pass`, the change that makes it wait
 */

/**
 * The move of a single operation.
 * @param {Op} op @param {object[]} changes @param {object[]} [conditions] @param {object[]} [reads]
 * @returns {Move}
 */
const moveOf = (op, changes, conditions = [], reads = []) => {
  const ops = [op];
  return { ops, changes, conditions, reads };
};

/** Whether only the resulting queue shows the answer to the operation. @param {Op} op */
const needsQueue = (op) =>
  op.kind === 'ifAvailable' ||
  op.kind === 'steal' ||
  isPassing(op) ||
  (op.kind === 'request' && op.maxPending >= 0);

/** @param {Op} op */
const isPassing = ({ kind }) => kind === 'pass' || kind === 'passIfAvailable';

/**
 * Whether an identical request directly after this one must fail: the lock is then held, either by
 * this request or by the holder that made this request fail.
 * @param {Op} op @returns {op is RequestOp}
 */
const isExclusiveTry = (op) =>
  op.kind === 'ifAvailable' && op.mode === 'exclusive' && op.group === 0;

/** Collects the units of one transaction. */
class StepPart {
  #refs = new Set();
  #names = new Set();
  /** Names whose last operation `isExclusiveTry`. @type {Set<string>} */
  #tried = new Set();
  /** Names with a shared request or a theft. @type {Set<string>} */
  #mixed = new Set();
  /** Names with a theft. @type {Set<string>} */
  #stolen = new Set();
  /** Names with a request that `maxPending` may refuse. @type {Set<string>} */
  #counted = new Set();
  /** Limits of shared requests, by name. @type {Map<string, number>} */
  #limits = new Map();
  #weight = 0;
  #values = 0;

  /**
   * Adds a unit; returns false if it needs another transaction. `view`: the queues of its thefts.
   * @param {Op[]} unit @param {BucketKeys} keys @param {Cache} queueCache @param {View} view
   */
  tryToAdd(unit, keys, queueCache, view) {
    const weight = unit.reduce((sum, op) => sum + weightOf(op, queueCache, view), 0);
    const values = unit.reduce((sum, op) => sum + lengthOf(op, keys), 0);
    const isFull = this.#weight + weight > MOST || this.#values + values > MOST_VALUES;
    if (this.#refs.size > 0 && (isFull || unit.some((op) => this.#collides(op)))) return false;
    this.#weight += weight;
    this.#values += values;
    for (const op of unit) this.#add(op, queueCache);
    return true;
  }

  /** Whether an operation must wait for another transaction. @param {Op} op */
  #collides(op) {
    if (this.#refs.has(op.ref)) return true;
    if (op.kind === 'end') return op.keep > 0 && op.name !== undefined && this.#names.has(op.name);
    if (op.kind === 'publish') return false;
    // Etcd checks the conditions before the theft removes the holders, whose limit may differ.
    if (op.mode === 'shared' && this.#stolen.has(op.name)) return true;
    // The queue is read before a refused request is withdrawn, so a shared request behind it would
    // be answered as waiting, and granted a moment later.
    if (op.mode === 'shared' && this.#counted.has(op.name)) return true;
    const limit = this.#limits.get(op.name);
    const isOther = op.mode === 'shared' && limit !== undefined && limit !== op.limit;
    const isAfterOne = isExclusiveTry(op) && this.#tried.has(op.name);
    if (isOther || isAfterOne) return isOther;
    // An operation that is answered from the queue must not follow an earlier operation of the name
    // in the same transaction: the queue is read once, after all of them. The exception is an
    // exclusive request with `maxPending`, unless the name also has a shared request or a theft.
    const isCounted = op.kind === 'request' && op.mode === 'exclusive' && !this.#mixed.has(op.name);
    return needsQueue(op) && !isCounted && this.#names.has(op.name);
  }

  /** @param {Op} op @param {Cache} queueCache */
  #add(op, queueCache) {
    this.#refs.add(op.ref);
    if (op.kind === 'publish') return;
    const known = queueCache.mine.get(op.ref);
    const name = op.name ?? known?.name;
    if (name === undefined) return;
    this.#names.add(name);
    if (isExclusiveTry(op)) this.#tried.add(name);
    else this.#tried.delete(name);
    if (op.kind === 'steal') this.#stolen.add(name);
    if (op.kind === 'request' && op.maxPending >= 0) this.#counted.add(name);
    if (op.kind !== 'end' && (op.kind === 'steal' || op.mode === 'shared')) this.#mixed.add(name);
    if (op.kind === 'end' && known?.kind === 'c') this.#limits.set(name, known.limit);
    if (op.kind !== 'end' && op.mode === 'shared') this.#limits.set(name, op.limit);
  }
}

/**
 * The most conditions or changes of an operation.
 * @param {Op} op @param {Cache} queueCache @param {View} view
 */
function weightOf(op, queueCache, { queues }) {
  if (op.kind === 'steal') return 1 + Math.min(queues.get(op.name)?.held ?? 0, MOST_READS);
  if (op.kind === 'end') return queueCache.published.has(op.ref) ? 2 : 1;
  return isRequest(op) && op.mode === 'shared' ? 2 : 1;
}

/**
 * The characters of the values that an operation writes.
 * @param {Op} op @param {BucketKeys} keys
 */
function lengthOf(op, keys) {
  if (op.kind === 'publish') return base64Text(op.data).length;
  return isRequest(op) ? keys.value(op).length : 0;
}

/** Puts the members of each group together. @param {Op[]} ops */
function unitsOf(ops) {
  /** @type {Op[][]} */
  const units = [];
  let last = 0;
  for (const op of ops) {
    const group = isRequest(op) ? op.group : 0;
    if (group !== 0 && group === last) units[units.length - 1].push(op);
    else units.push([op]);
    last = group;
  }
  return units;
}

/**
 * Removes from `units` those that the next transaction can contain, and returns them.
 * @param {Op[][]} units @param {BucketKeys} keys @param {Cache} queueCache @param {View} view
 */
function takeNextPart(units, keys, queueCache, view) {
  const part = new StepPart();
  const taken = [];
  while (units.length > 0 && part.tryToAdd(units[0], keys, queueCache, view)) {
    taken.push(...units.splice(0, 1));
  }
  return taken;
}

class Planner {
  #keys;
  #queueCache;
  #clientId;

  /**
   * @param {BucketKeys} keys @param {Cache} queueCache
   * @param {string} clientId the client id that holders get if this session steals their locks
   */
  constructor(keys, queueCache, clientId) {
    this.#keys = keys;
    this.#queueCache = queueCache;
    this.#clientId = clientId;
  }

  get #lease() {
    return this.#queueCache.lease;
  }

  /** Writes a key with the session's lease. @param {string} key @param {string} value */
  #put(key, value) {
    return put(key, value, leaseNumber(this.#lease));
  }

  /** @param {Op[][]} units @param {View} view of the names that are stolen @returns {Plan} */
  plan(units, view) {
    /** @type {Plan} */
    const plan = { refused: new Map(), conditions: [], moves: [], names: [], tried: new Set() };
    for (const unit of units) this.#planUnit(unit, plan, view);
    const made = plan.moves.flatMap(({ ops }) => ops.filter(isRequest));
    const names = new Set(made.map(({ name }) => name));
    plan.names = [...names].filter((name) => !this.#queueCache.queue(name));
    return plan;
  }

  /**
   * Adds the moves and refusals of a unit to the plan, by § 4.1 "request a lock" for requests, and
   * by §§ 4.2 and 4.3 for ends:
   * https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
   * @param {Op[]} unit @param {Plan} plan @param {View} view
   */
  #planUnit(unit, plan, view) {
    const [first] = unit;
    if (first.kind === 'end') {
      const move = this.#planEnd(first);
      if (move.changes.length > 0) plan.moves.push(move);
      return;
    }
    const asked = /** @type {RequestOp[]} */ (unit);
    if (first.kind === 'publish') {
      this.#planPublication(first, plan);
    } else if (isPassing(first)) {
      this.#planPass(first, plan);
    } else if (first.kind !== 'ifAvailable') {
      for (const op of asked) plan.moves.push(this.#planRequest(op, plan, view));
    } else if (this.#queueCache.isQuarantined) {
      for (const op of asked) plan.refused.set(op, UNAVAILABLE);
    } else if (isExclusiveTry(first) && plan.tried.has(first.name)) {
      plan.refused.set(first, UNAVAILABLE);
    } else {
      if (isExclusiveTry(first)) plan.tried.add(first.name);
      plan.moves.push(this.#planTries(asked));
    }
  }

  /** The move of an `ifAvailable` or a group of them. @param {RequestOp[]} ops @returns {Move} */
  #planTries(ops) {
    return {
      ops,
      conditions: ops.flatMap((op) =>
        op.mode === 'shared' ? this.#onlyLimitConditions(op) : [this.#unusedCondition(op.name)],
      ),
      changes: ops.map((op) => this.#requestPut(op)),
      reads: ops.map((op) => this.#limitRead(op)),
    };
  }

  /**
   * The move of a request that may wait, or of a theft, whose conditions it adds to the plan.
   * @param {RequestOp} op @param {Plan} plan @param {View} view @returns {Move}
   */
  #planRequest(op, plan, view) {
    const changes = [this.#requestPut(op)];
    if (op.kind === 'steal') return moveOf(op, [...this.#planTheft(op, plan, view), ...changes]);
    if (op.mode === 'exclusive') return moveOf(op, changes);
    return moveOf(op, changes, this.#noOtherLimitConditions(op), [this.#limitRead(op)]);
  }

  /**
   * Adds the move of a passing request, or its refusal, to the plan.
   * @param {RequestOp} op @param {Plan} plan
   */
  #planPass(op, plan) {
    const changes = op.kind === 'pass' ? [this.#requestPut(op)] : [];
    if (!this.#queueCache.isQuarantined) {
      plan.moves.push(moveOf(op, [], [this.#unusedCondition(op.name)], changes));
    } else if (changes.length > 0) {
      plan.moves.push(moveOf(op, changes));
    } else {
      plan.refused.set(op, UNAVAILABLE);
    }
  }

  /** The operation that writes a request's key; takes a slot for it. @param {RequestOp} op */
  #requestPut(op) {
    const key = this.#keys.request(op, this.#lease, this.#queueCache.slots.slotOf(op.ref));
    return this.#put(key, this.#keys.value(op, this.#clientId));
  }

  /**
   * Returns the changes that remove the holders, and adds conditions to the plan.
   * @param {RequestOp} op @param {Plan} plan @param {View} view @returns {object[]}
   */
  #planTheft({ name }, { conditions }, { queues, revision }) {
    if (this.#queueCache.isQuarantined) {
      conditions.push(exists(this.#keys.quarantine));
      return [];
    }
    const { holders = [], firstWaiterAndBlockers = [] } = queues.get(name) ?? {};
    if (holders.length === 0) conditions.push(this.#unusedCondition(name));
    // While this holder exists, nobody else can hold the name.
    else if (holders[0].kind !== 'c') conditions.push(isSame(holders[0]));
    else if (firstWaiterAndBlockers.length === 0)
      conditions.push(this.#unchangedCondition(name, revision));
    else conditions.push(...firstWaiterAndBlockers.map(isSame));
    return nest(holders.map((holder) => this.#theftOperation(holder)));
  }

  /**
   * The operation that takes the lock from a holder, and notifies the holder's session by a key. It
   * does nothing if the holder's request is gone: then the lease of that session may be gone, too,
   * and etcd would refuse to write a key with this lease.
   * @param {CachedRequest} holder
   */
  #theftOperation(holder) {
    const { key, lease, ref } = holder;
    const stolen = this.#keys.stolen(lease, ref);
    const notice = put(stolen, base64Json(this.#clientId), leaseNumber(lease));
    return nested([isSame(holder)], [remove(only(key)), notice]);
  }

  /** @param {import('../../adapter.js').EndOp} op @returns {Move} */
  #planEnd(op) {
    const { keep, name, ref } = op;
    const entry = this.#queueCache.mine.get(ref);
    /** @type {object[]} */
    const changes = entry ? [remove(only(entry.key))] : [];
    if (this.#queueCache.published.has(ref)) changes.push(this.dataDeletion(ref));
    if (!(keep > 0 && name !== undefined)) return moveOf(op, changes);
    const key = this.#keys.done(name);
    const look = read(only(key));
    if (!entry?.token) return moveOf(op, [...changes, look]);
    const setter = base64Json(setterOf(this.#lease, ref));
    changes.push(put(key, setter, doneLease(this.#lease, ref)));
    return moveOf(op, changes, [isSame(entry)], [look]);
  }

  /** @param {import('../../adapter.js').PublishOp} op @param {Plan} plan */
  #planPublication(op, plan) {
    const { data, ref } = op;
    const entry = this.#queueCache.mine.get(ref);
    if (!entry?.token) {
      plan.refused.set(op, NOT_HELD);
      return;
    }
    this.#queueCache.published.add(ref);
    const key = this.#keys.data(this.#lease, ref);
    const change = data === '' ? this.dataDeletion(ref) : this.#put(key, base64Text(data));
    plan.moves.push(moveOf(op, [change], [isSame(entry)]));
  }

  /** @param {number} ref of a lock of the session */
  dataDeletion(ref) {
    return remove(only(this.#keys.data(this.#lease, ref)));
  }

  /** The condition that the name has no requests, except passing ones. @param {string} name */
  #unusedCondition(name) {
    const { key, end } = this.#keys.holding(name);
    return isEmpty(range(key, end));
  }

  /**
   * The condition that no request of the name was written after a revision; deletions do not count.
   * @param {string} name @param {number} revision
   */
  #unchangedCondition(name, revision) {
    const next = String(revision + 1);
    return {
      ...allWith(this.#keys.queue(name)),
      ...{ target: 'MOD', result: 'LESS', mod_revision: next },
    };
  }

  /**
   * The conditions that all requests that can hold the name are shared and have this limit.
   * @param {RequestOp} op
   */
  #onlyLimitConditions({ limit, name }) {
    const { key, end } = this.#keys.holding(name);
    const own = this.#keys.shared(name, limit);
    return [range(key, own), range(after(own), end)].map(isEmpty);
  }

  /** The conditions that no shared request of the name has another limit. @param {RequestOp} op */
  #noOtherLimitConditions({ limit, name }) {
    const own = this.#keys.shared(name, limit);
    const all = this.#keys.allShared(name);
    const greater = range(after(own), after(all));
    return (limit === 0 ? [greater] : [range(all, own), greater]).map(isEmpty);
  }

  /** @param {RequestOp} op */
  #limitRead({ name }) {
    const all = this.#keys.allShared(name);
    return read({ ...allWith(all), limit: '1', keys_only: true });
  }

  /** The operations that read queues, several queues each. @param {string[]} names */
  reads(names) {
    const reads = names.map((name) =>
      read({ ...allWith(this.#keys.queue(name)), limit: String(SHORT) }),
    );
    return partsOf(reads, MOST_READS).map((some) => nested([], some));
  }

  /**
   * The answers to requests whose conditions did not hold, from the `reads` of their move.
   * @param {Move} move @param {any[]} responses @returns {Map<Op, Answer>}
   */
  answersOfRefused({ ops }, responses) {
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
 * Moves changes into nested transactions if they are many. Etcd counts each nested transaction by
 * itself, so their operations do not add up.
 * @param {object[]} changes
 */
const nest = (changes) =>
  changes.length <= MOST_READS
    ? changes
    : partsOf(changes, MOST_READS).map((some) => nested([], some));

/** The value of a mark names the request that set it. @param {string} lease @param {number} ref */
const setterOf = (lease, ref) => `${lease}-${ref}`;

module.exports = { Planner, isPassing, takeNextPart, setterOf, unitsOf };
