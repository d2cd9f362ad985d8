'use strict';

/**
 * Executes a session's step in etcd, in one transaction if etcd's limit allows. Each attempt plans
 * the step from pictures of its names (attempt.js). The first pictures are mostly guesses: a name
 * is free, or is as it was when the session was granted its lock. If a condition of the transaction
 * does not hold, the session reads the pictures for the next attempt. A name that the step only
 * makes plain requests for needs no picture, because etcd itself decides whether the first one is
 * granted.
 *
 * The transaction records the step's number and its answers (R1). So if a response was lost, the
 * next attempt finds the record. A step that consists of ends only is not recorded, because it can
 * be repeated.
 */

const { UNAVAILABLE, failed, isRequest, otherLimit } = require('../../adapter.js');
const { classify, staleError } = require('../errors.js');
const { ANSWERS, Attempt, LETTER } = require('./attempt.js');
const { longNameError } = require('./errors.js');
const { base64Json, doneLease } = require('./keys.js');
const { answerToMark, grantMarkLease, isMarking, setterOf } = require('./marks.js');
const { allWith, isEmpty, nest, nested, only, put, read } = require('./operations.js');
const { NOTHING, firstRange, pictureOf, readLongPicture, readPicture } = require('./picture.js');
const { NameTransaction } = require('./transaction.js');

/** @import { Answer, EndOp, Op, RequestOp } from '../../adapter.js' */
/** @import { Picture, QueuedRequest } from './picture.js' */
/** @typedef {InstanceType<typeof Attempt>} StepAttempt */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./etcd-session.js').EtcdSession>} Own */

/** The most characters of a request's name. */
const MOST_NAME = 1_000_000;

/**
 * The record of a step: a LETTER for each operation; `limits` are those of OTHER_LIMIT, in order.
 * @typedef {{ number: number, answers: string, limits: number[] }} StepRecord
 */

/** Whether etcd itself can decide on a request. @param {Op} op */
const isPlain = (op) => op.kind === 'request' && op.mode === 'exclusive' && op.maxPending < 0;

/**
 * Executes a step, or answers it again if it was executed.
 * @param {Op[]} ops @param {number} number @param {Own} own @param {Link} link
 */
async function executeStep(ops, number, own, link) {
  // If a part of the step was answered before the connection was lost, the rest follows now.
  if (own.last.number !== number)
    own.last = { number, answers: [], record: { number, answers: '', limits: [] } };
  const { answers } = own.last;
  if (answers.length === ops.length) {
    // A dead session must get no answer.
    await own.check(link);
    return answers;
  }
  own.requests.beginStep(number);
  const marking = ops.filter(isMarking);
  // The leases are granted concurrently, so that the first one lasts until the last mark is set.
  await Promise.all(marking.map((op) => grantMarkLease(op, own.lease, link)));
  for (const op of ops.slice(answers.length).filter(isRequest)) own.requests.add(op);
  try {
    await executeParts(ops, own, link);
  } catch (error) {
    const meaning = classify(error);
    if (meaning === 'retry') throw error;
    for (const { ref } of ops.slice(answers.length).filter(isRequest)) own.requests.forget(ref);
    // `dead` would mean that nothing of the step was executed.
    if (answers.length > 0) throw meaning === 'dead' ? staleError() : error;
    if (marking.length > 0 && meaning === 'dead') {
      // If the session is alive, the lease that had expired was that of the mark.
      await own.check(link);
      throw staleError();
    }
    throw error;
  }
  own.requests.endStep();
  return answers;
}

/**
 * Executes what is not answered yet of a step, in as few transactions as etcd's limit allows, and
 * adds the answers.
 * @param {Op[]} ops @param {Own} own @param {Link} link
 */
async function executeParts(ops, own, link) {
  const { last } = own;
  const { answers } = last;
  let size = ops.length;
  while (answers.length < ops.length) {
    const rest = beforeTheft(ops.slice(answers.length), own);
    const some = cut(rest, size);
    const isCuttable = cut(some, 1).length < some.length;
    const result = await new StepPart(some, last.record, own, link).execute(isCuttable);
    if (!result) {
      size = Math.ceil(some.length / 2);
      continue;
    }
    const { record, revision } = result;
    const { length } = answers;
    const made = ops.slice(length, record.answers.length);
    const restore = () => new StepPart(made, record, own, link).restore(length, revision);
    answers.push(...(result.answers ?? (await restore())));
    last.record = record;
  }
}

/**
 * The operations before the first theft of a name that operations before it concern. All grants of
 * a transaction have one token, and a thief's token must be greater than those of its victims.
 * @param {Op[]} ops @param {Own} own
 */
function beforeTheft(ops, own) {
  const names = new Set();
  const count = ops.findIndex((op) => {
    if (op.kind === 'steal' && names.has(op.name)) return true;
    names.add(op.name ?? own.requests.get(op.ref)?.name);
    return false;
  });
  return count < 0 ? ops : ops.slice(0, count);
}

/**
 * The first operations, about `size`. The members of a group stay together.
 * @param {Op[]} ops @param {number} size
 */
function cut(ops, size) {
  const groupOf = (/** @type {Op | undefined} */ op) => (op && isRequest(op) ? op.group : 0);
  let count = Math.max(size, 1);
  while (groupOf(ops[count]) > 0 && groupOf(ops[count]) === groupOf(ops[count - 1])) count++;
  return ops.slice(0, count);
}

/** Operations of a step that are executed in one transaction. */
class StepPart {
  #ops;
  #done;
  #own;
  #link;
  #keys;
  /** The operations of each name that are sent. @type {Map<string, Op[]>} */
  #names = new Map();
  /** The requests of names that etcd decides on. @type {Map<string, RequestOp[]>} */
  #plain = new Map();
  /** Answers of operations that are not sent. @type {Map<Op, Answer>} */
  #known = new Map();

  /**
   * @param {Op[]} ops @param {StepRecord} done the record of the parts before @param {Own} own
   * @param {Link} link
   */
  constructor(ops, done, own, link) {
    this.#ops = ops;
    this.#done = done;
    this.#own = own;
    this.#link = link;
    this.#keys = own.keys;
    this.#refuseLongNames();
    for (const op of ops) {
      const name = op.name ?? own.requests.get(op.ref)?.name;
      if (name === undefined || this.#known.has(op)) continue;
      const its = this.#names.get(name);
      if (its) its.push(op);
      else this.#names.set(name, [op]);
    }
    for (const [name, its] of this.#names)
      if (its.every((op) => isPlain(op) && !own.requests.get(op.ref)?.isAnswered))
        this.#plain.set(name, /** @type {RequestOp[]} */ (its));
  }

  /** Answers requests whose names are too long, so that they are not sent. */
  #refuseLongNames() {
    for (const op of this.#ops.filter(isRequest)) {
      if (op.name.length <= MOST_NAME) continue;
      this.#known.set(op, failed(longNameError(op.name)));
      // A group of `ifAvailable` gets all its locks or none.
      if (op.kind !== 'ifAvailable' || op.group === 0) continue;
      for (const other of this.#ops.filter(isRequest))
        if (other.group === op.group && !this.#known.has(other))
          this.#known.set(other, UNAVAILABLE);
    }
  }

  /**
   * Executes the operations. Without `answers`, `record` shows that they were executed before.
   * @param {boolean} isCuttable
   * @returns {Promise<{ answers?: Answer[], record: StepRecord, revision: string } | undefined>}
   *   undefined if they need more than one transaction
   */
  async execute(isCuttable) {
    let pictures = await this.#firstPictures();
    const ops = this.#ops.filter((op) => !this.#known.has(op));
    for (;;) {
      const attempt = new Attempt(this.#own);
      attempt.plan(ops, this.#planned, pictures);
      const record = this.#recordOf(attempt);
      const { changes, conditions } = this.#transactionOf(attempt, record);
      const ranges = this.#planned.map((name) => firstRange(this.#keys, name));
      const result = await this.#own.transact(changes, conditions, ranges, isCuttable, this.#link);
      if (!result) return undefined;
      if (result.responses) {
        const answers = await this.#finish(attempt, result.responses, result.header.revision);
        return { answers, record, revision: '' };
      }
      const { revision } = result;
      if (revision !== this.#own.logged) {
        // An earlier attempt was executed, and its response was lost.
        if (result.record?.number === this.#done.number) return { record: result.record, revision };
        this.#own.logged = revision;
        // Somebody has deleted the record, so the next plan looks whether the requests exist.
        this.#plain.clear();
      }
      const { found = [], header } = result;
      pictures = new Map(await this.#parse(this.#planned, found, header.revision));
    }
  }

  /** The names that need plans, and so pictures. */
  get #planned() {
    return [...this.#names.keys()].filter((name) => !this.#plain.has(name));
  }

  /** Guesses, or reads what cannot be guessed. @returns {Promise<Map<string, Picture>>} */
  async #firstPictures() {
    const { requests } = this.#own;
    const all = this.#planned.map((name) => [name, requests.guess(this.#names.get(name) ?? [])]);
    const unknown = all.filter(([, picture]) => !picture).map(([name]) => String(name));
    const guessed = /** @type {[string, Picture][]} */ (all.filter(([, picture]) => picture));
    if (unknown.length === 0) return new Map(guessed);
    const reads = unknown.map((name) => firstRange(this.#keys, name));
    const { header, found } = await this.#own.read(reads, this.#link);
    return new Map([...guessed, ...(await this.#parse(unknown, found, header.revision))]);
  }

  /**
   * @param {string[]} names @param {any[]} found @param {string} revision
   * @returns {Promise<[string, Picture][]>}
   */
  async #parse(names, found, revision) {
    return Promise.all(
      names.map(async (name, i) => {
        const link = this.#link;
        const picture =
          (found[i] && pictureOf(this.#keys, found[i], revision)) ??
          (await readLongPicture(this.#keys, name, revision, link)) ??
          (await readPicture(this.#keys, name, link));
        return /** @type {[string, Picture]} */ ([name, picture]);
      }),
    );
  }

  /** Whether a repetition of these operations would do harm. */
  get #isRecorded() {
    return this.#ops.some((op) => op.kind !== 'end' || isMarking(op));
  }

  /** @param {StepAttempt} attempt @param {StepRecord} record */
  #transactionOf(attempt, record) {
    const keys = this.#keys;
    const plans = [...attempt.plans].map(([name, plan]) => new NameTransaction(keys, name, plan));
    /** @type {object[]} */
    const changes = [...this.#plain].map(([name, ops]) => this.#decisionOf(name, ops, attempt));
    changes.push(...plans.flatMap((one) => one.changes));
    for (const op of this.#ops)
      if (isMarking(op) && attempt.letters.get(op) === LETTER.ENDED)
        changes.push(this.#markPut(op));
    if (this.#isRecorded) {
      const { id, lease } = this.#own;
      changes.push(put(keys.steps(lease), base64Json(record), id));
    }
    return { changes, conditions: plans.flatMap((one) => one.conditions) };
  }

  /** @param {EndOp} op whose lock is held */
  #markPut({ name = '', ref }) {
    const { lease } = this.#own;
    const setter = base64Json(setterOf(lease, ref));
    return put(this.#keys.done(name), setter, doneLease(lease, ref));
  }

  /**
   * The record of the step up to these operations.
   * @param {StepAttempt} attempt @returns {StepRecord}
   */
  #recordOf({ letters, limits }) {
    const { answers, limits: before, number } = this.#done;
    const own = this.#ops.map((op) => letters.get(op) ?? LETTER.NOT_SENT);
    return { number, answers: answers + own.join(''), limits: [...before, ...limits] };
  }

  /**
   * The operation in which etcd decides on plain requests of a name: if the name is free, the first
   * of them is granted. It also counts the waiters.
   * @param {string} name @param {RequestOp[]} ops @param {StepAttempt} attempt
   */
  #decisionOf(name, ops, { entries }) {
    const keys = this.#keys;
    const { id, isQuarantined } = this.#own;
    const puts = ops.map((op) => {
      const { level, tail, value } = /** @type {QueuedRequest} */ (entries.get(op));
      const lock = { ...value, granted: value.asked };
      return {
        waits: put(keys.queue(name, level) + tail, base64Json(value), id),
        holds: put(keys.holders(name) + tail, base64Json(lock), id),
      };
    });
    const waiting = nest(puts.map(({ waits }) => waits));
    const others = nest(puts.slice(1).map(({ waits }) => waits));
    const count = read({ ...allWith(keys.queue(name)), count_only: true });
    if (isQuarantined) return nested([], [...waiting, count]);
    // Etcd stops at the first condition that fails, and a lock is found sooner than a queue.
    const isFree = [keys.holders(name), keys.queue(name)].map(allWith).map(isEmpty);
    return nested(isFree, [puts[0].holds, ...others], [...waiting, count]);
  }

  /**
   * Applies the results of an executed transaction; returns the answers.
   * @param {StepAttempt} attempt @param {any[]} responses @param {string} revision
   */
  async #finish(attempt, responses, revision) {
    const own = this.#own;
    /** Names that may have a lock to grant. @type {string[]} */
    const open = [];
    [...this.#plain.values()].forEach((ops, i) => {
      const { responses: found = [], succeeded } = responses[i].response_txn;
      const wasFree = succeeded && !attempt.isQuarantined;
      ops.forEach((op, k) => {
        attempt.letters.set(op, wasFree && k === 0 ? LETTER.GRANTED : LETTER.QUEUED);
      });
      if (wasFree && ops.length === 1) {
        attempt.pictures.set(ops[0], { ...NOTHING, queueAt: Number(revision) });
        return;
      }
      const [counted] = found.slice(-1);
      own.watches.follow(wasFree ? ops.length : Number(counted.response_range.count ?? 0));
    });
    for (const [op, entry] of attempt.entries) {
      const picture = attempt.plans.get(op.name)?.pictureBehind(entry);
      if (picture && attempt.letters.get(op) === LETTER.GRANTED) attempt.pictures.set(op, picture);
    }
    for (const [name, plan] of attempt.plans) {
      if (plan.isCut) open.push(name);
      if (this.#names.get(name)?.some((op) => attempt.letters.get(op) === LETTER.QUEUED))
        own.watches.follow(plan.count);
    }
    const answers = await this.#answer(attempt, Number(revision));
    await Promise.all(open.map((name) => own.grantWaiters(name, this.#link).catch(() => {})));
    return answers;
  }

  /** @param {StepAttempt} attempt @param {number} revision */
  async #answer({ entries, letters, limits, pictures }, revision) {
    const own = this.#own;
    const left = [...limits];
    const answers = [];
    for (const op of this.#ops) {
      const known = this.#known.get(op);
      const letter = String(letters.get(op));
      if (known) answers.push(known);
      else if (letter === LETTER.NOT_MARKED) {
        const key = this.#keys.done(op.name ?? '');
        answers.push(await answerToMark(op, key, own.lease, this.#link));
      } else if (!isRequest(op)) answers.push(ANSWERS[letter]);
      else if (letter === LETTER.GRANTED)
        answers.push(own.requests.noteGranted(op, entries.get(op), revision, pictures.get(op)));
      else if (letter === LETTER.QUEUED)
        answers.push(own.requests.noteQueued(op, entries.get(op), revision));
      else {
        own.requests.forget(op.ref);
        answers.push(
          letter === LETTER.OTHER_LIMIT ? otherLimit(Number(left.shift())) : ANSWERS[letter],
        );
      }
    }
    for (const op of this.#ops) {
      if (op.kind === 'end') own.requests.forget(op.ref);
      if (op.kind === 'publish' && letters.get(op) === LETTER.PUBLISHED)
        own.requests.notePublished(op);
    }
    // If the answers cannot be found now, the record still shows that the operations were executed.
    if (this.#isRecorded) own.logged = String(revision);
    return answers;
  }

  /**
   * Infers the answers of operations whose response was lost, from the record of their step.
   * @param {number} count of the operations of the step before these
   * @param {string} revision of the record
   */
  async restore(count, revision) {
    const answers = this.#done.answers.slice(count);
    const { length } = [...answers].filter((letter) => letter === LETTER.OTHER_LIMIT);
    const limits = length > 0 ? this.#done.limits.slice(-length) : [];
    const own = this.#own;
    // Then the session knows all news about these requests.
    await own.sync(this.#link);
    const attempt = new Attempt(own);
    attempt.limits = limits;
    const decided = [];
    for (const [i, op] of this.#ops.entries()) {
      attempt.letters.set(op, answers[i]);
      if (isRequest(op)) attempt.entries.set(op, own.requests.entryOf(op));
      if (answers[i] === LETTER.DECIDED) decided.push(/** @type {RequestOp} */ (op));
    }
    const reads = decided.map((op) => {
      const { tail } = /** @type {QueuedRequest} */ (attempt.entries.get(op));
      return { ...only(this.#keys.holders(op.name) + tail), keys_only: true };
    });
    const { found } = await own.read(reads, this.#link);
    decided.forEach((op, i) => {
      const isGranted =
        found[i].kvs?.[0].create_revision === revision ||
        own.requests.grantOf(op.ref) === Number(revision);
      attempt.letters.set(op, isGranted ? LETTER.GRANTED : LETTER.QUEUED);
    });
    for (const op of this.#ops) {
      if (isRequest(op) && attempt.letters.get(op) === LETTER.QUEUED) own.watches.follow(0);
    }
    return this.#answer(attempt, Number(revision));
  }
}

module.exports = { executeStep };
