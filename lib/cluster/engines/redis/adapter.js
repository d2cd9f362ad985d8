'use strict';

/**
 * The adapter of Redis and Valkey (adapter.js): calls of the script redis.lua.js, by connections
 * of its own that are made from the user's client (link.js).
 *
 * A step is one run of the script, and so atomic; it publishes grants and thefts on the channel of
 * the session whose they are. Each renewal publishes something on the caller's own: if that does
 * not arrive, news do not, and the session is told that the connection is down.
 *
 * Shards. All keys of a bucket have one hash tag, so they are in one slot of a cluster. With
 * `shards` there are as many tags, each a bucket by itself with a session in it; a name is in one
 * of them.
 */

const { createHash, randomBytes } = require('node:crypto');
const { performance } = require('node:perf_hooks');

const { ENDED, NO_EVENTS, failed } = require('../../adapter.js');
const { DEAD, EARLY, STALE, answerOf, tell } = require('../words.js');
const { Link, describeClient, keyPrefixOf, kindOf } = require('./link.js');
const {
  bucketError,
  classify,
  deadError,
  deafError,
  earlyError,
  evictionError,
  explain,
  failedError,
  noRunIdError,
  oldServerError,
  staleError,
  strictError,
} = require('./errors.js');
const SCRIPT = require('./redis.lua.js');
const { argumentError, describe } = require('../../../platform/errors.js');

/** @typedef {import('../../adapter.js').Adapter} Adapter */
/** @typedef {import('../../adapter.js').Answer} Answer */
/** @typedef {import('../../adapter.js').Op} Op */
/** @typedef {import('../../adapter.js').RequestOp} RequestOp */
/** @typedef {import('../../adapter.js').Seen} Seen */
/** @typedef {InstanceType<typeof Link>} OpenLink */
/** @typedef {import('./link.js').Client} Client */

/** @typedef {{ ops: Op[], number: number, before: number }} SentStep */

/**
 * What the script is to know of the server.
 * @typedef {object} Needs
 * @property {number} pause milliseconds that a quarantine has to be
 * @property {number} strict how many replicas have to be there
 * @property {number} idle milliseconds after which what nobody renews expires; 0 for never
 */

const SHA = createHash('sha1').update(SCRIPT).digest('hex');

/** Of the keys. Another one that changes what they mean has another number. */
const VERSION = '6';

/** @type {Record<RequestOp['kind'], string>} */
const KINDS = { request: 'r', ifAvailable: 'i', steal: 't' };

/** How many steps may be under way: as many as the script keeps the answers of. */
const WINDOW = 4;

/** After so many milliseconds, or a sixth of a shorter lease, an echo has to have arrived. */
const LATE_ECHO = 2_500;

/** The most thefts that one renewal tells that we know: the rest is told of once more. */
const MOST_TOLD = 1_000;

/** The most names of a group: the server does nothing else while it makes one. */
const MOST = 1_000;

/**
 * Milliseconds after which what nobody renews is gone: many leases, and some days to look into it.
 */
const IDLE = 7 * 24 * 3_600_000;

/** Texts that are as they are in a key, and of which those who look there see something. */
const READABLE = /^[\w.:/ -]{1,128}$/;

/**
 * @param {string} text UTF-16 code units, lone surrogates among them
 * @returns {string} of ASCII, without braces; another one for another text
 */
const keyOf = (text) =>
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
  /** What the keys of each shard begin with. @type {string[]} */
  #prefixes;
  #strict;
  #ignoresFailover;
  /**
   * Whether a session that is dead has not done a step. Of several shards some may have done their
   * part, and a client of a cluster sends what is not answered once more by itself.
   */
  #isCertain;
  /** The connection there is. @type {OpenLink | undefined} */
  #link;
  /** One that is not ready yet. @type {OpenLink | undefined} */
  #making;
  /** Of calls that had none, and in which epoch they were made. @type {Map<OpenLink, number>} */
  #others = new Map();
  /** Its number in the session, in each shard. @type {string[]} */
  #numbers = [];
  /**
   * By shard, what steps begin with: to make it anew is a part of what a lock costs.
   * @type {string[][]}
   */
  #heads = [];
  /** The session that `open` started last; '' for none. */
  #session = '';
  #ttl = 0;
  /** @type {Needs} */
  #needs = { pause: 0, strict: 0, idle: 0 };
  /**
   * By shard, the `run_id` of the server that the connection goes to, for steps: it is another one
   * only by another connection. '' if the client finds the server by itself, in a cluster.
   * @type {string[]}
   */
  #runs = [];
  /**
   * What some shards have answered, by `ref`, of a step that others have not done, and its number:
   * it comes again in other steps.
   * @type {Map<number, { number: number, answer: Answer }>}
   */
  #answered = new Map();
  /** Of several shards, the last step, until all have answered. @type {SentStep | undefined} */
  #last;
  /**
   * Refs of the thefts that the last renewal told of: the next one tells that we know.
   * @type {Set<string>}
   */
  #told = new Set();
  /** By shard, the number of the step that it has recorded last, as the last renewal told. */
  #recorded;
  /** The greatest token that each shard has granted to us: each counts by itself. */
  #tokens;
  /** Counts calls of `open`, `hello` and `dispose`, of which the last counts. */
  #epoch = 0;
  #isDisposed = false;
  /** What the last renewal has published to be heard here; when; what each shard was heard to. */
  #echo = 0;
  #echoed = 0;
  /** @type {number[]} */
  #heard = [];

  /**
   * @param {string} bucket
   * @param {object} options
   * @param {Client} options.client of node-redis or ioredis
   * @param {number} [options.shards]
   * @param {boolean} [options.strict]
   * @param {'ignore'} [options.failover]
   * @param {string} [options.prefix] by default that of the client's keys
   */
  constructor(bucket, { client, shards = 1, strict = false, failover, prefix }) {
    const kind = kindOf(client);
    if (kind === undefined) {
      throw argumentError(
        `'client' is ${describeClient(client)}; expected a client of redis 5 or 6 (createClient, ` +
          'createCluster) or of ioredis 5 or 6 (Redis, also by Sentinel; Cluster).',
      );
    }
    const before = prefix ?? keyPrefixOf(client);
    if (typeof before !== 'string' || /[{}]/.test(before)) {
      const whose = prefix === undefined ? "The client's keyPrefix" : "'prefix'";
      throw argumentError(
        `${whose} is ${describe(before)}; expected a string without { and }, which would move ` +
          "keys to another slot of a cluster. Give the option 'prefix' without them.",
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
    const key = keyOf(bucket);
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
      most: MOST,
      // Each shard is sent its part of a step only, so it does not see which one was left out.
      window: shards === 1 ? WINDOW : 1,
    });
    this.id = before === '' ? `redis ${bucket}` : `redis ${before}\n${bucket}`;
  }

  /**
   * @param {import('../../adapter.js').SessionInfo} info
   * @param {number} ttl milliseconds
   * @param {Seen} seen
   */
  async open(info, ttl, seen) {
    const session = randomBytes(12).toString('hex');
    const epoch = this.#replace();
    this.#answered.clear();
    this.#last = undefined;
    this.#recorded.fill(0);
    const link = this.#connect();
    try {
      await link.open(this.#channels(epoch, session));
      const { needs, runs } = await this.#examine(link, ttl);
      const shards = String(this.#prefixes.length);
      const own = [String(Math.ceil(ttl)), JSON.stringify(info), info.clientId, VERSION, shards];
      let grantsIn = 0;
      const lives = await this.#each(async (prefix, shard) => {
        const args = this.#argumentsOf(prefix, 'open', session, '1', needs);
        args.push(...this.#seenOf(seen, shard), ...own);
        const [what, value, pause] = await run(link, prefix, args);
        if (what !== 'open') throw bucketError(what, value, what === 'shards' ? shards : VERSION);
        grantsIn = sooner(grantsIn, Number(pause));
        return value;
      });
      const numbers = this.#prefixes.map(() => '1');
      this.#keep(epoch, link, { session, numbers, ttl, needs, runs });
      return { session, ttl, life: lives.join(' '), grantsIn };
    } catch (error) {
      link.drop();
      throw explain(error);
    }
  }

  /** @param {Seen} seen */
  async hello(seen) {
    const session = this.#session;
    const epoch = this.#replace();
    const link = this.#connect();
    try {
      await link.open(this.#channels(epoch, session));
      const { needs, runs } = await this.#examine(link, this.#ttl);
      const numbers = await this.#each(async (prefix, shard) => {
        const args = this.#argumentsOf(prefix, 'hello', session, '0', needs);
        args.push(...this.#seenOf(seen, shard));
        const [number] = await run(link, prefix, args);
        if (number === DEAD) throw deadError();
        return number;
      });
      this.#keep(epoch, link, { session, numbers, ttl: this.#ttl, needs, runs });
    } catch (error) {
      link.drop();
      throw explain(error);
    }
  }

  /**
   * @param {Op[]} ops
   * @param {number} number
   * @param {number} before
   */
  step(ops, number, before) {
    const step = { ops, number, before };
    return this.#isCertain ? this.#say(0, step, ops) : this.#stepUncertainly(step);
  }

  /** @param {SentStep} step */
  async #stepUncertainly(step) {
    try {
      const isOne = this.#prefixes.length === 1;
      return isOne ? await this.#say(0, step, step.ops) : await this.#stepOfShards(step);
    } catch (error) {
      // `dead` would say that nothing of it was done.
      throw classify(error) === 'dead' ? staleError() : error;
    }
  }

  /**
   * @param {number} shard
   * @param {SentStep} step
   * @param {Op[]} ops of it, those of the shard
   * @param {string} [run] '' to be told also for ends whether the session is dead
   * @returns {Promise<Answer[]>}
   */
  async #say(shard, { number, before }, ops, run = this.#runs[shard]) {
    const args = [...this.#heads[shard], run, String(number), String(before)];
    for (const op of ops) args.push(textOf(op));
    const codes = told(await this.#run(shard, args));
    return ops.map((_, i) => {
      const code = codes[i];
      const answer = code[0] === 'e' ? failed(failedError(code.slice(1))) : answerOf(code);
      this.#saw(answer.token, shard);
      return answer;
    });
  }

  /** @param {SentStep} step */
  async #stepOfShards(step) {
    await this.#recall(step);
    /** @type {Answer[]} */
    const answers = Array(step.ops.length).fill(ENDED);
    /** @type {unknown[]} */
    const refusals = [];
    await this.#each(async (_, shard) => {
      try {
        await this.#stepOf(shard, step, answers);
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
   * Before a step that not all shards have done comes again in others: those that have done it tell
   * once more what they answered (R1).
   * @param {SentStep} next
   */
  async #recall(next) {
    const last = this.#last;
    if (last && last.number !== next.number) {
      await this.#each(async (_, shard) => {
        if (this.#recorded[shard] >= last.number) await this.#stepOf(shard, last, []);
      });
    }
    this.#last = next;
  }

  /**
   * @param {number} shard
   * @param {SentStep} step of whose operations those of the shard are done, and answered
   * @param {Answer[]} answers of all of its operations
   */
  async #stepOf(shard, step, answers) {
    const { ops, number } = step;
    const own = [...ops.keys()].filter((i) => this.#isOf(ops[i], shard));
    if (own.length === 0) return;
    /** @type {number[]} */
    const rest = [];
    for (const i of own) {
      const known = ops[i].kind === 'end' ? undefined : this.#answered.get(ops[i].ref);
      // By the same number the shard answers as it did, to all that it was sent with it.
      if (known === undefined || known.number === number) rest.push(i);
      else answers[i] = known.answer;
    }
    // If nothing is left it is asked all the same: a dead session is not told what is known.
    const its = rest.map((i) => ops[i]);
    const said = await this.#say(shard, step, its, rest.length < own.length ? '' : undefined);
    for (const [n, answer] of said.entries()) {
      answers[rest[n]] = answer;
      if (its[n].kind !== 'end') this.#answered.set(its[n].ref, { number, answer });
    }
  }

  /** @param {Seen} seen */
  async renew(seen) {
    this.#checkEcho();
    const echo = this.#echo + 1;
    const epoch = this.#epoch;
    const thefts = [...this.#told].slice(0, MOST_TOLD);
    const replies = await this.#each(async (_, shard) => {
      const args = this.#ownArgumentsOf(shard, 'renew');
      args.push(...this.#seenOf(seen, shard), `e ${echo}`, ...thefts);
      return told(await this.#run(shard, args));
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
      grantsIn = sooner(grantsIn, Number(grants));
      for (let i = 0; i < refs.length; i += 2) {
        const [ref, what] = [Number(refs[i]), refs[i + 1]];
        if (what[0] === 's') {
          stolen.set(ref, what.slice(1));
        } else {
          mine.set(ref, BigInt(what));
          this.#saw(BigInt(what), shard);
        }
      }
    }
    if (epoch === this.#epoch) this.#told = new Set([...stolen.keys()].map(String));
    const life = replies.map((reply) => reply[3]).join(' ');
    return { alive: true, mine, stolen, nextExpiryIn, grantsIn, life, step: this.#lastDone };
  }

  /** The number of the last step that was done by all shards that it is of. */
  get #lastDone() {
    const last = this.#last;
    const recorded = Math.max(...this.#recorded);
    const isMissing = (/** @type {number} */ done, /** @type {number} */ shard) =>
      last && done < last.number && last.ops.some((op) => this.#isOf(op, shard));
    return last && this.#recorded.some(isMissing) ? Math.min(recorded, last.number - 1) : recorded;
  }

  /**
   * @param {bigint} token that was granted to us
   * @param {number} shard
   */
  #saw(token, shard) {
    if (token > this.#tokens[shard]) this.#tokens[shard] = token;
  }

  /**
   * @param {Seen} seen
   * @param {number} shard
   * @returns {string[]} what was seen of a shard
   */
  #seenOf({ life, token }, shard) {
    // The greatest of all says nothing of one of several.
    if (this.#prefixes.length === 1) this.#saw(token, 0);
    const its = this.#prefixes.length === 1 ? life : (life.split(' ')[shard] ?? '');
    return [its, String(this.#tokens[shard])];
  }

  /** What was published by the last renewal has to have arrived, if that was long ago. */
  #checkEcho() {
    const isLate = performance.now() - this.#echoed > Math.min(this.#ttl / 6, LATE_ECHO);
    if (!isLate || this.#heard.every((echo) => echo >= this.#echo)) return;
    const link = this.#link;
    this.#link = undefined;
    link?.drop();
    throw deafError();
  }

  async sweep() {
    await this.#each(async (_, shard) => {
      const args = this.#ownArgumentsOf(shard, 'sweep');
      while (told(await this.#run(shard, args))[0] === '1');
    });
  }

  /** @param {string} session */
  async close(session) {
    await this.#anyhow(async (link) => {
      await this.#each(async (prefix) => {
        const args = this.#argumentsOf(prefix, 'close', session);
        while ((await run(link, prefix, args))[0] === '1');
      });
    });
  }

  /**
   * @param {string} [name]
   * @param {'held'} [which]
   */
  async query(name, which) {
    const key = name === undefined ? '' : keyOf(name);
    return this.#anyhow(async (link) => {
      const all = await this.#each(async (prefix, shard) => {
        if (name !== undefined && this.#shardOf(key) !== shard) return [];
        const args = [...this.#argumentsOf(prefix, 'query', ''), key, which ?? ''];
        return entriesOf(await run(link, prefix, args));
      });
      return all.flat();
    });
  }

  /** @param {string} name */
  async marked(name) {
    const key = keyOf(name);
    const prefix = this.#prefixes[this.#shardOf(key)];
    return this.#anyhow(async (link) => {
      const [is] = await run(link, prefix, [...this.#argumentsOf(prefix, 'marked', ''), key]);
      return is === '1';
    });
  }

  async dispose() {
    this.events = NO_EVENTS;
    this.#isDisposed = true;
    this.#replace();
    for (const link of this.#others.keys()) link.drop();
  }

  /** Ends the connection there is, or is being made. Returns the epoch that begins. */
  #replace() {
    // Its last answer may have come too late for the session.
    this.#told.clear();
    this.#link?.drop();
    this.#link = undefined;
    this.#making?.drop();
    this.#making = undefined;
    // Those of the last epoch may have something to do yet; a client of a cluster may try for ever.
    for (const [link, epoch] of this.#others) if (epoch < this.#epoch) link.drop();
    return ++this.#epoch;
  }

  #connect() {
    const link = new Link(this.#client, this.#kind);
    this.#making = link;
    return link;
  }

  /**
   * @param {number} epoch
   * @param {string} session
   * @returns {Map<string, (message: string) => void>} its channels, and who hears what is told
   *   there
   */
  #channels(epoch, session) {
    return new Map(
      this.#prefixes.map((prefix, shard) => [
        `${prefix}:c:${session}`,
        (message) => {
          if (epoch === this.#epoch) this.#hear(message, shard);
        },
      ]),
    );
  }

  /**
   * Rejects if the server is not fit for locks.
   * @param {OpenLink} link
   * @param {number} ttl milliseconds
   * @returns {Promise<{ needs: Needs, runs: string[] }>} and, by shard, the `run_id` (#runs)
   */
  async #examine(link, ttl) {
    let pause = Math.ceil(ttl);
    let strict = 0;
    let idle = IDLE;
    const runs = await this.#each(async (prefix) => {
      const [server, memory, replication] = await run(
        link,
        prefix,
        this.#argumentsOf(prefix, 'examine', ''),
      );
      const version = field(server, 'redis_version');
      const [major, minor] = version.split('.').map(Number);
      if (major < 6 || (major === 6 && minor < 2)) throw oldServerError(version);
      const policy = field(memory, 'maxmemory_policy');
      if (policy.startsWith('allkeys-')) throw evictionError(policy);
      // It evicts what expires.
      if (policy.startsWith('volatile-')) idle = 0;
      const runId = field(server, 'run_id');
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
   * @param {number} epoch
   * @param {OpenLink} link
   * @param {{ session: string, numbers: string[], ttl: number, needs: Needs, runs: string[] }}
   *   state
   */
  #keep(epoch, link, { session, numbers, ttl, needs, runs }) {
    if (epoch !== this.#epoch) throw staleError();
    this.#making = undefined;
    this.#link = link;
    this.#session = session;
    this.#numbers = numbers;
    this.#ttl = ttl;
    this.#needs = needs;
    this.#runs = runs;
    this.#heads = this.#prefixes.map((_, shard) => this.#ownArgumentsOf(shard, 'step'));
    this.#heard = this.#prefixes.map(() => this.#echo);
    link.onDown = (error) => {
      if (epoch !== this.#epoch) return;
      this.#link = undefined;
      this.events.down(error);
    };
  }

  /**
   * @param {string} message `g ref token`, `s ref thief` or `e number`
   * @param {number} shard
   */
  #hear(message, shard) {
    if (message[0] === 'e') {
      // That of the beginning may come after others.
      this.#heard[shard] = Math.max(this.#heard[shard] ?? 0, Number(message.slice(2)));
      return;
    }
    if (message[0] === 'g') this.#saw(BigInt(message.slice(message.indexOf(' ', 2) + 1)), shard);
    tell(this.events, message);
  }

  /** @param {string} key of a name */
  #shardOf(key) {
    const count = this.#prefixes.length;
    return count === 1 ? 0 : createHash('sha256').update(key).digest().readUInt32LE() % count;
  }

  /**
   * @param {Op} op
   * @param {number} shard
   */
  #isOf(op, shard) {
    // Of which only the ref is known: it may be in any.
    return op.name === undefined || this.#shardOf(keyOf(op.name)) === shard;
  }

  /**
   * @template T
   * @param {(prefix: string, shard: number) => Promise<T>} work
   * @returns {Promise<T[]>} of all shards
   */
  #each(work) {
    return Promise.all(this.#prefixes.map(work));
  }

  /**
   * @param {string} prefix
   * @param {string} command
   * @param {string} session '' for none
   * @param {string} [number] of the connection; '0' for none
   * @param {Needs} [needs]
   * @returns {string[]} what a call of the script begins with
   */
  #argumentsOf(prefix, command, session, number = '0', { pause, strict, idle } = this.#needs) {
    // What a cluster looks at to find the node: a key that is never there, and one that is always
    // there once a bucket was opened. While the slot of both is moved, neither of the nodes has
    // both, so none runs the script (TRYAGAIN), which would miss what is still, or already, at the
    // other.
    const keys = this.#kind.endsWith('cluster') ? ['2', prefix, `${prefix}:m`] : ['1', prefix];
    return [SHA, ...keys, command, session, `${number} ${pause} ${strict}`, String(idle)];
  }

  /**
   * @param {number} shard
   * @param {string} command
   * @returns {string[]} what a call begins with that the session makes by the connection there is
   */
  #ownArgumentsOf(shard, command) {
    return this.#argumentsOf(this.#prefixes[shard], command, this.#session, this.#numbers[shard]);
  }

  /**
   * Something that the session does, by the connection there is.
   * @param {number} shard
   * @param {string[]} args
   * @returns {Promise<any>} for `told`
   */
  #run(shard, args) {
    if (!this.#link) throw explain(new Error('there is no connection'));
    return run(this.#link, this.#prefixes[shard], args);
  }

  /**
   * By the connection there is, or, if there is none or it ends meanwhile, by another one.
   * @template T
   * @param {(link: OpenLink) => Promise<T>} work may be done twice
   * @returns {Promise<T>}
   */
  async #anyhow(work) {
    const current = this.#link;
    if (current) {
      try {
        return await work(current);
      } catch (error) {
        if (!current.isDown) throw error;
      }
    }
    // What `dispose` has cut short is not begun again: nobody would end it.
    if (this.#isDisposed) throw staleError();
    const link = new Link(this.#client, this.#kind);
    this.#others.set(link, this.#epoch);
    try {
      await link.open(new Map());
      return await work(link);
    } finally {
      this.#others.delete(link);
      link.drop();
    }
  }
}

/**
 * Runs the script.
 * @param {OpenLink} link
 * @param {string} prefix
 * @param {string[]} args
 * @returns {Promise<any>}
 */
async function run(link, prefix, args) {
  try {
    return await link.call('EVALSHA', args, prefix);
  } catch (/** @type {any} */ error) {
    if (!/NOSCRIPT/.test(error.message)) throw error;
    return link.call('EVAL', [SCRIPT, ...args.slice(1)], prefix);
  }
}

/**
 * @param {any} all that the script has answered a session
 * @returns {string[]} unless that is why it did nothing
 */
function told(all) {
  const reply = Array.isArray(all) ? all : [all];
  if (reply[0] === DEAD) throw deadError();
  if (reply[0] === STALE) throw staleError();
  if (reply[0] === EARLY) throw earlyError();
  return reply;
}

/**
 * @param {number} one milliseconds to the end of a quarantine; 0 for none
 * @param {number} other that of another shard
 * @returns {number} which is over first
 */
const sooner = (one, other) => (one === 0 || other === 0 ? one + other : Math.min(one, other));

/**
 * @param {string} info of INFO
 * @param {string} name
 * @returns {string} '' for none
 */
const field = (info, name) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? '';

/**
 * Whether a primary that was split off stops by itself: it does if it needs each replica that can
 * be promoted.
 * @param {OpenLink} link
 * @param {string} replication of INFO
 * @returns {Promise<{ lag: number, replicas: number }>} the seconds after which it does; their
 *   number
 */
async function examineReplicas(link, replication) {
  /** @param {string} name */
  const setting = async (name) => {
    const reply = await link.call('CONFIG', ['GET', name]);
    return Number(Array.isArray(reply) ? reply[1] : Object.values(reply)[0]);
  };
  const replicas = await setting('min-replicas-to-write');
  const lag = await setting('min-replicas-max-lag');
  const attached = Number(field(replication, 'connected_slaves'));
  if (!(replicas >= 1 && lag >= 1)) {
    throw strictError('min-replicas-to-write and min-replicas-max-lag are to be 1 or more.');
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
 * @param {Op} op
 * @returns {string} as redis.lua.js has it. A key has no line feed, nor has JSON, in which lone
 *   surrogates are escaped, too
 */
function textOf(op) {
  const key = op.name === undefined ? '' : keyOf(op.name);
  if (op.kind === 'end') return `x${op.ref} ${Math.ceil(op.keep)}\n${key}`;
  const { kind, ref, group, maxPending, mode, weight, priority } = op;
  const label = op.label === '' ? '""' : JSON.stringify(op.label);
  const [letter, limit] = mode === 'shared' ? ['s', op.limit] : ['x', ''];
  return (
    `${KINDS[kind]}${ref} ${group} ${maxPending}\n${key}\n${letter} ${weight}\n` +
    `${priority} ${label}\n${limit}\n${JSON.stringify(op.name)}`
  );
}

/**
 * @param {string[]} reply of redis.lua.js, `query`
 * @returns {import('../../adapter.js').Entry[]}
 */
function entriesOf([now, ...rest]) {
  const entries = [];
  for (let i = 0; i < rest.length; i += 5) {
    const [ref, name, limitText, info, row] = rest.slice(i, i + 5);
    const words = row.split(' ', 6);
    const [mode, weight, token, asked, since, priority] = words;
    const label = row.slice(words.join(' ').length + 1);
    const { clientId, host, pid, threadId, threadName, program } = JSON.parse(info);
    const isHeld = token !== '0';
    const limit = mode === 's' ? Number(limitText) : 0;
    entries.push({
      ref: Number(ref),
      name: JSON.parse(name),
      mode: /** @type {import('../../adapter.js').LockMode} */ (
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
    });
  }
  return entries;
}

module.exports = { RedisAdapter };
