'use strict';

/**
 * The keys of a bucket in etcd and their values. The following keys begin with
 * `web-locks/1/<bucket>/`. All of them but the last have the lease of their session, so etcd
 * removes all keys of a session at one revision:
 *
 *   q/<name>/a/<lease>-<slot>                a thief; for slots see slots.js
 *   q/<name>/b/<lease>-<slot>                an exclusive request
 *   q/<name>/c/<limit>/<lease>-<slot>        a shared request
 *   q/<name>/p/<lease>-<slot>                a request that passes; see queue.js
 *   s/<lease>                                a session's data; its version counts connections
 *   s/<lease>/mark                           written so that the watch delivers it: see `sync` in
 *                                            session.js; for its value see query.js
 *   s/<lease>/stolen/<ref>                   the thief of one of the session's locks
 *   s/<lease>/data/<ref>                     what was published with a lock, in JSON. It means
 *                                            nothing without the lock: sessions of older versions
 *                                            steal locks and leave it
 *   w/quarantine                             nothing is granted while it exists; see epoch.js
 *
 * `web-locks/1-steps/<bucket>/<lease>` is the number of the session's last transaction that wrote
 * requests or marks (steps.js), and `web-locks/1-life/<bucket>` is the epoch (epoch.js).
 * `web-locks/1-done/<bucket>/<name>` is a mark with a lease of its own; its value names the request
 * that set it.
 *
 * Numbers have a fixed width, so that keys sort like numbers. In names and buckets, `%` and four
 * hexadecimal digits stand for each code unit that is no letter, digit, `_`, `.` or `-`. A long
 * name is replaced by `#` and its SHA-256, and the value of the key contains the name. The value of
 * the epoch's key contains the version of this layout, so that incompatible versions of this
 * library refuse each other's buckets.
 */

const { createHash } = require('node:crypto');

const { now: dateNow } = Date;

/** @import { RequestOp } from '../../adapter.js' */

/**
 * @typedef {object} RequestKey
 * @property {'a' | 'b' | 'c' | 'p'} kind
 * @property {number} limit
 * @property {string} lease
 * @property {string | undefined} name undefined if only the value contains the name
 */

const ROOT = 'web-locks/1/';
const DONE = 'web-locks/1-done/';
const LIFE = 'web-locks/1-life/';
const STEPS = 'web-locks/1-steps/';
/** The longest encoded name in a key. */
const LONG = 512;

/** `decode` is the reverse, unless the text is long. @param {string} text of any code units */
function encode(text) {
  const plain = text.replace(
    /[^A-Za-z0-9_.-]/g,
    (unit) => `%${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  if (plain.length <= LONG) return plain;
  return `#${createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('hex')}`;
}

/** @param {string} part of a key, a part that is not the hash of a long name */
const decode = (part) =>
  part.replace(/%([0-9a-f]{4})/g, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16)));

/** The first key after all keys that begin with `key`. @param {string} key */
const after = (key) => key.slice(0, -1) + String.fromCharCode(key.charCodeAt(key.length - 1) + 1);

/** @param {string} text in ASCII, like all keys */
const base64 = (text) => Buffer.from(text, 'latin1').toString('base64');
/** @param {unknown} value */
const base64Json = (value) => Buffer.from(JSON.stringify(value)).toString('base64');
/** @param {string} text of any characters */
const base64Text = (text) => Buffer.from(text).toString('base64');
/** @param {string} key in base64 */
const textOf = (key) => Buffer.from(key, 'base64').toString('latin1');
/** @param {string} value JSON in base64 */
const valueOf = (value) => JSON.parse(Buffer.from(value, 'base64').toString());

/** @param {number} ref */
const sixteenDigits = (ref) => String(ref).padStart(16, '0');

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

  /** The key that the session's steps write. @param {string} lease */
  steps(lease) {
    return this.stepPrefix + lease;
  }

  /** The key of the name's mark (`locks.once`). @param {string} name */
  done(name) {
    return this.donePrefix + encode(name);
  }

  /** @param {string} lease */
  session(lease) {
    return `${this.prefix}s/${lease}`;
  }

  /** The range of a session's own keys. @param {string} lease */
  ownRange(lease) {
    const key = this.session(lease);
    return { key, end: after(`${key}/`) };
  }

  /** The key that `sync` writes so that the watch delivers it. @param {string} lease */
  syncKey(lease) {
    return `${this.session(lease)}/mark`;
  }

  /** @param {string} lease of the session that lost the lock @param {number} ref */
  stolen(lease, ref) {
    return `${this.session(lease)}/stolen/${sixteenDigits(ref)}`;
  }

  /** @param {string} lease @param {number} ref of a lock */
  data(lease, ref) {
    return `${this.session(lease)}/data/${sixteenDigits(ref)}`;
  }

  /** The range of all requests and all keys of sessions. */
  get all() {
    return { key: this.queues, end: after(`${this.prefix}s/`) };
  }

  /** The prefix of all requests. */
  get queues() {
    return `${this.prefix}q/`;
  }

  /** The prefix of a name's requests. @param {string} name */
  queue(name) {
    return `${this.queues}${encode(name)}/`;
  }

  /** The range of the requests that can hold a name. @param {string} name */
  holding(name) {
    return { key: this.queue(name), end: `${this.queue(name)}p` };
  }

  /** The prefix of a name's shared requests. @param {string} name */
  allShared(name) {
    return `${this.queue(name)}c/`;
  }

  /**
   * The prefix of a name's shared requests with a limit.
   * @param {string} name @param {number} limit
   */
  shared(name, limit) {
    return `${this.allShared(name)}${tenDigits(limit)}/`;
  }

  /** @param {string} key of a shared request, in base64 */
  limitOf(key) {
    return this.parse(textOf(key)).request?.limit ?? 0;
  }

  /** @param {RequestOp} op @param {string} lease @param {number} slot */
  request({ kind, mode, name, limit }, lease, slot) {
    const own = `${lease}-${slot}`;
    if (kind === 'steal') return `${this.queue(name)}a/${own}`;
    if (kind === 'pass') return `${this.queue(name)}p/${own}`;
    return mode === 'shared' ? this.shared(name, limit) + own : `${this.queue(name)}b/${own}`;
  }

  /**
   * Splits a key of this bucket. `what` is the part after a session's key: 'mark', 'stolen' or
   * 'data'. `queue` is the prefix that `queue()` returns for the name.
   * @param {string} key
   * @returns {{ type: string, lease: string, what?: string, ref?: number, queue?: string,
   *   request?: RequestKey }}
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
   * The value of a request's key. It contains the time of the request, which queries report. A
   * theft's value includes its `clientId`, so that the holders that it robs can report it.
   * @param {RequestOp} op @param {string} [clientId]
   */
  value({ kind, name, ref, weight, label }, clientId) {
    const long = encode(name)[0] === '#' ? name : undefined;
    const thief = kind === 'steal' ? clientId : undefined;
    return base64Json({ ref, weight, label, asked: dateNow(), thief, name: long });
  }
}

/**
 * The lease of the mark that a request's end sets, in etcd's form. It is computed from the request,
 * so that repeated attempts grant only one lease.
 * @param {string} lease see `leaseKey` @param {number} ref
 */
function doneLease(lease, ref) {
  const hash = createHash('sha256').update(`${lease}-${ref}`).digest();
  return String(BigInt.asUintN(62, hash.readBigUInt64LE()) + 1n);
}

/** @param {string} lease in etcd's decimal form @returns 16 hexadecimal digits, for keys */
const leaseKey = (lease) => BigInt(lease).toString(16).padStart(16, '0');

/** @param {string} lease see `leaseKey` @returns {string} in etcd's decimal form */
const leaseNumber = (lease) => String(BigInt(`0x${lease}`));

module.exports = {
  Keys,
  after,
  base64,
  base64Json,
  base64Text,
  doneLease,
  leaseKey,
  leaseNumber,
  textOf,
  valueOf,
};
