'use strict';

/**
 * The keys of a bucket in etcd and their values. The following keys begin with
 * `web-locks/1/<bucket>/`. All of them but the last have the lease of their session, so etcd
 * removes all keys of a session at one revision:
 *
 *   m/<lease>/<slot>                     the latest news about a request of a session: it was
 *                                        granted, its lock was stolen, or it has passed
 *   m/<lease>/sync                       written so that the watch delivers it: see `sync` in
 *                                        etcd-session.js
 *   n/<name>/h/<lease>-<slot>            a lock that is held; for slots see slots.js
 *   n/<name>/q/<level>/<lease>-<slot>    a request that waits; a smaller level comes first
 *   n/<name>/u/<limit>/<lease>-<slot>    exists while a shared request exists, and shows its limit
 *   s/<lease>                            a session's data; its version counts connections
 *   w/quarantine                         nothing is granted while it exists; see epoch.js
 *
 * `web-locks/1-steps/<bucket>/<lease>` has the number and the answers of the session's last
 * recorded step (step.js), and `web-locks/1-life/<bucket>` is the epoch (epoch.js).
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

/** @import { RequestOp } from '../../adapter.js' */

const ROOT = 'web-locks/1/';
const DONE = 'web-locks/1-done/';
const LIFE = 'web-locks/1-life/';
const STEPS = 'web-locks/1-steps/';
/** The level of thefts, before all others. */
const THEFTS = '!';
/** The greatest priority. */
const MOST_PRIORITY = 2 ** 31 - 1;
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
/** @param {string} key in base64 */
const textOf = (key) => Buffer.from(key, 'base64').toString('latin1');
/** @param {string} value JSON in base64 */
const valueOf = (value) => JSON.parse(Buffer.from(value, 'base64').toString());

/** @param {number} number */
const tenDigits = (number) => String(number).padStart(10, '0');

/** The level of a request in the queue. @param {Pick<RequestOp, 'kind' | 'priority'>} op */
const levelOf = ({ kind, priority }) =>
  kind === 'steal' ? THEFTS : tenDigits(MOST_PRIORITY - priority);

/** The end of a request's keys. @param {string} lease @param {number} slot */
const tailOf = (lease, slot) => `${lease}-${String(slot).padStart(6, '0')}`;

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

  /** The prefix of the news for a session. @param {string} lease */
  news(lease) {
    return `${this.prefix}m/${lease}/`;
  }

  /** The key that `sync` writes so that the watch delivers it. @param {string} lease */
  sync(lease) {
    return `${this.news(lease)}sync`;
  }

  /** The range of all keys of sessions and names. */
  get all() {
    return { key: `${this.prefix}m/`, end: this.quarantine };
  }

  /** The range in which a deletion means that a session, or the quarantine, is over. */
  get ends() {
    return { key: this.session(''), end: after(`${this.prefix}w/`) };
  }

  /** The prefix of all requests. */
  get names() {
    return `${this.prefix}n/`;
  }

  /** The prefix of a name's keys. @param {string} name */
  name(name) {
    return `${this.names}${encode(name)}/`;
  }

  /** The prefix of a name's locks. @param {string} name */
  holders(name) {
    return `${this.name(name)}h/`;
  }

  /**
   * The prefix of a name's queue, or of a level in it.
   * @param {string} name @param {string} [level]
   */
  queue(name, level) {
    return `${this.name(name)}q/${level === undefined ? '' : `${level}/`}`;
  }

  /** The prefix of the limits of a name's shared requests. @param {string} name */
  limits(name) {
    return `${this.name(name)}u/`;
  }

  /** @param {string} name @param {number} limit */
  limit(name, limit) {
    return `${this.limits(name)}${tenDigits(limit)}/`;
  }

  /**
   * Splits the key of a request. `name` is as in keys; `kind`: a lock (h), a request that waits
   * (q), or a limit (u); `of`: the level or the limit.
   * @param {string} key @returns {{ name: string, kind: string, of: string, tail: string }}
   */
  parse(key) {
    const [name, kind, ...parts] = key.slice(this.names.length).split('/');
    return { name, kind, of: parts[0], tail: String(parts.at(-1)) };
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
  decode,
  doneLease,
  encode,
  leaseKey,
  leaseNumber,
  levelOf,
  tailOf,
  textOf,
  valueOf,
};
