'use strict';

/**
 * Executes a session's steps in etcd, as transactions that plan.js plans. step.js keeps the state.
 * If the response to a transaction was lost, a key of the session shows whether etcd executed the
 * transaction, because transactions write their numbers into this key. Only a transaction of ends
 * without marks writes no number, since it can be repeated. But it must not be repeated once a
 * later request of the session may use a key that it deletes (slots.js).
 */

const { now } = require('../../../platform/intrinsics.js');
const { NOT_HELD, PASSED, PUBLISHED, UNAVAILABLE } = require('../../adapter.js');
const { ENDED, failed, isRequest, otherLimit } = require('../../adapter.js');
const { classify, staleError } = require('../errors.js');
const { longNameError } = require('./errors.js');
const { base64Json, valueOf } = require('./keys.js');
const { answerToMark, grantMarkLease, isMarking, readMark } = require('./marks.js');
const { nested, only, put, read, remove } = require('./operations.js');
const { isPassing, takeNextPart } = require('./plan.js');
const { QueueReader } = require('./queue-reader.js');
const { loggedAt } = require('./session.js');
const { Step } = require('./step.js');

/** @import { Op, RequestOp } from '../../adapter.js' */
/** @import { Move, Plan } from './plan.js' */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./queue.js').Queue>} NameQueue */
/** @typedef {InstanceType<typeof import('./session.js').EtcdSession>} Own */
/** @typedef {InstanceType<typeof Step>} OwnStep */

/** The most characters of a request's value. */
const MOST_VALUE = 1_000_000;

/**
 * Executes a step, or continues it if it was sent before.
 * @param {Op[]} ops @param {number} number @param {Own} own @param {Link} link
 * @param {BucketKeys} keys
 */
async function executeStep(ops, number, own, link, keys) {
  const last = own.step;
  const isAgain = last?.number === number;
  const step = isAgain ? last : new Step(ops, number);
  const { proofs } = own;
  try {
    if (last?.isOutcomeUnknown) await new StepRun(last, own, link, keys).resolveOutcome();
    if (!isAgain) own.queueCache.beginStep();
    own.step = step;
    if (!step.result) await new StepRun(step, own, link, keys).executeParts();
    // A dead session must get no answer, not even an answer that is known without asking etcd.
    if (own.proofs === proofs) await own.check(link);
  } catch (error) {
    // `dead` would mean that nothing of the step was executed, but one of its transactions was.
    if (step.isBegun && !isAgain && classify(error) === 'dead') throw staleError();
    throw error;
  }
  return step.result ?? step.finish();
}

/** The execution of a step over one connection. */
class StepRun {
  #step;
  #own;
  #link;
  #keys;
  #queues;

  /** @param {OwnStep} step @param {Own} own @param {Link} link @param {BucketKeys} keys */
  constructor(step, own, link, keys) {
    this.#step = step;
    this.#own = own;
    this.#link = link;
    this.#keys = keys;
    this.#queues = new QueueReader(keys, own, link);
  }

  async executeParts() {
    const step = this.#step;
    const marking = step.ops.filter(isMarking).filter((op) => !step.answers.has(op));
    // The leases are granted concurrently, so that the first one lasts until the last mark is set.
    await Promise.all(marking.map((op) => grantMarkLease(op, this.#own.lease, this.#link)));
    for (const unit of step.left) this.#checkSizes(unit);
    while (step.refused.size + step.open.length + step.left.length > 0) {
      if (step.refused.size > 0) await this.#withdrawRefused();
      else if (step.open.length > 0) await this.#executePart();
      else {
        const view = await this.#queues.readStolen(step.left);
        step.begin(takeNextPart(step.left, this.#keys, this.#own.queueCache, view), view);
      }
    }
  }

  /** Answers requests that are too large, so that they are not sent. @param {Op[]} unit */
  #checkSizes(unit) {
    const { answers } = this.#step;
    const asked = unit.filter(isRequest);
    const large = asked.filter((op) => this.#keys.value(op).length > MOST_VALUE);
    // A group of `ifAvailable` gets all its locks or none.
    const others = large.length > 0 && unit[0].kind === 'ifAvailable' ? asked : [];
    for (const op of others) answers.set(op, UNAVAILABLE);
    for (const op of large) answers.set(op, failed(longNameError(op.name)));
  }

  /**
   * Executes one transaction of the step, and plans it again until etcd accepts its conditions. A
   * refusal because of a quarantine counts only after `sync` has confirmed the quarantine.
   */
  async #executePart() {
    const step = this.#step;
    const { planner, queueCache } = this.#own;
    for (let isKnown = false; ; isKnown = true) {
      const units = step.open;
      for (const { kind, ref } of units.flat()) if (kind === 'end') step.ending.add(ref);
      const view = step.view ?? (await this.#queues.readStolen(units));
      // After the first attempt, the queues may have changed.
      step.view = undefined;
      const plan = planner.plan(units, view);
      if (plan.refused.size === 0 || isKnown) {
        step.addAnswers(plan.refused);
        if (plan.moves.length === 0) {
          step.part = [];
          return;
        }
        if (await this.#tryPlan(plan)) return;
      }
      if (queueCache.isQuarantined) await this.#own.sync(this.#link);
    }
  }

  /**
   * Returns false if the transaction must be planned again, because a condition did not hold.
   * @param {Plan} plan
   */
  async #tryPlan(plan) {
    const own = this.#own;
    const step = this.#step;
    const isLogged = plan.moves.some(({ ops }) => ops.some((op) => isRequest(op) || isMarking(op)));
    const moves = plan.moves.flatMap(operationsOf);
    const changes = [...moves, ...own.planner.reads(plan.names)];
    if (isLogged) changes.push(put(this.#keys.steps(own.lease), base64Json(step.partId), own.id));
    let isDone = false;
    try {
      step.isOutcomeUnknown = isLogged;
      const conditions = [own.logCondition, ...plan.conditions];
      const { header, logged, responses } = await own.transact(changes, conditions, this.#link);
      if (!responses && logged !== own.logged) return await this.resolveOutcome();
      if (responses) {
        isDone = step.isBegun = true;
        await this.#takeAnswers(plan.moves, responses);
        const reads = responses.slice(moves.length, isLogged ? -1 : undefined);
        this.#recordResults(
          await this.#queues.afterTransaction(step, plan.names, reads, header.revision),
        );
        if (isLogged) own.logged = header.revision;
      }
      step.isOutcomeUnknown = false;
      return isDone;
    } catch (/** @type {any} */ error) {
      if (isDone) throw error;
      return await this.#handleFailure(error);
    }
  }

  /**
   * Throws unless the step can go on after an error of its transaction. To go on, it halves the
   * transaction, or lets its only unit fail, and returns true.
   * @param {any} error
   */
  async #handleFailure(error) {
    const step = this.#step;
    const meaning = classify(error);
    step.isOutcomeUnknown &&= meaning === 'retry';
    const ops = step.part.flat();
    if (meaning === 'dead' && ops.some(isMarking)) {
      // If `sync` succeeds, the session is alive: the lease that had expired was that of the mark.
      await this.#own.sync(this.#link);
      throw staleError();
    }
    if (meaning !== 'refused' && meaning !== 'local') throw error;
    // The transaction is halved here. The session cannot halve the step (R3), because etcd may have
    // executed other transactions of it.
    if (step.part.length > 1) step.halve();
    else for (const op of ops) step.answers.set(op, failed(error));
    return true;
  }

  /** Returns whether etcd executed the unanswered transaction; if so, infers its answers. */
  async resolveOutcome() {
    const own = this.#own;
    const step = this.#step;
    const log = read(only(this.#keys.steps(own.lease)));
    const { responses } = await own.sync(this.#link, [log]);
    const [found] = responses[0].response_range.kvs ?? [];
    const isDone = found !== undefined && valueOf(found.value) === step.partId;
    if (isDone) await this.#inferAnswers(found.mod_revision);
    own.logged = loggedAt(found);
    step.isOutcomeUnknown = false;
    return isDone;
  }

  /**
   * Infers the answers of a transaction that etcd executed but whose response was lost, from the
   * queues at its revision. If etcd has compacted that revision, the present queues are used. A
   * request that was written and is in none of them was stolen, and its theft is reported.
   * @param {string} revision
   */
  async #inferAnswers(revision) {
    const step = this.#step;
    const { lease, queueCache } = this.#own;
    const names = new Set(
      step.open
        .flat()
        .filter(isRequest)
        .map(({ name }) => name),
    );
    const { isCompacted, queues } = await this.#queues.read([...names], revision);
    for (const unit of step.open.reverse()) {
      for (const op of [...unit].reverse()) {
        if (op.kind === 'end') {
          if (op.keep > 0) {
            const mark = await readMark(this.#keys.done(op.name ?? ''), this.#link);
            step.answers.set(op, await answerToMark(op, mark, lease, this.#link));
          }
          continue;
        }
        if (op.kind === 'publish') {
          // Publishing the same data again does no harm.
          step.putBack(op);
          continue;
        }
        if (this.#entryOf(op, queues)) continue;
        if (isPassing(op)) {
          // A `passIfAvailable` never writes a key, so its answer is unknown. A `pass` without a
          // key has passed at once; `#recordResults` handles a `pass` whose key has passed.
          if (op.kind !== 'pass') step.putBack(op);
          else if (!this.#passedEntryOf(op, queues)) step.answers.set(op, PASSED);
          continue;
        }
        const isMade = op.kind === 'steal' || (isCompacted && step.stolenFrom.has(op.ref));
        const other = isMade ? undefined : entryWithOtherLimit(op, queues.get(op.name));
        // If the request was not made, a condition did not hold, so etcd changed nothing for it.
        // The request is put back ahead of those that the step has not made yet, and a group stays
        // together.
        if (other) step.answers.set(op, otherLimit(other.limit));
        else if (!isMade) step.putBack(op);
        else if (op.kind !== 'request') step.noteGrant(op.ref, queueCache.tokenOf(revision));
      }
    }
    this.#recordResults(queues);
  }

  /**
   * Applies an executed transaction to the cache and the step, and refuses requests in excess.
   * @param {Map<string, NameQueue>} queues
   */
  #recordResults(queues) {
    const step = this.#step;
    const { queueCache } = this.#own;
    for (const { kind, ref } of step.part.flat()) {
      if (kind !== 'end') continue;
      queueCache.forget(ref);
      queueCache.published.delete(ref);
    }
    queueCache.applyGrants(queues.values());
    for (const op of step.open.flat().filter(isRequest)) {
      const entry = this.#entryOf(op, queues);
      if (isPassing(op) && !entry) {
        step.answers.set(op, PASSED);
        const passed = this.#passedEntryOf(op, queues);
        if (passed) queueCache.passed.set(op.ref, passed);
      }
      if (!entry) continue;
      if (entry.token && step.noteGrant(op.ref, entry.token)) entry.granted = now();
      if (step.stolenFrom.has(op.ref)) continue;
      const { token } = queueCache.addOwn(entry);
      if (token) step.noteGrant(op.ref, token);
    }
    step.refuseExcess(queues, queueCache.mine);
    step.part = [];
  }

  /** @param {RequestOp} op @param {Map<string, NameQueue>} queues */
  #entryOf(op, queues) {
    return queues.get(op.name)?.entries.get(this.#keyOf(op));
  }

  /**
   * The entry of a request that has passed, if its key may still exist; otherwise undefined.
   * @param {RequestOp} op @param {Map<string, NameQueue>} queues
   */
  #passedEntryOf(op, queues) {
    return queues.get(op.name)?.passed.get(this.#keyOf(op));
  }

  /** @param {RequestOp} op */
  #keyOf(op) {
    const { lease, queueCache } = this.#own;
    return this.#keys.request(op, lease, queueCache.slots.slotOf(op.ref));
  }

  /** @param {Move[]} moves of the transaction @param {any[]} responses */
  async #takeAnswers(moves, responses) {
    const { answers } = this.#step;
    const { lease } = this.#own;
    let next = 0;
    for (const move of moves) {
      const count = operationsOf(move).length;
      const own = responses.slice(next, next + count);
      next += count;
      const { succeeded = false, responses: inner = [] } = isNested(move)
        ? own[0].response_txn
        : { succeeded: true, responses: own };
      const [op] = move.ops;
      if (isMarking(op)) {
        const isSet = inner.at(-1).response_put !== undefined;
        const found = inner.at(-1).response_range?.kvs?.[0];
        answers.set(op, isSet ? ENDED : await answerToMark(op, found, lease, this.#link));
      } else if (op.kind === 'publish') {
        answers.set(op, succeeded ? PUBLISHED : NOT_HELD);
      } else if (isPassing(op)) {
        if (isNested(move) && succeeded) answers.set(op, PASSED);
        else if (op.kind !== 'pass') answers.set(op, UNAVAILABLE);
      } else if (!succeeded) {
        this.#step.addAnswers(this.#own.planner.answersOfRefused(move, inner));
      }
    }
  }

  async #withdrawRefused() {
    const own = this.#own;
    const { refused } = this.#step;
    const changes = [...refused].flatMap((ref) => {
      const entry = own.queueCache.mine.get(ref);
      return entry ? [remove(only(entry.key))] : [];
    });
    if (changes.length > 0) {
      const done = await own.transact(changes, [own.logCondition], this.#link);
      own.logged = done.logged;
      if (!done.responses) return;
    }
    for (const ref of refused) own.queueCache.forget(ref);
    refused.clear();
  }
}

/** Whether a move is a nested transaction. @param {Move} move */
const isNested = ({ conditions }) => conditions.length > 0;

/** @param {Move} move */
const operationsOf = (move) => {
  const { changes, conditions, reads } = move;
  return isNested(move) ? [nested(conditions, changes, reads)] : changes;
};

/** @param {RequestOp} op @param {NameQueue} [queue] */
const entryWithOtherLimit = ({ kind, limit, mode }, queue) =>
  kind === 'request' && mode === 'shared' && queue
    ? [...queue.entries.values()].find((one) => one.kind === 'c' && one.limit !== limit)
    : undefined;

module.exports = { executeStep };
