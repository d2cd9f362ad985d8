'use strict';

/**
 * The steps of a session at etcd: what plan.js has planned is done, in transactions, and step.js
 * keeps what is known of it. What is not known is found out: a transaction whose answer got lost
 * was done if its number is in the session's key.
 */

const { ENDED, NOT_MARKED, UNAVAILABLE, failed, granted } = require('../../adapter.js');
const { classify, deadError, longNameError, staleError } = require('./errors.js');
const { base64, base64Json, doneLease, valueOf } = require('./keys.js');
const { nextPart, setterOf } = require('./plan.js');
const { Step } = require('./step.js');

/** @typedef {import('../../adapter.js').Answer} Answer */
/** @typedef {import('../../adapter.js').Op} Op */
/** @typedef {import('./adapter.js').Own} Own */
/** @typedef {InstanceType<typeof import('./gateway.js').Link>} OpenLink */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {import('./plan.js').Plan} Plan */
/** @typedef {InstanceType<typeof import('./step.js').Step>} OwnStep */

/** The most characters of a request's value. */
const MOST_VALUE = 1_000_000;

class Steps {
  #keys;
  #changed;

  /**
   * @param {BucketKeys} keys
   * @param {() => void} changed tells that hints may have got lost
   */
  constructor(keys, changed) {
    this.#keys = keys;
    this.#changed = changed;
  }

  /**
   * @param {Op[]} ops
   * @param {number} number
   * @param {Own} own
   * @param {OpenLink} link
   * @returns {Promise<Answer[]>}
   */
  async make(ops, number, own, link) {
    const last = own.step;
    const step = last?.number === number ? last : new Step(ops, number);
    if (step.result) return step.result;
    if (last?.isInDoubt) await this.#clear(last, own, link);
    own.step = step;
    await this.#leaseMarks(step, own, link);
    for (const unit of step.left) this.#checkSizes(unit, step);
    while (step.refused.size + step.open.length + step.left.length > 0) {
      if (step.refused.size > 0) await this.#takeBack(step, own, link);
      else if (step.open.length > 0) await this.#do(step, own, link);
      else step.begin(nextPart(step.left, this.#keys, own.mirror));
    }
    return step.finish(own.mirror);
  }

  /**
   * @param {Op[]} unit
   * @param {OwnStep} step
   */
  #checkSizes(unit, step) {
    const asked = unit.filter(isRequest);
    const large = asked.filter((op) => this.#keys.value(op).length > MOST_VALUE);
    // Such a group gets all or none.
    const others = large.length > 0 && unit[0].kind === 'ifAvailable' ? asked : [];
    for (const op of others) step.answers.set(op, UNAVAILABLE);
    for (const op of large) step.answers.set(op, failed(longNameError(op.name)));
  }

  /**
   * Does the part of a step that was begun. What refuses something has to be known after the step
   * began.
   * @param {OwnStep} step
   * @param {Own} own
   * @param {OpenLink} link
   */
  async #do(step, own, link) {
    for (let isKnown = false; ; isKnown = true) {
      const units = step.open;
      for (const { kind, ref } of units.flat()) if (kind === 'end') step.ending.add(ref);
      const plan = own.planner.plan(units);
      if (plan.refused.size === 0 || isKnown) {
        step.answer(plan.refused);
        if (plan.moves.length === 0) {
          step.part = [];
          return;
        }
        if (await this.#try(step, plan, own, link)) return;
      }
      await this.sync(own, link);
    }
  }

  /**
   * @param {OwnStep} step
   * @param {Plan} plan
   * @param {Own} own
   * @param {OpenLink} link
   * @returns {Promise<boolean>} false: a condition is not met
   */
  async #try(step, plan, own, link) {
    step.loads = own.mirror.loads;
    const key = base64(this.#keys.steps(own.lease));
    const log = { key, value: base64Json(step.partId), lease: own.id };
    const changes = [...plan.moves.flatMap(requestsOf), { request_put: log }];
    const asItWas = { key, target: 'MOD', result: 'EQUAL', mod_revision: own.logged };
    let done;
    try {
      step.isInDoubt = true;
      done = await this.#transact(changes, [asItWas, ...plan.conditions], own, link, key);
    } catch (/** @type {any} */ error) {
      return await this.#failed(step, error, own, link);
    }
    const { responses, found } = done;
    if (found && found.mod_revision !== own.logged) return await this.#clear(step, own, link);
    step.isInDoubt = false;
    if (!responses) return false;
    own.logged = done.header.revision;
    await this.#take(step, plan.moves, responses, own, link);
    step.judge(own.mirror);
    step.part = [];
    return true;
  }

  /**
   * @param {OwnStep} step
   * @param {any} error of the transaction of its part
   * @param {Own} own
   * @param {OpenLink} link
   * @returns {Promise<boolean>} true: go on
   */
  async #failed(step, error, own, link) {
    const meaning = classify(error);
    step.isInDoubt = meaning === 'retry';
    const ops = step.part.flat();
    if (meaning === 'dead' && ops.some(isMarking)) {
      // It may be the lease of a mark that is over: then the session is there.
      await this.sync(own, link);
      throw staleError();
    }
    if (meaning !== 'refused' && meaning !== 'local') throw error;
    // Not for the session to halve: other parts of the step may be done.
    if (step.part.length > 1) step.halve();
    else for (const op of ops) step.answers.set(op, failed(error));
    return true;
  }

  /**
   * Finds out whether the part in doubt was done.
   * @param {OwnStep} step
   * @param {Own} own
   * @param {OpenLink} link
   * @returns {Promise<boolean>}
   */
  async #clear(step, own, link) {
    const range = { key: base64(this.#keys.steps(own.lease)) };
    const { responses } = await this.sync(own, link, [{ request_range: range }]);
    const [found] = responses[1].response_range.kvs ?? [];
    own.logged = found?.mod_revision ?? '0';
    const isDone = found !== undefined && valueOf(found.value) === step.partId;
    if (isDone) await this.#infer(step, BigInt(own.logged), own, link);
    step.isInDoubt = false;
    return isDone;
  }

  /**
   * Answers a part that was done, and whose answer got lost.
   * @param {OwnStep} step
   * @param {bigint} revision at which it was done
   * @param {Own} own
   * @param {OpenLink} link
   */
  async #infer(step, revision, { lease, mirror }, link) {
    const isAllHeard = step.loads === mirror.loads;
    for (const unit of step.open.reverse()) {
      const isMade = unit.some(({ ref }) => step.made.has(ref));
      for (const op of [...unit].reverse()) {
        if (op.kind === 'end') {
          if (op.keep > 0) step.answers.set(op, await this.#lookAt(op, lease, link));
          continue;
        }
        if (mirror.mine.has(op.ref) || step.tokenOf(op, mirror)) continue;
        if (op.kind === 'steal') step.answers.set(op, granted(revision + mirror.offset));
        // A condition was not met, and nothing was changed by it.
        else if (isAllHeard && !(op.kind === 'ifAvailable' ? isMade : step.made.has(op.ref))) {
          step.again(op);
        }
      }
    }
    step.judge(mirror);
    step.part = [];
    // What was told of these meanwhile was not heard.
    if (!isAllHeard) this.#changed();
  }

  /**
   * @param {OwnStep} step
   * @param {import('./plan.js').Move[]} moves that were made
   * @param {any[]} responses
   * @param {Own} own
   * @param {OpenLink} link
   */
  async #take(step, moves, responses, { lease, planner }, link) {
    let next = 0;
    for (const move of moves) {
      const count = requestsOf(move).length;
      const own = responses.slice(next, next + count);
      next += count;
      const { succeeded = false, responses: inner = [] } = isNested(move)
        ? own[0].response_txn
        : { succeeded: true, responses: own };
      const [op] = move.ops;
      if (isMarking(op)) {
        const isSet = inner.at(-1).response_put !== undefined;
        const found = inner.at(-1).response_range?.kvs?.[0];
        step.answers.set(op, isSet ? ENDED : await this.#markOf(op, found, lease, link));
      } else if (!succeeded) step.answer(planner.refusedBy(move, inner));
    }
  }

  /**
   * Ends requests that were made and are not as they were wanted.
   * @param {OwnStep} step
   * @param {Own} own
   * @param {OpenLink} link
   */
  async #takeBack(step, own, link) {
    const entries = [...step.refused].map((ref) => own.mirror.mine.get(ref));
    const changes = entries.flatMap((entry) =>
      entry ? [{ request_delete_range: { key: base64(entry.key) } }] : [],
    );
    if (changes.length > 0) await this.#transact(changes, [], own, link);
    step.refused.clear();
  }

  // Marks.

  /**
   * Makes the leases of the marks that a step sets, or finds those of an earlier attempt.
   * @param {OwnStep} step
   * @param {Own} own
   * @param {OpenLink} link
   */
  async #leaseMarks({ answers, ops }, own, link) {
    const left = ops.filter(isMarking).filter((op) => !answers.has(op));
    // All at once: the first is to last until the last mark is set.
    await Promise.all(left.map((op) => this.#leaseMark(op, own, link)));
  }

  /**
   * @param {import('../../adapter.js').EndOp} op
   * @param {Own} own
   * @param {OpenLink} link
   */
  async #leaseMark({ keep, ref }, own, link) {
    const TTL = String(Math.ceil(keep / 1_000));
    try {
      await link.call('lease/grant', { ID: doneLease(own.lease, ref), TTL });
    } catch (/** @type {any} */ error) {
      if (!/lease already exists/.test(error?.message)) throw error;
    }
  }

  /**
   * @param {import('../../adapter.js').EndOp} op that was to mark its name
   * @param {string} lease
   * @param {OpenLink} link
   * @returns {Promise<Answer>} whether it has
   */
  async #lookAt(op, lease, link) {
    const { kvs = [] } = await link.call('kv/range', {
      key: base64(this.#keys.done(op.name ?? '')),
    });
    return this.#markOf(op, kvs[0], lease, link);
  }

  /**
   * @param {Op} op that was to mark its name
   * @param {any} found the mark of that name
   * @param {string} lease
   * @param {OpenLink} link
   * @returns {Promise<Answer>} whether it has
   */
  async #markOf({ ref }, found, lease, link) {
    if (found && valueOf(found.value) === setterOf(lease, ref)) return ENDED;
    // Nothing is bound to it, and it would stay as long as a mark.
    await link.call('lease/revoke', { ID: doneLease(lease, ref) }).catch(() => {});
    return NOT_MARKED;
  }

  // Transactions.

  /**
   * Changes something, if the session is alive and this is its connection.
   * @param {object[]} changes
   * @param {object[]} conditions
   * @param {Own} own
   * @param {OpenLink} link
   * @param {string} [log] a key to look at if another condition is not met
   * @returns {Promise<{ header: any, responses?: any[], found?: any }>} no responses: it is not
   */
  async #transact(changes, conditions, own, link, log) {
    const key = base64(this.#keys.session(own.lease));
    const looks = [key, ...(log ? [log] : [])].map((one) => ({ request_range: { key: one } }));
    const { header, responses, succeeded } = await link.call('kv/txn', {
      compare: [
        { key, target: 'VERSION', result: 'EQUAL', version: String(own.version) },
        ...conditions,
      ],
      success: changes,
      failure: looks,
    });
    if (succeeded) {
      const watched = log ? responses.slice(0, -1) : responses;
      if (watched.some(hasChanged)) await own.mirror.reached(Number(header.revision));
      return { header, responses };
    }
    const [[self], [found] = []] = responses.map(
      (/** @type {any} */ one) => one.response_range.kvs ?? [],
    );
    if (!self) throw deadError();
    if (Number(self.version) !== own.version) throw staleError();
    return { header, found };
  }

  /**
   * Has the mirror know all that has happened until now.
   * @param {Own} own
   * @param {OpenLink} link
   * @param {object[]} [reads]
   */
  async sync(own, link, reads = []) {
    const key = base64(this.#keys.mark(own.lease));
    const { header, responses = [] } = await this.#transact(
      [{ request_put: { key, lease: own.id } }, ...reads],
      ...[[], own, link],
    );
    return { header, responses };
  }
}

/**
 * @param {import('./plan.js').Move} move
 * @returns {boolean} whether it is a transaction of its own
 */
const isNested = ({ conditions }) => conditions.length > 0;

/** @param {import('./plan.js').Move} move @returns {object[]} in the transaction of the part */
const requestsOf = (move) => {
  const { changes, conditions, reads } = move;
  if (!isNested(move)) return changes;
  return [{ request_txn: { compare: conditions, success: changes, failure: reads } }];
};

/** @param {any} response @returns {boolean} whether something is different now */
const hasChanged = ({ response_put: put, response_delete_range: end, response_txn: inner }) =>
  put !== undefined || end?.deleted > 0 || (inner?.responses ?? []).some(hasChanged);

/**
 * @param {Op} op
 * @returns {op is import('../../adapter.js').RequestOp}
 */
const isRequest = (op) => op.kind !== 'end';

/**
 * @param {Op} op
 * @returns {op is import('../../adapter.js').EndOp}
 */
const isMarking = (op) => op.kind === 'end' && op.keep > 0;

module.exports = { Steps };
