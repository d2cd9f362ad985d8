'use strict';

/**
 * Executes a session's steps in etcd, as transactions that plan.js plans. step.js keeps the state.
 * If the response to a transaction was lost, a key of the session shows whether etcd executed the
 * transaction, because transactions write their numbers into this key. Only a transaction of ends
 * without marks writes no number, since it can be repeated. But it must not be repeated once a
 * later request of the session may use a key that it deletes (slots.js).
 */

const { now } = require('../../../platform/intrinsics.js');
const { ENDED, NOT_HELD, NOT_MARKED, PASSED, PUBLISHED } = require('../../adapter.js');
const { UNAVAILABLE, failed, isRequest, otherLimit } = require('../../adapter.js');
const { classify, deadError, staleError } = require('../errors.js');
const { isCompacted, longNameError } = require('./errors.js');
const { allWith, base64, base64Json, doneLease, valueOf } = require('./keys.js');
const { isPassing, takeNextPart, setterOf } = require('./plan.js');
const { syncValue } = require('./query.js');
const { queueAsOf } = require('./queue.js');
const { Step } = require('./step.js');

/** @import { EndOp, Op, RequestOp } from '../../adapter.js' */
/** @import { Own } from './adapter.js' */
/** @import { Move, Plan, View } from './plan.js' */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./queue.js').Queue>} NameQueue */
/** @typedef {InstanceType<typeof import('./step.js').Step>} OwnStep */

/** The most characters of a request's value. */
const MOST_VALUE = 1_000_000;
const MOST_READS = 100;

class Steps {
  #keys;

  /** @param {BucketKeys} keys */
  constructor(keys) {
    this.#keys = keys;
  }

  /** @param {Op[]} ops @param {number} number @param {Own} own @param {Link} link */
  async execute(ops, number, own, link) {
    const last = own.step;
    const isAgain = last?.number === number;
    const step = isAgain ? last : new Step(ops, number);
    const { proofs } = own;
    try {
      if (last?.isOutcomeUnknown) await this.#resolveOutcome(last, own, link);
      if (!isAgain) own.queueCache.beginStep();
      own.step = step;
      if (!step.result) await this.#executeParts(step, own, link);
      // A dead session must get no answer, not even an answer that is known without asking etcd.
      if (own.proofs === proofs) await this.#checkSession(own, link);
    } catch (error) {
      // `dead` would mean that nothing of the step was executed, but one of its transactions was.
      if (step.isBegun && !isAgain && classify(error) === 'dead') throw staleError();
      throw error;
    }
    return step.result ?? step.finish();
  }

  /** @param {OwnStep} step @param {Own} own @param {Link} link */
  async #executeParts(step, own, link) {
    await this.#grantMarkLeases(step, own, link);
    for (const unit of step.left) this.#checkSizes(unit, step);
    while (step.refused.size + step.open.length + step.left.length > 0) {
      if (step.refused.size > 0) await this.#withdrawRefused(step, own, link);
      else if (step.open.length > 0) await this.#executePart(step, own, link);
      else {
        const view = await this.#readStolenQueues(step.left, own, link);
        step.begin(takeNextPart(step.left, this.#keys, own.queueCache, view), view);
      }
    }
  }

  /**
   * Answers requests that are too large, so that they are not sent.
   * @param {Op[]} unit @param {OwnStep} step
   */
  #checkSizes(unit, step) {
    const asked = unit.filter(isRequest);
    const large = asked.filter((op) => this.#keys.value(op).length > MOST_VALUE);
    // A group of `ifAvailable` gets all its locks or none.
    const others = large.length > 0 && unit[0].kind === 'ifAvailable' ? asked : [];
    for (const op of others) step.answers.set(op, UNAVAILABLE);
    for (const op of large) step.answers.set(op, failed(longNameError(op.name)));
  }

  /**
   * Executes one transaction of the step, and plans it again until etcd accepts its conditions. A
   * refusal because of a quarantine counts only after `sync` has confirmed the quarantine.
   * @param {OwnStep} step @param {Own} own @param {Link} link
   */
  async #executePart(step, own, link) {
    for (let isKnown = false; ; isKnown = true) {
      const units = step.open;
      for (const { kind, ref } of units.flat()) if (kind === 'end') step.ending.add(ref);
      const view = step.view ?? (await this.#readStolenQueues(units, own, link));
      // After the first attempt, the queues may have changed.
      step.view = undefined;
      const plan = own.planner.plan(units, view);
      if (plan.refused.size === 0 || isKnown) {
        step.addAnswers(plan.refused);
        if (plan.moves.length === 0) {
          step.part = [];
          return;
        }
        if (await this.#tryPlan(step, plan, own, link)) return;
      }
      if (own.queueCache.isQuarantined) await this.sync(own, link);
    }
  }

  /**
   * Returns false if the transaction must be planned again, because a condition did not hold.
   * @param {OwnStep} step @param {Plan} plan @param {Own} own @param {Link} link
   */
  async #tryPlan(step, plan, own, link) {
    const { asItWas, key } = this.#logOf(own);
    const isLogged = plan.moves.some(({ ops }) => ops.some((op) => isRequest(op) || isMarking(op)));
    const log = { request_put: { key, value: base64Json(step.partId), lease: own.id } };
    const conditions = [asItWas, ...plan.conditions];
    const moves = plan.moves.flatMap(operationsOf);
    const changes = [...moves, ...own.planner.reads(plan.names), ...(isLogged ? [log] : [])];
    let isDone = false;
    try {
      step.isOutcomeUnknown = isLogged;
      const done = await this.#transact(changes, conditions, own, link, key);
      const { header, responses, found } = done;
      if (!responses && loggedAt(found) !== own.logged)
        return await this.#resolveOutcome(step, own, link);
      if (responses) {
        isDone = step.isBegun = true;
        await this.#takeAnswers(step, plan.moves, responses, own, link);
        const reads = responses.slice(moves.length, isLogged ? -1 : undefined);
        const queues = await this.#queuesOf(step, plan.names, reads, header.revision, own, link);
        this.#recordResults(step, queues, own);
        if (isLogged) own.logged = header.revision;
      }
      step.isOutcomeUnknown = false;
      return isDone;
    } catch (/** @type {any} */ error) {
      if (isDone) throw error;
      return await this.#handleFailure(step, error, own, link);
    }
  }

  /** The key that steps write, and the condition that it has not changed. @param {Own} own */
  #logOf({ lease, logged }) {
    const key = base64(this.#keys.steps(lease));
    return { key, asItWas: { key, target: 'MOD', result: 'EQUAL', mod_revision: logged } };
  }

  /**
   * Throws unless the step can go on after an error of its transaction. To go on, it halves the
   * transaction, or lets its only unit fail, and returns true.
   * @param {OwnStep} step @param {any} error @param {Own} own @param {Link} link
   */
  async #handleFailure(step, error, own, link) {
    const meaning = classify(error);
    step.isOutcomeUnknown &&= meaning === 'retry';
    const ops = step.part.flat();
    if (meaning === 'dead' && ops.some(isMarking)) {
      // If `sync` succeeds, the session is alive: the lease that had expired was that of the mark.
      await this.sync(own, link);
      throw staleError();
    }
    if (meaning !== 'refused' && meaning !== 'local') throw error;
    // The transaction is halved here. The session cannot halve the step (R3), because etcd may have
    // executed other transactions of it.
    if (step.part.length > 1) step.halve();
    else for (const op of ops) step.answers.set(op, failed(error));
    return true;
  }

  /**
   * Returns whether etcd executed the unanswered transaction; if so, infers its answers.
   * @param {OwnStep} step @param {Own} own @param {Link} link
   */
  async #resolveOutcome(step, own, link) {
    const range = { key: base64(this.#keys.steps(own.lease)) };
    const { responses } = await this.sync(own, link, [{ request_range: range }]);
    const [found] = responses[0].response_range.kvs ?? [];
    const isDone = found !== undefined && valueOf(found.value) === step.partId;
    if (isDone) await this.#inferAnswers(step, found.mod_revision, own, link);
    own.logged = loggedAt(found);
    step.isOutcomeUnknown = false;
    return isDone;
  }

  /**
   * Infers the answers of a transaction that etcd executed but whose response was lost, from the
   * queues at its revision. If etcd has compacted that revision, the present queues are used. A
   * request that was written and is in none of them was stolen, and its theft is reported.
   * @param {OwnStep} step @param {string} revision @param {Own} own @param {Link} link
   */
  async #inferAnswers(step, revision, own, link) {
    const { lease, queueCache } = own;
    const names = step.open.flat().filter(isRequest);
    const asked = [...new Set(names.map(({ name }) => name))];
    const { isCompacted: isGone, queues } = await this.#readQueues(asked, own, link, revision);
    for (const unit of step.open.reverse()) {
      for (const op of [...unit].reverse()) {
        if (op.kind === 'end') {
          if (op.keep > 0) step.answers.set(op, await this.#readMarkAnswer(op, lease, link));
          continue;
        }
        if (op.kind === 'publish') {
          // Publishing the same data again does no harm.
          step.putBack(op);
          continue;
        }
        if (this.#entryOf(op, queues, own)) continue;
        if (isPassing(op)) {
          // A `passIfAvailable` never writes a key, so its answer is unknown. A `pass` without a
          // key has passed at once; `#recordResults` handles a `pass` whose key has passed.
          if (op.kind !== 'pass') step.putBack(op);
          else if (!this.#passedEntryOf(op, queues, own)) step.answers.set(op, PASSED);
          continue;
        }
        const isMade = op.kind === 'steal' || (isGone && step.stolenFrom.has(op.ref));
        const other = isMade ? undefined : entryWithOtherLimit(op, queues.get(op.name));
        // If the request was not made, a condition did not hold, so etcd changed nothing for it.
        // The request is put back ahead of those that the step has not made yet, and a group stays
        // together.
        if (other) step.answers.set(op, otherLimit(other.limit));
        else if (!isMade) step.putBack(op);
        else if (op.kind !== 'request') step.noteGrant(op.ref, queueCache.tokenOf(revision));
      }
    }
    this.#recordResults(step, queues, own);
  }

  /**
   * Applies an executed transaction to the cache and the step, and refuses requests in excess.
   * @param {OwnStep} step @param {Map<string, NameQueue>} queues @param {Own} own
   */
  #recordResults(step, queues, own) {
    const { queueCache } = own;
    for (const { kind, ref } of step.part.flat()) {
      if (kind !== 'end') continue;
      queueCache.forget(ref);
      queueCache.published.delete(ref);
    }
    queueCache.applyGrants(queues.values());
    for (const op of step.open.flat().filter(isRequest)) {
      const entry = this.#entryOf(op, queues, own);
      if (isPassing(op) && !entry) {
        step.answers.set(op, PASSED);
        const passed = this.#passedEntryOf(op, queues, own);
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

  /** @param {RequestOp} op @param {Map<string, NameQueue>} queues @param {Own} own */
  #entryOf(op, queues, { lease, queueCache }) {
    const key = this.#keys.request(op, lease, queueCache.slots.slotOf(op.ref));
    return queues.get(op.name)?.entries.get(key);
  }

  /**
   * The entry of a request that has passed, if its key may still exist; otherwise undefined.
   * @param {RequestOp} op @param {Map<string, NameQueue>} queues @param {Own} own
   */
  #passedEntryOf(op, queues, { lease, queueCache }) {
    const key = this.#keys.request(op, lease, queueCache.slots.slotOf(op.ref));
    return queues.get(op.name)?.passed.get(key);
  }

  /** @param {Op[][]} units @param {Own} own @param {Link} link */
  async #readStolenQueues(units, own, link) {
    const thefts = units.flat().filter((op) => op.kind === 'steal');
    const names = new Set(thefts.map(({ name }) => String(name)));
    return await this.#readQueues([...names], own, link);
  }

  /**
   * Reads queues at a revision. If etcd has compacted that revision, this reads the present queues,
   * and then waits until all thefts so far are known: a request that is missing in the queues may
   * have been stolen, and must not be repeated.
   * @param {string[]} names @param {Own} own @param {Link} link @param {string} [at] the revision
   */
  async #readQueues(names, own, link, at = '0') {
    /** @type {View} */
    const view = { queues: new Map(), revision: Number(at), isCompacted: false };
    for (let i = 0; i < names.length; i += MOST_READS) {
      const some = names.slice(i, i + MOST_READS);
      const ranges = some.map((name) => ({
        ...allWith(this.#keys.queue(name)),
        revision: String(view.revision),
      }));
      const { header, found } = await this.#read(ranges, view, link);
      const isNow = view.isCompacted || view.revision === 0;
      const revision = isNow ? header.revision : String(view.revision);
      for (const [name, queue] of this.#queuesAt(some, found, revision, own)) {
        view.queues.set(name, queue);
      }
      if (view.revision === 0) view.revision = Number(revision);
    }
    if (view.isCompacted) await this.sync(own, link);
    return view;
  }

  /**
   * Reads the present state, and notes that in `view`, if etcd has compacted the revision.
   * @param {object[]} ranges @param {View} view @param {Link} link
   */
  async #read(ranges, view, link) {
    try {
      return await link.read(ranges);
    } catch (error) {
      if (!isCompacted(error)) throw error;
      view.isCompacted = true;
      return await link.read(ranges.map((range) => ({ ...range, revision: '0' })));
    }
  }

  /**
   * Parses the queues of names that were read at a revision.
   * @param {string[]} names @param {any[]} found @param {string} revision @param {Own} own
   */
  #queuesAt(names, found, revision, { queueCache }) {
    const token = queueCache.tokenOf(revision);
    const isQuarantined = queueCache.wasQuarantined(Number(revision));
    return new Map(
      names.map((name, i) => {
        const { kvs = [] } = found[i];
        return [name, queueAsOf(kvs, this.#keys, token, isQuarantined)];
      }),
    );
  }

  /**
   * The queues of all names of a transaction, which has read those of `names` at `revision`.
   * @param {OwnStep} step @param {string[]} names @param {any[]} reads @param {string} revision
   * @param {Own} own @param {Link} link
   */
  async #queuesOf(step, names, reads, revision, own, link) {
    const found = reads.flatMap((one) =>
      one.response_txn.responses.map((/** @type {any} */ { response_range: read }) => read),
    );
    const queues = this.#queuesAt(names, found, revision, own);
    const left = names.filter((_, i) => found[i].more);
    for (const { name } of step.open.flat().filter(isRequest)) {
      if (queues.has(name)) continue;
      // The transaction changed this watched queue, so the watch reaches that revision.
      await own.queueCache.waitForRevision(name, Number(revision));
      link.throwIfDropped();
      const queue = own.queueCache.queue(name);
      if (queue) queues.set(name, queue);
      else if (!left.includes(name)) left.push(name);
    }
    const all = await this.#readQueues(left, own, link, revision);
    for (const [name, queue] of all.queues) queues.set(name, queue);
    return queues;
  }

  /**
   * @param {OwnStep} step @param {Move[]} moves of the transaction
   * @param {any[]} responses @param {Own} own @param {Link} link
   */
  async #takeAnswers(step, moves, responses, { lease, planner }, link) {
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
        step.answers.set(op, isSet ? ENDED : await this.#markAnswer(op, found, lease, link));
      } else if (op.kind === 'publish') {
        step.answers.set(op, succeeded ? PUBLISHED : NOT_HELD);
      } else if (isPassing(op)) {
        if (isNested(move) && succeeded) step.answers.set(op, PASSED);
        else if (op.kind !== 'pass') step.answers.set(op, UNAVAILABLE);
      } else if (!succeeded) step.addAnswers(planner.answersOfRefused(move, inner));
    }
  }

  /** @param {OwnStep} step @param {Own} own @param {Link} link */
  async #withdrawRefused(step, own, link) {
    const { mine } = own.queueCache;
    const changes = [...step.refused].flatMap((ref) => {
      const entry = mine.get(ref);
      return entry ? [{ request_delete_range: { key: base64(entry.key) } }] : [];
    });
    if (changes.length > 0) {
      const { asItWas, key } = this.#logOf(own);
      const { found, responses } = await this.#transact(changes, [asItWas], own, link, key);
      if (!responses) {
        own.logged = loggedAt(found);
        return;
      }
    }
    for (const ref of step.refused) own.queueCache.forget(ref);
    step.refused.clear();
  }

  /** @param {OwnStep} step @param {Own} own @param {Link} link */
  async #grantMarkLeases({ answers, ops }, own, link) {
    const left = ops.filter(isMarking).filter((op) => !answers.has(op));
    // The leases are granted concurrently, so that the first one lasts until the last mark is set.
    await Promise.all(left.map((op) => this.#grantMarkLease(op, own, link)));
  }

  /** @param {EndOp} op @param {Own} own @param {Link} link */
  async #grantMarkLease({ keep, ref }, own, link) {
    const TTL = String(Math.ceil(keep / 1_000));
    try {
      await link.call('lease/grant', { ID: doneLease(own.lease, ref), TTL });
    } catch (/** @type {any} */ error) {
      if (!/lease already exists/.test(error?.message)) throw error;
      // An earlier attempt granted this lease, maybe long ago.
      await link.call('lease/keepalive', { ID: doneLease(own.lease, ref) });
    }
  }

  /** @param {EndOp} op @param {string} lease @param {Link} link */
  async #readMarkAnswer(op, lease, link) {
    const { found } = await link.read([{ key: base64(this.#keys.done(op.name ?? '')) }]);
    return this.#markAnswer(op, found[0].kvs?.[0], lease, link);
  }

  /**
   * The answer to an end that marks; if it set no mark, this revokes the mark's lease.
   * @param {Op} op @param {any} found the name's mark @param {string} lease @param {Link} link
   */
  async #markAnswer({ ref }, found, lease, link) {
    if (found && valueOf(found.value) === setterOf(lease, ref)) return ENDED;
    // The mark was not set, so nothing uses its lease, which would otherwise last for `keep`.
    await link.call('lease/revoke', { ID: doneLease(lease, ref) }).catch(() => {});
    return NOT_MARKED;
  }

  /**
   * Makes changes. Throws if the session is dead or this is not its latest connection. If one of
   * `conditions` does not hold, nothing was changed, there are no responses, and `found` is the key
   * `log` as it is now.
   * @param {object[]} changes @param {object[]} conditions @param {Own} own @param {Link} link
   * @param {string} [log] @returns {Promise<{ header: any, responses?: any[], found?: any }>}
   */
  async #transact(changes, conditions, own, link, log) {
    const key = base64(this.#keys.session(own.lease));
    const isOurs = { key, target: 'VERSION', result: 'EQUAL', version: String(own.version) };
    const { header, responses, succeeded } = await link.call('kv/txn', {
      compare: [isOurs, ...conditions],
      success: changes,
    });
    if (succeeded) {
      own.proofs++;
      return { header, responses };
    }
    // The reason is read after a failure only, since reads in each transaction would cost time.
    const seen = await link.read([key, ...(log ? [log] : [])].map((one) => ({ key: one })));
    const [[self], [found] = []] = seen.found.map(({ kvs = [] }) => kvs);
    if (!self) throw deadError();
    if (Number(self.version) !== own.version) throw staleError();
    return { header, found };
  }

  /** Rejects if the session is dead or has a newer link. @param {Own} own @param {Link} link */
  async #checkSession(own, link) {
    // The transaction contains a read, because a member answers a transaction without operations
    // from its own state, which may be stale.
    const key = base64(this.#keys.session(own.lease));
    await this.#transact([{ request_range: { key, keys_only: true } }], [], own, link);
  }

  /**
   * Waits until the cache knows everything that was written for the session, and whether there is a
   * quarantine. For this purpose it writes a key, which the watch delivers last. `others` are
   * further operations of that transaction.
   * @param {Own} own @param {Link} link @param {object[]} [others]
   */
  async sync(own, link, others = []) {
    const { lease, queueCache } = own;
    const key = base64(this.#keys.syncKey(lease));
    const put = { key, value: base64Json(syncValue(queueCache, own.logged)), lease: own.id };
    const quarantine = { request_range: { key: base64(this.#keys.quarantine), count_only: true } };
    const changes = [...others, quarantine, { request_put: put }];
    // If another epoch has begun, the session was deleted, and `#transact` throws. So only this
    // condition fails if somebody has deleted the epoch's key by hand.
    const isItsLife = {
      ...{ key: base64(this.#keys.life), target: 'MOD', result: 'EQUAL' },
      mod_revision: own.life.revision,
    };
    const { header, responses } = await this.#transact(changes, [isItsLife], own, link);
    if (!responses) throw deadError();
    const revision = Number(header.revision);
    await own.deliveries.waitFor(revision);
    link.throwIfDropped();
    if (!Number(responses.at(-2).response_range.count ?? 0)) queueCache.endQuarantine(revision);
    return { header, responses };
  }
}

/** The revision of the key that steps write; '0' if it does not exist. @param {any} found */
const loggedAt = (found) => found?.mod_revision ?? '0';

/** Whether a move is a nested transaction. @param {Move} move */
const isNested = ({ conditions }) => conditions.length > 0;

/** @param {Move} move */
const operationsOf = (move) => {
  const { changes, conditions, reads } = move;
  if (!isNested(move)) return changes;
  return [{ request_txn: { compare: conditions, success: changes, failure: reads } }];
};

/** @param {RequestOp} op @param {NameQueue} [queue] */
const entryWithOtherLimit = ({ kind, limit, mode }, queue) =>
  kind === 'request' && mode === 'shared' && queue
    ? [...queue.entries.values()].find((one) => one.kind === 'c' && one.limit !== limit)
    : undefined;

/** @param {Op} op @returns {op is EndOp} */
const isMarking = (op) => op.kind === 'end' && op.keep > 0;

module.exports = { Steps };
