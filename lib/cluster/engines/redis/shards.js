'use strict';

/**
 * The shards of a bucket, and calls of the script on them. All keys of a bucket have the same hash
 * tag, so they are in the same slot of a cluster. With the option `shards`, each shard is a bucket
 * with its own tag, session and tokens, and each name belongs to one shard.
 */

const { createHash } = require('node:crypto');

const { deadError, staleError } = require('../errors.js');
const { DEAD, EARLY, STALE } = require('../wire.js');
const { missedStepError } = require('./errors.js');
const SCRIPT = require('./redis.lua.js');

/** @import { Op, Seen } from '../../adapter.js' */
/** @typedef {InstanceType<typeof import('./link.js').RedisLink>} Link */

/**
 * @typedef {object} Needs the values that the script needs
 * @property {number} pause the length of a quarantine in milliseconds
 * @property {number} strict how many replicas must be connected
 * @property {number} idle milliseconds after which keys that nobody renews expire; 0 for never
 */

/**
 * @typedef {object} Caller
 * @property {string} session '' for none
 * @property {string[]} numbers the number of the connection in the session, by shard
 * @property {Needs} needs
 */

const SHA = createHash('sha1').update(SCRIPT).digest('hex');

/** Calls the script before a session is open. @type {Caller} */
const NOBODY = { session: '', numbers: [], needs: { pause: 0, strict: 0, idle: 0 } };

/** Short names stay readable in keys. */
const READABLE = /^[\w.:/ -]{1,128}$/;

/** The key part for a text: ASCII without braces, different for each text. @param {string} text */
const keyPartOf = (text) =>
  READABLE.test(text)
    ? text
    : `=${createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('base64url')}`;

class Shards {
  /** The key prefix of each shard. @type {string[]} */
  #prefixes;
  /** The greatest token that each shard has granted to us. */
  #tokens;

  /**
   * @param {string} bucket @param {number} count @param {string} prefix of the bucket's keys
   * @param {boolean} isCluster
   */
  constructor(bucket, count, prefix, isCluster) {
    const key = keyPartOf(bucket);
    this.isCluster = isCluster;
    this.#prefixes = Array.from(
      { length: count },
      (_, i) => `${prefix}{wl:${key}${i > 0 ? `#${i}` : ''}}`,
    );
    this.#tokens = this.#prefixes.map(() => 0n);
  }

  get count() {
    return this.#prefixes.length;
  }

  /** @param {string} key of a name */
  shardOf(key) {
    const { count } = this;
    return count === 1 ? 0 : createHash('sha256').update(key).digest().readUInt32LE() % count;
  }

  /**
   * Whether a shard gets an operation. All shards get one whose name is unknown.
   * @param {Op} op @param {number} shard
   */
  concerns(op, shard) {
    return op.name === undefined || this.shardOf(keyPartOf(op.name)) === shard;
  }

  /** @template T @param {(shard: number) => Promise<T>} work */
  onEach(work) {
    return Promise.all(this.#prefixes.map((_, shard) => work(shard)));
  }

  /** @param {string} session @param {(message: string, shard: number) => void} onMessage */
  channelsOf(session, onMessage) {
    return new Map(
      this.#prefixes.map((prefix, shard) => [
        `${prefix}:c:${session}`,
        (/** @type {string} */ message) => onMessage(message, shard),
      ]),
    );
  }

  /** @param {bigint} token @param {number} shard */
  noteToken(token, shard) {
    if (token > this.#tokens[shard]) this.#tokens[shard] = token;
  }

  /**
   * The arguments that report what was seen of a shard: its epoch and its greatest token.
   * @param {Seen} seen @param {number} shard
   */
  seenOf({ life, token }, shard) {
    // With several shards, the greatest token of all shards says nothing about a single shard.
    if (this.count === 1) this.noteToken(token, 0);
    const its = this.count === 1 ? life : (life.split(' ')[shard] ?? '');
    return [its, String(this.#tokens[shard])];
  }

  /**
   * Runs the script on a shard; if the server does not have it yet, this sends the script, too.
   * Throws if the script refuses the call.
   * @param {Link} link @param {number} shard @param {Caller} caller @param {string} command
   * @param {string[]} rest @returns {Promise<any[]>}
   */
  async call(link, shard, { session, numbers, needs }, command, ...rest) {
    const prefix = this.#prefixes[shard];
    // In a cluster, the keys of a command decide which node gets it. The first key here never
    // exists, and the second one exists once the bucket was opened. While their slot moves to
    // another node, neither node has both keys. So both nodes refuse to run the script (TRYAGAIN),
    // which would otherwise miss keys.
    const keys = this.isCluster ? ['2', prefix, `${prefix}:m`] : ['1', prefix];
    const own = `${numbers[shard] ?? 0} ${needs.pause} ${needs.strict}`;
    const args = [...keys, command, session, own, String(needs.idle), ...rest];
    const all = await run(link, prefix, args);
    const reply = Array.isArray(all) ? all : [all];
    if (reply[0] === DEAD) throw deadError();
    if (reply[0] === STALE) throw staleError();
    if (reply[0] === EARLY) throw missedStepError();
    return reply;
  }
}

/** @param {Link} link @param {string} prefix @param {string[]} args @returns {Promise<any>} */
async function run(link, prefix, args) {
  try {
    return await link.call('EVALSHA', [SHA, ...args], prefix);
  } catch (/** @type {any} */ error) {
    if (!/NOSCRIPT/.test(error.message)) throw error;
    return link.call('EVAL', [SCRIPT, ...args], prefix);
  }
}

module.exports = { NOBODY, Shards, keyPartOf };
