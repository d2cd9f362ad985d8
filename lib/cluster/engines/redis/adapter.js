'use strict';

/**
 * The adapter of Redis and Valkey (../../adapter.js). Each step is one run of the script of lua/,
 * which is atomic, over a connection made from the user's client (link.js). The script publishes
 * grants and thefts on the channel of their session. Each renewal publishes an echo on this
 * channel: if the echo does not arrive, the adapter drops the connection.
 */

const { randomBytes } = require('node:crypto');
const { performance } = require('node:perf_hooks');

const { CAN, EngineAdapter } = require('../engine-adapter.js');
const { versionError } = require('../errors.js');
const { emitHint, toEntry } = require('../wire.js');
const { noEchoError, shardsError } = require('./errors.js');
const { examine } = require('./examine.js');
const { RedisLink, describeClient, keyPrefixOf, kindOf } = require('./link.js');
const { NOBODY, Shards, keyPartOf } = require('./shards.js');
const { ShardedSteps } = require('./steps.js');
const { argumentError, describe } = require('../../../platform/errors.js');

/** @import { Adapter, Op, Seen } from '../../adapter.js' */
/** @import { Client } from './link.js' */
/** @import { Caller, Needs } from './shards.js' */
/** @typedef {InstanceType<typeof RedisLink>} Link */

/** Increase this whenever the keys or their meaning change. */
const VERSION = '6';

/** How many steps may be under way. The script keeps the replies of as many (lua/main.lua). */
const WINDOW = 4;

/** An echo is late after this many milliseconds, or a sixth of the lease if that is less. */
const LATE_ECHO = 2_500;

/** The most thefts that a renewal confirms; the server lists all further thefts again. */
const MOST_TOLD = 1_000;

/** The most names of a group, since Redis does nothing else while it processes them. */
const MOST = 1_000;

/**
 * @extends {EngineAdapter<Link>}
 * @implements {Adapter}
 */
class RedisAdapter extends EngineAdapter {
  can;

  #client;
  #kind;
  #options;
  #shards;
  #steps;
  /** The session that `open` started last, over the connection in use. @type {Caller} */
  #caller = NOBODY;
  #ttl = 0;
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
  constructor(bucket, { client, shards: count = 1, strict = false, failover, prefix }) {
    super();
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
    if (!Number.isInteger(count) || count < 1 || count > 64) {
      throw argumentError(`'shards' is ${describe(count)}; expected a whole number from 1 to 64.`);
    }
    if (typeof strict !== 'boolean')
      throw argumentError(`'strict' is ${describe(strict)}; expected true or false.`);
    if (failover !== undefined && failover !== 'ignore') {
      throw argumentError(
        `'failover' is ${describe(failover)}; expected 'ignore', or leave it out.`,
      );
    }
    const isCluster = kind.endsWith('cluster');
    if (strict && isCluster) {
      throw argumentError(
        "'strict' cannot be used with a Redis Cluster, only with one server or Sentinel.",
      );
    }
    this.#client = client;
    this.#kind = kind;
    this.#options = { strict, ignoresFailover: failover === 'ignore' };
    this.#shards = new Shards(bucket, count, before, isCluster);
    this.#steps = new ShardedSteps(this.#shards, count === 1 && !isCluster, (shard, args) =>
      this.#call(shard, 'step', ...args),
    );
    this.can = Object.freeze({
      ...CAN,
      groups: count === 1,
      most: MOST,
      // A shard sees only its part of a step, so it could not notice a missing step.
      window: count === 1 ? WINDOW : 1,
    });
    this.id = before === '' ? `redis ${bucket}` : `redis ${before}\n${bucket}`;
  }

  /** @param {import('../../adapter.js').SessionInfo} info @param {number} ttl @param {Seen} seen */
  async open(info, ttl, seen) {
    const session = randomBytes(12).toString('hex');
    const shards = this.#shards;
    this.#steps.clear();
    return this.#connect(session, ttl, async (link, needs, areInShard) => {
      const caller = { session, needs, numbers: Array(shards.count).fill('1') };
      const count = String(shards.count);
      const own = [String(Math.ceil(ttl)), JSON.stringify(info), info.clientId, VERSION, count];
      let grantsIn = 0;
      const lives = await shards.onEach(async (shard) => {
        const args = [...shards.seenOf(seen, shard), ...own, areInShard[shard] ? '1' : ''];
        const [what, value, pause] = await shards.call(link, shard, caller, 'open', ...args);
        if (what === 'shards') throw shardsError(value, count);
        if (what !== 'open') throw versionError(value, VERSION);
        grantsIn = shorterPause(grantsIn, Number(pause));
        return value;
      });
      return [caller.numbers, { session, ttl, life: lives.join(' '), grantsIn }];
    });
  }

  /**
   * Replaces the session's connection; rejects if the session is dead.
   * @param {Seen} seen
   */
  async hello(seen) {
    const { session } = this.#caller;
    const shards = this.#shards;
    await this.#connect(session, this.#ttl, async (link, needs, areInShard) => {
      const caller = { session, needs, numbers: [] };
      const numbers = await shards.onEach(async (shard) => {
        const args = [...shards.seenOf(seen, shard), areInShard[shard] ? '1' : ''];
        const [number] = await shards.call(link, shard, caller, 'hello', ...args);
        return number;
      });
      return [numbers, undefined];
    });
  }

  /**
   * Replaces the connection, and makes the session current.
   * @template T @param {string} session @param {number} ttl
   * @param {(link: Link, needs: Needs, areInShard: boolean[]) =>
   *   Promise<[numbers: string[], result: T]>} greet returns the numbers of the connection, and the
   *   result; `areInShard` tells by shard whether messages of SPUBLISH arrive
   */
  #connect(session, ttl, greet) {
    return this.connect(
      () => this.#makeLink(),
      async (link) => {
        const { generation } = this;
        const channels = this.#shards.channelsOf(session, (message, shard) => {
          if (generation === this.generation) this.#handleMessage(message, shard);
        });
        const areInShard = await link.open(channels);
        const { needs, runs } = await examine(link, this.#shards, ttl, this.#options);
        const [numbers, result] = await greet(link, needs, areInShard);
        return () => {
          this.#caller = { session, numbers, needs };
          this.#ttl = ttl;
          this.#steps.runs = runs;
          this.#echoes = runs.map(() => this.#echo);
          return result;
        };
      },
    );
  }

  /** @param {boolean} [hasMessages] */
  #makeLink(hasMessages) {
    return new RedisLink(this.#client, this.#kind, hasMessages);
  }

  /** @param {Op[]} ops @param {number} number @param {number} before */
  step(ops, number, before) {
    return this.#steps.send({ ops, number, before });
  }

  /**
   * Rejects if the message that the last renewal published has still not arrived.
   * @param {Seen} seen
   */
  async renew(seen) {
    this.#checkEcho();
    const echo = this.#echo + 1;
    const { generation } = this;
    const shards = this.#shards;
    const thefts = this.knownThefts.slice(0, MOST_TOLD).map(String);
    const replies = await shards.onEach((shard) =>
      this.#call(shard, 'renew', ...shards.seenOf(seen, shard), `e ${echo}`, ...thefts),
    );
    this.#echo = echo;
    this.#echoed = performance.now();
    /** @type {Map<number, bigint>} */
    const mine = new Map();
    /** @type {Map<number, string>} */
    const stolen = new Map();
    let nextExpiryIn = Number.POSITIVE_INFINITY;
    let grantsIn = 0;
    for (const [shard, [, next, grants, , , ...refs]] of replies.entries()) {
      if (next !== '-1') nextExpiryIn = Math.min(nextExpiryIn, Number(next));
      grantsIn = shorterPause(grantsIn, Number(grants));
      for (let i = 0; i < refs.length; i += 2) {
        const [ref, what] = [Number(refs[i]), refs[i + 1]];
        if (what[0] === 's') {
          stolen.set(ref, what.slice(1));
        } else {
          mine.set(ref, BigInt(what));
          shards.noteToken(BigInt(what), shard);
        }
      }
    }
    this.noteThefts(generation, stolen);
    for (const ref of stolen.keys()) this.#steps.published.delete(ref);
    const life = replies.map((reply) => reply[3]).join(' ');
    const step = this.#steps.noteRecorded(replies.map((reply) => Number(reply[4])));
    return { alive: true, mine, stolen, nextExpiryIn, grantsIn, life, step };
  }

  /** Drops the connection and throws if the echo of the last renewal is late. */
  #checkEcho() {
    const isLate = performance.now() - this.#echoed > Math.min(this.#ttl / 6, LATE_ECHO);
    if (!isLate || this.#echoes.every((echo) => echo >= this.#echo)) return;
    const { link } = this;
    this.link = undefined;
    link?.drop();
    throw noEchoError();
  }

  /** @param {string} message `g ref token`, `s ref thief` or `e number` @param {number} shard */
  #handleMessage(message, shard) {
    if (message[0] === 'e') {
      // The echo of `open` is 0. If it arrives after `#connect`, it must not lower the number.
      this.#echoes[shard] = Math.max(this.#echoes[shard] ?? 0, Number(message.slice(2)));
      return;
    }
    if (message[0] === 'g')
      this.#shards.noteToken(BigInt(message.slice(message.indexOf(' ', 2) + 1)), shard);
    emitHint(this.events, message);
  }

  /** The session and the values that its calls need, for `extend`. */
  keeperTicket() {
    const { session, needs } = this.#caller;
    return { session, needs };
  }

  /**
   * Extends another adapter's session; returns false if a shard's epoch is not that of `seen`.
   * @param {{ session: string, needs: Needs }} ticket @param {Seen} seen
   */
  async extend(ticket, seen) {
    const link = await this.linkForCalls(
      () => this.#makeLink(false),
      async (made) => {
        await made.open();
      },
    );
    const shards = this.#shards;
    const caller = { ...ticket, numbers: [] };
    const replies = await shards.onEach((shard) =>
      shards.call(link, shard, caller, 'extend', ...shards.seenOf(seen, shard)),
    );
    return replies.every(([reply]) => reply === '1');
  }

  async sweep() {
    await this.#shards.onEach(async (shard) => {
      while ((await this.#call(shard, 'sweep'))[0] === '1');
    });
  }

  /** @param {string} session */
  async close(session) {
    await this.#callOverAnyLink(async (call) => {
      await this.#shards.onEach(async (shard) => {
        while ((await call(shard, 'close'))[0] === '1');
      });
    }, session);
  }

  /** @param {string} [name] @param {'held'} [which] */
  async query(name, which = /** @type {any} */ ('')) {
    const key = name === undefined ? '' : keyPartOf(name);
    return this.#callOverAnyLink(async (call) => {
      const all = await this.#shards.onEach(async (shard) => {
        if (name !== undefined && this.#shards.shardOf(key) !== shard) return [];
        return entriesOf(await call(shard, 'query', key, which));
      });
      return all.flat();
    });
  }

  /** @param {string} name */
  async marked(name) {
    const key = keyPartOf(name);
    return this.#callOverAnyLink(async (call) => {
      const [is] = await call(this.#shards.shardOf(key), 'marked', key);
      return is === '1';
    });
  }

  /** @param {number} shard @param {string} command @param {string[]} args */
  #call(shard, command, ...args) {
    return this.#shards.call(this.requireLink(), shard, this.#caller, command, ...args);
  }

  /**
   * Does the work over the connection in use, or over a new one.
   * @template T
   * @param {(call: (shard: number, command: string, ...args: string[]) => Promise<any[]>) =>
   *   Promise<T>} work
   * @param {string} [session] the caller; '' for none
   */
  #callOverAnyLink(work, session = '') {
    const caller = { ...this.#caller, session, numbers: [] };
    const workOver = (/** @type {Link} */ link) =>
      work((shard, ...rest) => this.#shards.call(link, shard, caller, ...rest));
    const makeLink = () => this.#makeLink(false);
    return this.overAnyLink(workOver, () =>
      this.overSingleCallLink(makeLink, async (link) => {
        try {
          await link.open();
          return await workOver(link);
        } finally {
          link.drop();
        }
      }),
    );
  }
}

/** The shorter of two quarantines, where 0 means none. @param {number} one @param {number} other */
const shorterPause = (one, other) =>
  one === 0 || other === 0 ? one + other : Math.min(one, other);

/** @param {string[]} reply to `query` @returns {import('../../adapter.js').Entry[]} */
function entriesOf([now, ...rest]) {
  const entries = [];
  for (let i = 0; i < rest.length; i += 6) {
    const [ref, name, limit, info, row, data] = rest.slice(i, i + 6);
    const words = row.split(' ', 6);
    const [mode, weight, token, asked, since, priority] = words;
    const label = row.slice(words.join(' ').length + 1);
    const isHeld = token !== '0';
    entries.push(
      toEntry({
        ...{ ref, name: JSON.parse(name), isShared: mode === 's', token, info, limit, weight },
        ...{ label: JSON.parse(label), priority, data },
        waited: Number(isHeld ? since : now) - Number(asked),
        held: isHeld ? Number(now) - Number(since) : 0,
      }),
    );
  }
  return entries;
}

module.exports = { RedisAdapter };
