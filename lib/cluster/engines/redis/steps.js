'use strict';

/**
 * Sends the steps of a session. With several shards, each shard gets the operations of its names,
 * and some shards may execute a step that others do not: then the session sends the operations
 * again in other steps, and the answers of the former shards are used.
 */

const { ENDED, failed, isPassing, isRequest } = require('../../adapter.js');
const { classify, staleError } = require('../errors.js');
const { answerOf } = require('../wire.js');
const { failedError } = require('./errors.js');
const { keyPartOf } = require('./shards.js');

/** @import { Answer, Op, RequestOp } from '../../adapter.js' */
/** @typedef {InstanceType<typeof import('./shards.js').Shards>} BucketShards */
/** @typedef {{ ops: Op[], number: number, before: number }} SentStep */

/** @type {Record<RequestOp['kind'], string>} */
const KINDS = { request: 'r', ifAvailable: 'i', steal: 't', pass: 'r', passIfAvailable: 'i' };

class ShardedSteps {
  #shards;
  /**
   * Whether `dead` proves that a step was not executed. It proves nothing with several shards,
   * because other shards may have executed their parts, or with a cluster client, which retries.
   */
  #isCertain;
  #call;
  /** The refs of locks with which data was published; their ends remove the data. */
  published = /** @type {Set<number>} */ (new Set());
  /** The answers of a step that not all shards have executed, by `ref`. */
  #answered = /** @type {Map<number, { number: number, answer: Answer }>} */ (new Map());
  /** The last step over several shards, until all have answered it. @type {SentStep | undefined} */
  #last;
  /** The last step that each shard had recorded at the last renewal. @type {number[]} */
  #recorded = [];
  /**
   * The `run_id` of each shard's server, which every step carries, so that a server that took over
   * rejects it. '' in a cluster, where the client chooses the server.
   * @type {string[]}
   */
  runs = [];

  /**
   * @param {BucketShards} shards @param {boolean} isCertain
   * @param {(shard: number, args: string[]) => Promise<string[]>} call of a step
   */
  constructor(shards, isCertain, call) {
    this.#shards = shards;
    this.#isCertain = isCertain;
    this.#call = call;
  }

  /** Must be called when a session opens. */
  clear() {
    this.published.clear();
    this.#answered.clear();
    this.#last = undefined;
    this.#recorded = [];
  }

  /** Sends a step, and turns `dead` into an error to retry. @param {SentStep} step */
  async send(step) {
    try {
      return await (this.#shards.count === 1 ? this.#send(0, step, step.ops) : this.#sendAll(step));
    } catch (error) {
      // `dead` means that nothing of the step was executed, which may not be certain.
      throw !this.#isCertain && classify(error) === 'dead' ? staleError() : error;
    }
  }

  /**
   * Notes what the shards have recorded, and returns the number of the last step that was recorded
   * by every shard that it concerns.
   * @param {number[]} numbers by shard
   */
  noteRecorded(numbers) {
    this.#recorded = numbers;
    const last = this.#last;
    const recorded = Math.max(...numbers);
    const isMissing = (/** @type {number} */ done, /** @type {number} */ shard) =>
      last && done < last.number && last.ops.some((op) => this.#shards.concerns(op, shard));
    return last && numbers.some(isMissing) ? Math.min(recorded, last.number - 1) : recorded;
  }

  /**
   * @param {number} shard @param {SentStep} step @param {Op[]} ops the operations of this shard
   * @param {string} [run] '' makes the server check whether the session is dead, even if the step
   *   contains only ends
   * @returns {Promise<Answer[]>}
   */
  async #send(shard, { number, before }, ops, run = this.runs[shard]) {
    const args = [run, String(number), String(before)];
    for (const op of ops) {
      if (op.kind === 'publish') this.published.add(op.ref);
      args.push(textOf(op, this.published));
    }
    const codes = await this.#call(shard, args);
    return ops.map((op, i) => {
      const code = codes[i];
      if (op.kind === 'end') this.published.delete(op.ref);
      const answer = code[0] === 'e' ? failed(failedError(code.slice(1))) : answerOf(code, op);
      this.#shards.noteToken(answer.token, shard);
      return answer;
    });
  }

  /** @param {SentStep} step */
  async #sendAll(step) {
    await this.#finishLastStep(step);
    /** @type {Answer[]} */
    const answers = Array(step.ops.length).fill(ENDED);
    /** @type {unknown[]} */
    const refusals = [];
    await this.#shards.onEach(async (shard) => {
      try {
        await this.#sendPart(shard, step, answers);
      } catch (error) {
        if (classify(error) !== 'refused') throw error;
        refusals.push(error);
      }
    });
    if (refusals.length > 0) throw refusals[0];
    this.#last = undefined;
    for (const { ref } of step.ops) this.#answered.delete(ref);
    return answers;
  }

  /**
   * If the last step reached only some shards, `next` contains its operations again. Before `next`,
   * the last step is sent once more to the shards that executed it, to get their answers (R1).
   * Then `next` counts as the last step.
   * @param {SentStep} next
   */
  async #finishLastStep(next) {
    const last = this.#last;
    if (last && last.number !== next.number) {
      await this.#shards.onEach(async (shard) => {
        if (this.#recorded[shard] >= last.number) await this.#sendPart(shard, last, []);
      });
    }
    this.#last = next;
  }

  /**
   * @param {number} shard @param {SentStep} step
   * @param {Answer[]} answers to all operations; the answers of this shard are filled in
   */
  async #sendPart(shard, step, answers) {
    const { ops, number } = step;
    const own = [...ops.keys()].filter((i) => this.#shards.concerns(ops[i], shard));
    if (own.length === 0) return;
    /** @type {number[]} */
    const rest = [];
    for (const i of own) {
      const known = isRequest(ops[i]) ? this.#answered.get(ops[i].ref) : undefined;
      // The shard finds its answers by the step's number, so it must get the same operations.
      if (known === undefined || known.number === number) rest.push(i);
      else answers[i] = known.answer;
    }
    // Even a step without operations is sent, because a dead session must not get an answer.
    const its = rest.map((i) => ops[i]);
    const said = await this.#send(shard, step, its, rest.length < own.length ? '' : undefined);
    for (const [n, answer] of said.entries()) {
      answers[rest[n]] = answer;
      if (isRequest(its[n])) this.#answered.set(its[n].ref, { number, answer });
    }
  }
}

/**
 * Encodes an operation for lua/step_fast.lua: keys and JSON have no line feed.
 * @param {Op} op @param {Set<number>} published the refs of locks that have data
 */
function textOf(op, published) {
  const key = op.name === undefined ? '' : keyPartOf(op.name);
  if (op.kind === 'end') {
    const dataFlag = published.size > 0 && published.has(op.ref) ? ' d' : '';
    return `x${op.ref} ${Math.ceil(op.markFor)}${dataFlag}\n${key}`;
  }
  if (op.kind === 'publish') return `d${op.ref}\n${key}\n${op.data}`;
  const { kind, ref, group, maxPending, mode, weight, priority } = op;
  const label = op.label === '' ? '""' : JSON.stringify(op.label);
  const [letter, limit] = mode === 'shared' ? ['s', op.limit] : [isPassing(op) ? 'p' : 'x', ''];
  return (
    `${KINDS[kind]}${ref} ${group} ${maxPending}\n${key}\n${letter} ${weight}\n` +
    `${priority} ${label}\n${limit}\n${JSON.stringify(op.name)}`
  );
}

module.exports = { ShardedSteps };
