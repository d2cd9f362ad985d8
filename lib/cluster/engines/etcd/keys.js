'use strict';

/**
 * The keys of a bucket in etcd, and what is in them. All begin with `web-locks/1/<bucket>/`, and
 * are bound to the lease of a session, so that etcd ends all that a session has at one revision.
 *
 *   q/<name>/a/<lease>-<slot>                a thief; see slots.js
 *   q/<name>/b/<lease>-<slot>                an exclusive request
 *   q/<name>/c/<limit>/<lease>-<slot>        a shared one
 *   s/<lease>                                a session: who it is. Its version counts connections
 *   s/<lease>/mark                           written to see it come by the watch: see query.js
 *   s/<lease>/stolen/<ref>                   who has stolen a lock of the session
 *   w/quarantine                             nothing is granted while it is there: see life.js
 *
 * A session watches what begins with its own key, which is written for it alone, and the names that
 * it waits for.
 *
 * Nobody watches these: `web-locks/1-steps/<bucket>/<lease>`, which a session writes in each
 * transaction of its steps, so that it can find out whether one was done whose answer got lost, and
 * that none is done twice; and `web-locks/1-life/<bucket>`, which stays: see life.js.
 *
 * What is marked as done is `web-locks/1-done/<bucket>/<name>`, which nobody watches, bound to a
 * lease of its own. In the value is who has marked it.
 *
 * Numbers have their full width, so that keys are in the order of numbers. In names and buckets
 * what is not a letter, a digit, `_`, `.` or `-` is `%` and the code unit; what is long is `#` and
 * its SHA-256, and the name is in the value. Of which version all this is is in the key of the
 * life, so that libraries that would not understand each other meet, and refuse.
 */

const { createHash } = require('node:crypto');

const { now: dateNow } = Date;

/** @typedef {import('../../adapter.js').RequestOp} RequestOp */

/**
 * @typedef {object} RequestKey
 * @property {'a' | 'b' | 'c'} kind
 * @property {number} limit
 * @property {string} lease
 * @property {string | undefined} name undefined: see the value
 */

const ROOT = 'web-locks/1/';
const DONE = 'web-locks/1-done/';
const LIFE = 'web-locks/1-life/';
const STEPS = 'web-locks/1-steps/';
/** The most code units of a name that a key has. */
const LONG = 512;

/** @param {string} text any code units */
function encode(text) {
  const plain = text.replace(
    /[^A-Za-z0-9_.-]/g,
    (unit) => `%${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  if (plain.length <= LONG) return plain;
  return `#${createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('hex')}`;
}

/** @param {string} part of a key, not of a long name */
const decode = (part) =>
  part.replace(/%([0-9a-f]{4})/g, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16)));

/** @param {string} key @returns {string} the first key that does not begin with it */
const after = (key) => key.slice(0, -1) + String.fromCharCode(key.charCodeAt(key.length - 1) + 1);

/** @param {string} text of ASCII, as keys are */
const base64 = (text) => Buffer.from(text, 'latin1').toString('base64');
/** @param {unknown} value */
const base64Json = (value) => Buffer.from(JSON.stringify(value)).toString('base64');
/** @param {string} key */
const textOf = (key) => Buffer.from(key, 'base64').toString('latin1');
/** @param {string} value */
const valueOf = (value) => JSON.parse(Buffer.from(value, 'base64').toString());

/** @param {number} ref */
const digitsOf = (ref) => String(ref).padStart(16, '0');

/** @param {number} limit */
const tenDigits = (limit) => String(limit).padStart(10, '0');

class Keys {
  /** @param {string} bucket */
  constructor(bucket) {
    const part = encode(bucket);
    this.prefix = `${ROOT}${part}/`;
    this.donePrefix = `${DONE}${part}/`;
    this.life = LIFE + part;
    this.quarantine = `${this.prefix}w/quarantine`;
    this.stepPrefix = `${STEPS}${part}/`;
  }

  /** @param {string} lease */
  steps(lease) {
    return this.stepPrefix + lease;
  }

  /** @param {string} name */
  done(name) {
    return this.donePrefix + encode(name);
  }

  /** @param {string} lease */
  session(lease) {
    return `${this.prefix}s/${lease}`;
  }

  /** @param {string} lease @returns {{ key: string, end: string }} all keys that are its own */
  own(lease) {
    const key = this.session(lease);
    return { key, end: after(`${key}/`) };
  }

  /** @param {string} lease */
  mark(lease) {
    return `${this.session(lease)}/mark`;
  }

  /**
   * @param {string} lease of the robbed session
   * @param {number} ref
   */
  stolen(lease, ref) {
    return `${this.session(lease)}/stolen/${digitsOf(ref)}`;
  }

  /** All queues, and all sessions. */
  get all() {
    return { key: this.queues, end: after(`${this.prefix}s/`) };
  }

  /** @returns {string} what the keys of all requests begin with */
  get queues() {
    return `${this.prefix}q/`;
  }

  /** @param {string} name @returns {string} what the keys of its requests begin with */
  queue(name) {
    return `${this.queues}${encode(name)}/`;
  }

  /** @param {string} name */
  allShared(name) {
    return `${this.queue(name)}c/`;
  }

  /**
   * @param {string} name
   * @param {number} limit
   */
  shared(name, limit) {
    return `${this.allShared(name)}${tenDigits(limit)}/`;
  }

  /** @param {string} key of a shared request, as the gateway has it */
  limitOf(key) {
    return this.parse(textOf(key)).request?.limit ?? 0;
  }

  /**
   * @param {RequestOp} op
   * @param {string} lease
   * @param {number} slot
   */
  request({ kind, mode, name, limit }, lease, slot) {
    const own = `${lease}-${slot}`;
    if (kind === 'steal') return `${this.queue(name)}a/${own}`;
    return mode === 'shared' ? this.shared(name, limit) + own : `${this.queue(name)}b/${own}`;
  }

  /**
   * @param {string} key of this bucket
   * @returns {{ type: string, lease: string, what?: string, ref?: number, queue?: string,
   *   request?: RequestKey }} `what` of the session's keys it is; `queue`: as of `queue()`
   */
  parse(key) {
    const [type, ...parts] = key.slice(this.prefix.length).split('/');
    if (type !== 'q') return { type, lease: parts[0], what: parts[1], ref: Number(parts[2]) };
    const [lease] = String(parts.at(-1)).split('-');
    const [name, kind] = parts;
    return {
      type,
      lease,
      queue: `${this.queues}${name}/`,
      request: {
        kind: /** @type {any} */ (kind),
        limit: kind === 'c' ? Number(parts[2]) : 0,
        lease,
        name: name[0] === '#' ? undefined : decode(name),
      },
    };
  }

  /**
   * @param {RequestOp} op
   * @param {string} [clientId] of who asks, to whom it matters: who is robbed
   * @returns {string} with the time by our clock, for `query`
   */
  value({ kind, name, ref, weight, label }, clientId) {
    const long = encode(name)[0] === '#' ? name : undefined;
    const thief = kind === 'steal' ? clientId : undefined;
    return base64Json({ ref, weight, label, asked: dateNow(), thief, name: long });
  }
}

/**
 * @param {string} lease of a session, as in keys
 * @param {number} ref
 * @returns {string} the lease of the mark that the end of its request sets, as etcd has it: always
 *   the same, so that there is one, however often it is asked for
 */
function doneLease(lease, ref) {
  const hash = createHash('sha256').update(`${lease}-${ref}`).digest();
  return String(BigInt.asUintN(62, hash.readBigUInt64LE()) + 1n);
}

/** @param {string} lease etcd's number @returns {string} as it is in keys */
const leaseKey = (lease) => BigInt(lease).toString(16).padStart(16, '0');

/** @param {string} lease as it is in keys @returns {string} etcd's number */
const leaseNumber = (lease) => String(BigInt(`0x${lease}`));

/**
 * @param {string} from
 * @param {string} to the first key that is not meant any more
 */
const range = (from, to) => ({ key: base64(from), range_end: base64(to) });

/** @param {string} prefix */
const allWith = (prefix) => range(prefix, after(prefix));

/** @param {string} key in base64 @returns {object} the condition that it is there */
const exists = (key) => ({ key, target: 'CREATE', result: 'GREATER', create_revision: '0' });

/** The condition that no key of a range is there. */
const NONE = { target: 'CREATE', result: 'EQUAL', create_revision: '0' };

module.exports = {
  Keys,
  NONE,
  after,
  allWith,
  base64,
  base64Json,
  doneLease,
  exists,
  leaseKey,
  leaseNumber,
  range,
  textOf,
  valueOf,
};
