'use strict';

/**
 * The adapter of Redis and Valkey (../../adapter.js). Each step is one run of the script of lua/,
 * which is atomic, over a connection made from the user's client (link.js). The script publishes
 * grants and thefts on the channel of their session. Each renewal publishes an echo on this
 * channel: if the echo does not arrive, the adapter drops the connection. All keys of a bucket have
 * the same hash tag, so they are in the same slot of a cluster. With the option `shards`, each
 * shard is a bucket with its own tag and session, and each name belongs to one shard.
 */

const { createHash, randomBytes } = require('node:crypto');
const { performance } = require('node:perf_hooks');

const { ENDED, NO_EVENTS, failed, isRequest } = require('../../adapter.js');
const { DEAD, EARLY, STALE, answerOf, emitHint } = require('../wire.js');
const { Links } = require('../links.js');
const { classify, deadError, staleError } = require('../errors.js');
const { RedisLink, describeClient, keyPrefixOf, kindOf } = require('./link.js');
const {
  bucketError,
  noEchoError,
  evictionError,
  explain,
  failedError,
  missedStepError,
  noRunIdError,
  oldServerError,
  strictError,
} = require('./errors.js');
const SCRIPT = require('./redis.lua.js');
const { argumentError, describe } = require('../../../platform/errors.js');

/** @import { Adapter, Answer, Op, RequestOp, Seen } from '../../adapter.js' */
/** @import { Client } from './link.js' */
/** @typedef {InstanceType<typeof RedisLink>} Link */

/** @typedef {{ ops: Op[], number: number, before: number }} SentStep */

/**
 * @typedef {object} Needs the values that the script needs
 * @property {number} pause the length of a quarantine in milliseconds
 * @property {number} strict how many replicas must be connected
 * @property {number} idle milliseconds after which keys that nobody renews expire; 0 for never
 */

const SHA = createHash('sha1').update(SCRIPT).digest('hex');

/** Increase this whenever the keys or their meaning change. */
const VERSION = '6';

/** @type {Record<RequestOp['kind'], string>} */
const KINDS = { request: 'r', ifAvailable: 'i', steal: 't', pass: 'r', passIfAvailable: 'i' };

/** How many steps may be under way. The script keeps the replies of as many (lua/main.lua). */
const WINDOW = 4;

/** An echo is late after this many milliseconds, or a sixth of the lease if that is less. */
const LATE_ECHO = 2_500;

/** The most thefts that a renewal confirms; the server lists all further thefts again. */
const MOST_TOLD = 1_000;

/** The most names of a group, since Redis does nothing else while it processes them. */
const MOST = 1_000;

/** Keys that nobody renews expire after a week: until then, administrators can inspect them. */
const IDLE = 7 * 24 * 3_600_000;

/** Short names stay readable in keys. */
const READABLE = /^[\w.:/ -]{1,128}$/;

/** The key part for a text: ASCII without braces, different for each text. @param {string} text */
const keyPartOf = (text) =>
  READABLE.test(text)
    ? text
    : `=${createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('base64url')}`;

/** @implements {Adapter} */
class RedisAdapter {
  /** @type {string} */
  id;
  can;
  /** @type {import('../../adapter.js').AdapterEvents} */
  events = NO_EVENTS;
  classify = classify;

  #client;
  #kind;
  /** The key prefix of each shard. @type {string[]} */
  #prefixes;
  #strict;
  #ignoresFailover;
  /**
   * Whether `dead` proves that a step was not executed. It proves nothing with several shards,
   * because other shards may have executed their parts, or with a cluster client, which retries.
   */
  #isCertain;
  /** @type {InstanceType<typeof Links<Link>>} */
  #links = new Links();
  /** Connections that serve a single call, and their generations. @type {Map<Link, number>} */
  #singleCallLinks = new Map();
  /** The number of the connection in the session, by shard. @type {string[]} */
  #numbers = [];
  /** The first arguments of all steps, by shard, built once per connection. @type {string[][]} */
  #heads = [];
  /** The session that `open` started last; '' for none. */
  #session = '';
  #ttl = 0;
  /** @type {Needs} */
  #needs = { pause: 0, strict: 0, idle: 0 };
  /**
   * The `run_id` of each shard's server, which every step carries, so that a server that took over
   * rejects it. '' in a cluster, where the client chooses the server.
   * @type {string[]}
   */
  #runs = [];
  /**
   * If some shards have executed a step and other shards have not: the answers of the former, by
   * `ref`. The session sends the operations of such a step again in other steps.
   * @type {Map<number, { number: number, answer: Answer }>}
   */
  #answered = new Map();
  /** The refs of locks with which data was published; their ends remove the data. */
  #published = /** @type {Set<number>} */ (new Set());
  /** The last step over several shards, until all have answered it. @type {SentStep | undefined} */
  #last;
  /** The refs of thefts that a renewal listed; the next one confirms them. @type {Set<string>} */
  #knownThefts = new Set();
  /** The last step that each shard had recorded at the last renewal. */
  #recorded;
  /** The greatest token that each shard has granted to us; each shard has tokens of its own. */
  #tokens;
  #isDisposed = false;
  /** The number of the echo that the last answered renewal published. */
  #echo = 0;
  /** When that renewal was answered. */
  #echoed = 0;
  /** The number of the last echo that has arrived from each shard. @type {number[]} */
  #echoes = [];

  /**
   * @param {string} bucket @param {{ client: Client, shards?: number, strict?: boolean,
   *   failover?: 'ignore', prefix?: string }} options `prefix` is by default the client's keyPrefix
   */
  constructor(bucket, { client, shards = 1, strict = false, failover, prefix }) {
    const kind = kindOf(client);
    if (kind === undefined) throw argumentError(describeClient(client));
    const before = prefix ?? keyPrefixOf(client);
    if (typeof before !== 'string' || /[{}]/.test(before)) {
      const whose = prefix === undefined ? "The client's keyPrefix" : "'prefix'";
      throw argumentError(
        `${whose} is ${describe(before)}; expected a string without { and }, because these ` +
          "would move keys to another slot of a cluster. Pass such a string as 'prefix'.",
      );
    }
    if (!Number.isInteger(shards) || shards < 1 || shards > 64) {
      throw argumentError(`'shards' is ${describe(shards)}; expected a whole number from 1 to 64.`);
    }
    if (typeof strict !== 'boolean')
      throw argumentError(`'strict' is ${describe(strict)}; expected true or false.`);
    if (failover !== undefined && failover !== 'ignore') {
      throw argumentError(
        `'failover' is ${describe(failover)}; expected 'ignore', or leave it out.`,
      );
    }
    if (strict && kind.endsWith('cluster')) {
      throw argumentError(
        "'strict' cannot be used with a Redis Cluster, only with one server or Sentinel.",
      );
    }
    this.#client = client;
    this.#kind = kind;
    this.#strict = strict;
    this.#ignoresFailover = failover === 'ignore';
    this.#isCertain = shards === 1 && !kind.endsWith('cluster');
    const key = keyPartOf(bucket);
    this.#prefixes = Array.from(
      { length: shards },
      (_, i) => `${before}{wl:${key}${i > 0 ? `#${i}` : ''}}`,
    );
    this.#tokens = this.#prefixes.map(() => 0n);
    this.#recorded = this.#prefixes.map(() => 0);
    this.can = Object.freeze({
      limits: true,
      priorities: true,
      groups: shards === 1,
      marks: true,
      data: true,
      most: MOST,
      // A shard sees only its part of a step, so it could not notice a missing step.
      window: shards === 1 ? WINDOW : 1,
    });
    this.id = before === '' ? `redis ${bucket}` : `redis ${before}\n${bucket}`;
  }

  /** @param {import('../../adapter.js').SessionInfo} info @param {number} ttl @param {Seen} seen */
  async open(info, ttl, seen) {
    const session = randomBytes(12).toString('hex');
    const generation = this.#dropLinks();
    this.#answered.clear();
    this.#published.clear();
    this.#last = undefined;
    this.#recorded.fill(0);
    const link = this.#makeLink(generation);
    try {
      await link.open(this.#channels(generation, session));
      const { needs, runs } = await this.#examine(link, ttl);
      const shards = String(this.#prefixes.length);
      const own = [String(Math.ceil(ttl)), JSON.stringify(info), info.clientId, VERSION, shards];
      let grantsIn = 0;
      const lives = await this.#onEachShard(async (prefix, shard) => {
        const args = this.#argumentsOf(prefix, 'open', session, '1', needs);
        args.push(...this.#seenOf(seen, shard), ...own);
        const [what, value, pause] = await run(link, prefix, args);
        if (what !== 'open') throw bucketError(what, value, what === 'shards' ? shards : VERSION);
        grantsIn = shorterPause(grantsIn, Number(pause));
        return value;
      });
      const numbers = this.#prefixes.map(() => '1');
      this.#useLink(generation, link, { session, numbers, ttl, needs, runs });
      return { session, ttl, life: lives.join(' '), grantsIn };
    } catch (error) {
      link.drop();
      throw explain(error);
    }
  }

  /**
   * Replaces the session's connection; rejects if the session is dead.
   * @param {Seen} seen
   */
  async hello(seen) {
    const session = this.#session;
    const generation = this.#dropLinks();
    const link = this.#makeLink(generation);
    try {
      await link.open(this.#channels(generation, session));
      const { needs, runs } = await this.#examine(link, this.#ttl);
      const numbers = await this.#onEachShard(async (prefix, shard) => {
        const args = this.#argumentsOf(prefix, 'hello', session, '0', needs);
        args.push(...this.#seenOf(seen, shard));
        const [number] = await run(link, prefix, args);
        if (number === DEAD) throw deadError();
        return number;
      });
      this.#useLink(generation, link, { session, numbers, ttl: this.#ttl, needs, runs });
    } catch (error) {
      link.drop();
      throw explain(error);
    }
  }

  /** @param {Op[]} ops @param {number} number @param {number} before */
  step(ops, number, before) {
    const step = { ops, number, before };
    return this.#isCertain ? this.#sendStep(0, step, ops) : this.#stepUncertainly(step);
  }

  /** Sends a step, and turns `dead` into an error to retry. @param {SentStep} step */
  async #stepUncertainly(step) {
    try {
      const isOne = this.#prefixes.length === 1;
      return isOne ? await this.#sendStep(0, step, step.ops) : await this.#sendStepToShards(step);
    } catch (error) {
      // `dead` would mean that nothing of the step was executed, which is not certain here.
      throw classify(error) === 'dead' ? staleError() : error;
    }
  }

  /**
   * @param {number} shard @param {SentStep} step @param {Op[]} ops the operations of this shard
   * @param {string} [run] '' makes the server check whether the session is dead, even if the step
   *   contains only ends
   * @returns {Promise<Answer[]>}
   */
  async #sendStep(shard, { number, before }, ops, run = this.#runs[shard]) {
    const args = [...this.#heads[shard], run, String(number), String(before)];
    for (const op of ops) {
      if (op.kind === 'publish') this.#published.add(op.ref);
      args.push(textOf(op, this.#published));
    }
    const codes = checkReply(await this.#run(shard, args));
    return ops.map((op, i) => {
      const code = codes[i];
      if (op.kind === 'end') this.#published.delete(op.ref);
      const answer = code[0] === 'e' ? failed(failedError(code.slice(1))) : answerOf(code, op);
      this.#noteToken(answer.token, shard);
      return answer;
    });
  }

  /** @param {SentStep} step */
  async #sendStepToShards(step) {
    await this.#finishLastStep(step);
    /** @type {Answer[]} */
    const answers = Array(step.ops.length).fill(ENDED);
    /** @type {unknown[]} */
    const refusals = [];
    await this.#onEachShard(async (_, shard) => {
      try {
        await this.#sendStepToShard(shard, step, answers);
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
      await this.#onEachShard(async (_, shard) => {
        if (this.#recorded[shard] >= last.number) await this.#sendStepToShard(shard, last, []);
      });
    }
    this.#last = next;
  }

  /**
   * @param {number} shard @param {SentStep} step
   * @param {Answer[]} answers to all operations; the answers of this shard are filled in
   */
  async #sendStepToShard(shard, step, answers) {
    const { ops, number } = step;
    const own = [...ops.keys()].filter((i) => this.#concerns(ops[i], shard));
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
    const said = await this.#sendStep(shard, step, its, rest.length < own.length ? '' : undefined);
    for (const [n, answer] of said.entries()) {
      answers[rest[n]] = answer;
      if (isRequest(its[n])) this.#answered.set(its[n].ref, { number, answer });
    }
  }

  /**
   * Rejects if the message that the last renewal published has still not arrived.
   * @param {Seen} seen
   */
  async renew(seen) {
    this.#checkEcho();
    const echo = this.#echo + 1;
    const { generation } = this.#links;
    const thefts = [...this.#knownThefts].slice(0, MOST_TOLD);
    const replies = await this.#onEachShard(async (_, shard) => {
      const args = this.#ownArgumentsOf(shard, 'renew');
      args.push(...this.#seenOf(seen, shard), `e ${echo}`, ...thefts);
      return checkReply(await this.#run(shard, args));
    });
    this.#echo = echo;
    this.#echoed = performance.now();
    /** @type {Map<number, bigint>} */
    const mine = new Map();
    /** @type {Map<number, string>} */
    const stolen = new Map();
    let nextExpiryIn = Number.POSITIVE_INFINITY;
    let grantsIn = 0;
    for (const [shard, [, next, grants, , recorded, ...refs]] of replies.entries()) {
      this.#recorded[shard] = Number(recorded);
      if (next !== '-1') nextExpiryIn = Math.min(nextExpiryIn, Number(next));
      grantsIn = shorterPause(grantsIn, Number(grants));
      for (let i = 0; i < refs.length; i += 2) {
        const [ref, what] = [Number(refs[i]), refs[i + 1]];
        if (what[0] === 's') {
          stolen.set(ref, what.slice(1));
        } else {
          mine.set(ref, BigInt(what));
          this.#noteToken(BigInt(what), shard);
        }
      }
    }
    if (this.#links.isLatest(generation))
      this.#knownThefts = new Set([...stolen.keys()].map(String));
    for (const ref of stolen.keys()) this.#published.delete(ref);
    const life = replies.map((reply) => reply[3]).join(' ');
    return { alive: true, mine, stolen, nextExpiryIn, grantsIn, life, step: this.#lastDone };
  }

  /** The session and the values that its calls need, for `extend`. */
  keeperTicket() {
    return { session: this.#session, needs: this.#needs };
  }

  /**
   * Extends another adapter's session; returns false if a shard's epoch is not that of `seen`.
   * @param {{ session: string, needs: Needs }} ticket @param {Seen} seen
   */
  async extend({ session, needs }, seen) {
    const link = this.#links.current ?? (await this.#openForCalls());
    const replies = await this.#onEachShard(async (prefix, shard) => {
      const args = this.#argumentsOf(prefix, 'extend', session, '0', needs);
      args.push(...this.#seenOf(seen, shard));
      return checkReply(await run(link, prefix, args))[0];
    });
    return replies.every((reply) => reply === '1');
  }

  /** Connects without a session and without messages, for `extend`. */
  async #openForCalls() {
    const generation = this.#dropLinks();
    const link = this.#makeLink(generation, false);
    try {
      await link.open(new Map());
      this.#links.use(generation, link);
    } catch (error) {
      link.drop();
      throw explain(error);
    }
    link.onDown = () => this.#links.lose(link);
    return link;
  }

  /** The number of the last step that was recorded by every shard that it concerns. */
  get #lastDone() {
    const last = this.#last;
    const recorded = Math.max(...this.#recorded);
    const isMissing = (/** @type {number} */ done, /** @type {number} */ shard) =>
      last && done < last.number && last.ops.some((op) => this.#concerns(op, shard));
    return last && this.#recorded.some(isMissing) ? Math.min(recorded, last.number - 1) : recorded;
  }

  /** @param {bigint} token @param {number} shard */
  #noteToken(token, shard) {
    if (token > this.#tokens[shard]) this.#tokens[shard] = token;
  }

  /**
   * The arguments that report what was seen of a shard: its epoch and its greatest token.
   * @param {Seen} seen @param {number} shard
   */
  #seenOf({ life, token }, shard) {
    // With several shards, the greatest token of all shards says nothing about a single shard.
    if (this.#prefixes.length === 1) this.#noteToken(token, 0);
    const its = this.#prefixes.length === 1 ? life : (life.split(' ')[shard] ?? '');
    return [its, String(this.#tokens[shard])];
  }

  /** Drops the connection and throws if the echo of the last renewal is late. */
  #checkEcho() {
    const isLate = performance.now() - this.#echoed > Math.min(this.#ttl / 6, LATE_ECHO);
    if (!isLate || this.#echoes.every((echo) => echo >= this.#echo)) return;
    const { current } = this.#links;
    this.#links.current = undefined;
    current?.drop();
    throw noEchoError();
  }

  async sweep() {
    await this.#onEachShard(async (_, shard) => {
      const args = this.#ownArgumentsOf(shard, 'sweep');
      while (checkReply(await this.#run(shard, args))[0] === '1');
    });
  }

  /** @param {string} session */
  async close(session) {
    await this.#overAnyLink(async (link) => {
      await this.#onEachShard(async (prefix) => {
        const args = this.#argumentsOf(prefix, 'close', session);
        while ((await run(link, prefix, args))[0] === '1');
      });
    });
  }

  /** @param {string} [name] @param {'held'} [which] */
  async query(name, which) {
    const key = name === undefined ? '' : keyPartOf(name);
    return this.#overAnyLink(async (link) => {
      const all = await this.#onEachShard(async (prefix, shard) => {
        if (name !== undefined && this.#shardOf(key) !== shard) return [];
        const args = [...this.#argumentsOf(prefix, 'query', ''), key, which ?? ''];
        return entriesOf(await run(link, prefix, args));
      });
      return all.flat();
    });
  }

  /** @param {string} name */
  async marked(name) {
    const key = keyPartOf(name);
    const prefix = this.#prefixes[this.#shardOf(key)];
    return this.#overAnyLink(async (link) => {
      const [is] = await run(link, prefix, [...this.#argumentsOf(prefix, 'marked', ''), key]);
      return is === '1';
    });
  }

  async dispose() {
    this.events = NO_EVENTS;
    this.#isDisposed = true;
    this.#dropLinks();
    for (const link of this.#singleCallLinks.keys()) link.drop();
  }

  /** Drops the connection, even one that is still being made, and returns the new generation. */
  #dropLinks() {
    // The answer to the last renewal may be lost. Then the session does not know the thefts in it,
    // so the next renewal must not confirm them.
    this.#knownThefts.clear();
    // Calls of the latest generation may continue. Older ones are ended, because a cluster client
    // could retry them forever.
    for (const [link, generation] of this.#singleCallLinks)
      if (!this.#links.isLatest(generation)) link.drop();
    return this.#links.begin();
  }

  /** @param {number} generation @param {boolean} [hasMessages] */
  #makeLink(generation, hasMessages) {
    const link = new RedisLink(this.#client, this.#kind, hasMessages);
    return this.#links.prepare(generation, link);
  }

  /**
   * @param {number} generation @param {string} session
   * @returns {Map<string, (message: string) => void>}
   */
  #channels(generation, session) {
    return new Map(
      this.#prefixes.map((prefix, shard) => [
        `${prefix}:c:${session}`,
        (message) => {
          if (this.#links.isLatest(generation)) this.#handleMessage(message, shard);
        },
      ]),
    );
  }

  /**
   * Rejects if a server is unfit for locks.
   * @param {Link} link @param {number} ttl @returns {Promise<{ needs: Needs, runs: string[] }>}
   */
  async #examine(link, ttl) {
    let pause = Math.ceil(ttl);
    let strict = 0;
    let idle = IDLE;
    const runs = await this.#onEachShard(async (prefix) => {
      const [server, memory, replication] = await run(
        link,
        prefix,
        this.#argumentsOf(prefix, 'examine', ''),
      );
      const version = infoField(server, 'redis_version');
      const [major, minor] = version.split('.').map(Number);
      if (major < 6 || (major === 6 && minor < 2)) throw oldServerError(version);
      const policy = infoField(memory, 'maxmemory_policy');
      if (policy.startsWith('allkeys-')) throw evictionError(policy);
      // With this policy the server would evict keys that have an expiry.
      if (policy.startsWith('volatile-')) idle = 0;
      const runId = infoField(server, 'run_id');
      if (!this.#ignoresFailover && !runId) throw noRunIdError();
      if (this.#strict) {
        const { lag, replicas } = await examineReplicas(link, replication);
        pause += (lag + 1) * 1_000;
        strict = replicas;
      }
      return this.#kind.endsWith('cluster') ? '' : runId;
    });
    return { needs: { pause, strict, idle }, runs };
  }

  /**
   * Makes the new connection and its session current; throws if it is outdated.
   * @param {number} generation @param {Link} link
   * @param {{ session: string, numbers: string[], ttl: number, needs: Needs, runs: string[] }}
   *   state
   */
  #useLink(generation, link, { session, numbers, ttl, needs, runs }) {
    this.#links.use(generation, link);
    this.#session = session;
    this.#numbers = numbers;
    this.#ttl = ttl;
    this.#needs = needs;
    this.#runs = runs;
    this.#heads = this.#prefixes.map((_, shard) => this.#ownArgumentsOf(shard, 'step'));
    this.#echoes = this.#prefixes.map(() => this.#echo);
    link.onDown = (error) => {
      if (this.#links.lose(link)) this.events.down(error);
    };
  }

  /** @param {string} message `g ref token`, `s ref thief` or `e number` @param {number} shard */
  #handleMessage(message, shard) {
    if (message[0] === 'e') {
      // The echo of `open` is 0. If it arrives after `#useLink`, it must not lower the number.
      this.#echoes[shard] = Math.max(this.#echoes[shard] ?? 0, Number(message.slice(2)));
      return;
    }
    if (message[0] === 'g')
      this.#noteToken(BigInt(message.slice(message.indexOf(' ', 2) + 1)), shard);
    emitHint(this.events, message);
  }

  /** @param {string} key of a name */
  #shardOf(key) {
    const count = this.#prefixes.length;
    return count === 1 ? 0 : createHash('sha256').update(key).digest().readUInt32LE() % count;
  }

  /**
   * Whether a shard gets an operation. All shards get one whose name is unknown.
   * @param {Op} op @param {number} shard
   */
  #concerns(op, shard) {
    return op.name === undefined || this.#shardOf(keyPartOf(op.name)) === shard;
  }

  /** @template T @param {(prefix: string, shard: number) => Promise<T>} work */
  #onEachShard(work) {
    return Promise.all(this.#prefixes.map(work));
  }

  /**
   * @param {string} prefix @param {string} command @param {string} session '' for none
   * @param {string} [number] '0' for none @param {Needs} [needs]
   */
  #argumentsOf(prefix, command, session, number = '0', { pause, strict, idle } = this.#needs) {
    // In a cluster, the keys of a command decide which node gets it. The first key here never
    // exists, and the second one exists once the bucket was opened. While their slot moves to
    // another node, neither node has both keys. So both nodes refuse to run the script (TRYAGAIN),
    // which would otherwise miss keys.
    const keys = this.#kind.endsWith('cluster') ? ['2', prefix, `${prefix}:m`] : ['1', prefix];
    return [SHA, ...keys, command, session, `${number} ${pause} ${strict}`, String(idle)];
  }

  /** @param {number} shard @param {string} command */
  #ownArgumentsOf(shard, command) {
    return this.#argumentsOf(this.#prefixes[shard], command, this.#session, this.#numbers[shard]);
  }

  /** @param {number} shard @param {string[]} args @returns {Promise<any>} for `checkReply` */
  #run(shard, args) {
    if (!this.#links.current)
      throw explain(new Error('there is no connection to the Redis server'));
    return run(this.#links.current, this.#prefixes[shard], args);
  }

  /**
   * Runs `work` over the current connection, or over a new one if it is missing or ends meanwhile.
   * @template T @param {(link: Link) => Promise<T>} work @returns {Promise<T>}
   */
  async #overAnyLink(work) {
    const { current } = this.#links;
    if (current) {
      try {
        return await work(current);
      } catch (error) {
        if (!current.isDown) throw error;
      }
    }
    // No attempt may begin after `dispose`, because nobody would end it.
    if (this.#isDisposed) throw staleError();
    const link = new RedisLink(this.#client, this.#kind);
    this.#singleCallLinks.set(link, this.#links.generation);
    try {
      await link.open(new Map());
      return await work(link);
    } finally {
      this.#singleCallLinks.delete(link);
      link.drop();
    }
  }
}

/**
 * Runs the script; if the server does not have it yet, this sends the script, too.
 * @param {Link} link @param {string} prefix @param {string[]} args @returns {Promise<any>}
 */
async function run(link, prefix, args) {
  try {
    return await link.call('EVALSHA', args, prefix);
  } catch (/** @type {any} */ error) {
    if (!/NOSCRIPT/.test(error.message)) throw error;
    return link.call('EVAL', [SCRIPT, ...args.slice(1)], prefix);
  }
}

/** Throws if the script refused the call. @param {any} all @returns {string[]} */
function checkReply(all) {
  const reply = Array.isArray(all) ? all : [all];
  if (reply[0] === DEAD) throw deadError();
  if (reply[0] === STALE) throw staleError();
  if (reply[0] === EARLY) throw missedStepError();
  return reply;
}

/** The shorter of two quarantines, where 0 means none. @param {number} one @param {number} other */
const shorterPause = (one, other) =>
  one === 0 || other === 0 ? one + other : Math.min(one, other);

/** A field of INFO; '' if it is missing. @param {string} info @param {string} name */
const infoField = (info, name) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? '';

/**
 * Throws unless the primary stops accepting writes when a network partition isolates it. For this
 * purpose its configuration must require every attached replica, because each can be promoted.
 * @param {Link} link @param {string} replication of INFO
 * @returns {Promise<{ lag: number, replicas: number }>} the primary stops after `lag` seconds, and
 *   requires `replicas` replicas
 */
async function examineReplicas(link, replication) {
  /** @param {string} name */
  const readSetting = async (name) => {
    const reply = await link.call('CONFIG', ['GET', name]);
    return Number(Array.isArray(reply) ? reply[1] : Object.values(reply)[0]);
  };
  const replicas = await readSetting('min-replicas-to-write');
  const lag = await readSetting('min-replicas-max-lag');
  const attached = Number(infoField(replication, 'connected_slaves'));
  if (!(replicas >= 1 && lag >= 1)) {
    throw strictError(
      `min-replicas-to-write is ${replicas} and min-replicas-max-lag is ${lag}; set both to 1 or ` +
        'more.',
    );
  }
  if (attached > replicas) {
    throw strictError(
      `${attached} replicas are attached, each of which can be promoted, and ` +
        `min-replicas-to-write is ${replicas}: set it to ${attached}.`,
    );
  }
  return { lag, replicas };
}

/**
 * Encodes an operation for lua/step_fast.lua: keys and JSON have no line feed.
 * @param {Op} op @param {Set<number>} published the refs of locks that have data
 */
function textOf(op, published) {
  const key = op.name === undefined ? '' : keyPartOf(op.name);
  if (op.kind === 'end') {
    const mark = published.size > 0 && published.has(op.ref) ? ' d' : '';
    return `x${op.ref} ${Math.ceil(op.keep)}${mark}\n${key}`;
  }
  if (op.kind === 'publish') return `d${op.ref}\n${key}\n${op.data}`;
  const { kind, ref, group, maxPending, mode, weight, priority } = op;
  const label = op.label === '' ? '""' : JSON.stringify(op.label);
  const passes = kind === 'pass' || kind === 'passIfAvailable';
  const [letter, limit] = mode === 'shared' ? ['s', op.limit] : [passes ? 'p' : 'x', ''];
  return (
    `${KINDS[kind]}${ref} ${group} ${maxPending}\n${key}\n${letter} ${weight}\n` +
    `${priority} ${label}\n${limit}\n${JSON.stringify(op.name)}`
  );
}

/** @param {string[]} reply to `query` @returns {import('../../adapter.js').Entry[]} */
function entriesOf([now, ...rest]) {
  const entries = [];
  for (let i = 0; i < rest.length; i += 6) {
    const [ref, name, limitText, info, row, data] = rest.slice(i, i + 6);
    const words = row.split(' ', 6);
    const [mode, weight, token, asked, since, priority] = words;
    const label = row.slice(words.join(' ').length + 1);
    const { clientId, host, pid, threadId, threadName, program } = JSON.parse(info);
    const isHeld = token !== '0';
    const limit = mode === 's' ? Number(limitText) : 0;
    entries.push({
      ref: Number(ref),
      name: JSON.parse(name),
      mode: /** @type {import('../../../backend/contract.js').LockMode} */ (
        mode === 's' ? 'shared' : 'exclusive'
      ),
      token: BigInt(token),
      clientId,
      host,
      pid,
      threadId,
      threadName,
      program,
      label: JSON.parse(label),
      waited: Number(isHeld ? since : now) - Number(asked),
      held: isHeld ? Number(now) - Number(since) : 0,
      limit,
      weight: limit > 0 ? Number(weight) : 0,
      priority: Number(priority),
      data,
    });
  }
  return entries;
}

module.exports = { RedisAdapter };
