'use strict';

/**
 * The queue of a name and its holders. Every session computes them in the same way from the keys of
 * the requests, so a grant is never written. Thieves come first, the latest at the head. The other
 * requests are sorted by the revision that created them, and then by `ref`. A request that passes
 * leaves the queue when it is the first and nothing is held. From then on every session ignores its
 * key, so nobody has to wait until the session that made the request deletes the key.
 */

const { textOf, valueOf } = require('./keys.js');

/** @import { RequestKey } from './keys.js' */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */

/**
 * A key as the gateway sends it: bytes are in base64, and numbers are strings.
 * @typedef {{ key: string, value?: string, mod_revision: string, create_revision?: string,
 *   lease?: string }} KeyValue
 */

/** @typedef {{ type?: 'PUT' | 'DELETE', kv: KeyValue }} WatchEvent */

/**
 * @typedef {object} Entry a request
 * @property {string} key
 * @property {string} name
 * @property {'a' | 'b' | 'c' | 'p'} kind see keys.js
 * @property {string} lease
 * @property {number} ref
 * @property {number} limit
 * @property {number} weight
 * @property {string} label
 * @property {string} thief the client id of the requester if this request is a theft; '' otherwise
 * @property {number} created the revision that created the key
 * @property {bigint} token 0n while the request waits
 * @property {number} asked when the request was made, by the wall clock of its client; NaN if
 *   unknown
 * @property {number} granted when the request was granted, by our monotonic clock; NaN while it
 *   waits or if unknown
 */

/** @typedef {{ kind: 'a' | 'b' | 'c' | 'p', limit: number, weight: number }} Asking */

/**
 * § 4.4 "process the lock request queue", which yields the requests that hold the name:
 * https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue. The conditions
 * of plan.js decide `ifAvailable` and `steal` by the same rule.
 * @template {Asking} Request
 * @param {Iterable<Request>} queue @param {boolean} isQuarantined @returns {Generator<Request>}
 */
function* processTheLockRequestQueue(queue, isQuarantined) {
  /** @type {Request | undefined} */
  let first;
  let units = 0;
  for (const request of queue) {
    const { kind, limit, weight } = request;
    units += weight;
    const areShared = first?.kind === 'c' && kind === 'c' && (limit === 0 || units <= limit);
    if (isQuarantined || (first && !areShared)) return;
    first ??= request;
    yield request;
  }
}

/**
 * Whether a request would hold the name behind these holders.
 * @param {Asking[]} holders @param {Asking} request
 */
const isHeldBehind = (holders, request) =>
  [...processTheLockRequestQueue([...holders, request], false)].includes(request);

class Queue {
  /** @type {Map<string, Entry>} */
  entries = new Map();
  /** Requests that have passed, and whose keys may still exist. @type {Map<string, Entry>} */
  passed = new Map();
  /** How many requests at the head of the queue hold the name. */
  held = 0;

  /** Adds the latest request; a thief goes to the head. @param {Entry} entry */
  add(entry) {
    const others = [...(entry.kind === 'a' ? this.entries.values() : [])];
    if (others.length > 0) this.entries.clear();
    this.entries.set(entry.key, entry);
    for (const other of others) this.entries.set(other.key, other);
  }

  get holders() {
    return [...this.#first(this.held)];
  }

  /** The waiter that can be granted next; undefined if no request waits. */
  get firstWaiter() {
    return [...this.#first(this.held + 1)][this.held];
  }

  /** The first waiter and enough holders to block it. While these exist, no waiter is granted. */
  get firstWaiterAndBlockers() {
    const { firstWaiter, holders } = this;
    if (!firstWaiter) return [];
    let count = 0;
    while (count < holders.length && isHeldBehind(holders.slice(0, count), firstWaiter)) count++;
    return [firstWaiter, ...holders.slice(0, count)];
  }

  /** @param {number} count */
  *#first(count) {
    let left = count;
    for (const entry of this.entries.values()) {
      if (left-- <= 0) return;
      yield entry;
    }
  }

  /** How many requests wait ahead of a waiter. @param {Entry} entry */
  countWaitersAhead(entry) {
    let count = 0;
    for (const one of this.entries.values()) {
      if (one.key === entry.key) break;
      if (one.token === 0n) count++;
    }
    return count;
  }

  /** Removes a request whose key was deleted. @param {string} key */
  delete(key) {
    this.entries.delete(key);
    this.passed.delete(key);
  }

  /**
   * Removes the passing requests at the head of the queue, and returns them.
   * @param {boolean} isQuarantined if true, there are none
   */
  takePassed(isQuarantined) {
    const passed = [];
    for (const entry of isQuarantined ? [] : this.entries.values()) {
      if (entry.kind !== 'p') break;
      passed.push(entry);
    }
    for (const entry of passed) {
      this.entries.delete(entry.key);
      this.passed.set(entry.key, entry);
    }
    return passed;
  }

  /**
   * Counts the holders, and yields those without a token, which the caller must give them.
   * @param {boolean} isQuarantined
   */
  *processQueue(isQuarantined) {
    this.held = 0;
    for (const entry of processTheLockRequestQueue(this.entries.values(), isQuarantined)) {
      this.held++;
      if (entry.token === 0n) yield entry;
    }
  }
}

/** @param {string} key @param {RequestKey} request @param {KeyValue} kv @returns {Entry} */
function entryOf(key, { kind, lease, limit, name }, kv) {
  const {
    ref,
    weight,
    label,
    asked = Number.NaN,
    thief = '',
    ...value
  } = valueOf(String(kv.value));
  const created = Number(kv.create_revision);
  return {
    ...{ key, kind, lease, limit, ref, weight, label, thief, created, asked },
    name: name ?? value.name,
    token: 0n,
    granted: Number.NaN,
  };
}

/** Sorts entries into a queue that is not processed yet. @param {Iterable<Entry>} entries */
function queueOf(entries) {
  const queue = new Queue();
  const all = [...entries].sort((a, b) => a.created - b.created || a.ref - b.ref);
  for (const entry of all) queue.add(entry);
  return queue;
}

/** @param {KeyValue[]} kvs @param {BucketKeys} keys */
const entriesOf = (kvs, keys) =>
  kvs.flatMap((kv) => {
    const key = textOf(kv.key);
    const { request } = keys.parse(key);
    return request ? [entryOf(key, request, kv)] : [];
  });

/**
 * The queue of a name at one revision. Holders whose token is unknown get `token`.
 * @param {KeyValue[]} kvs @param {BucketKeys} keys @param {bigint} token
 * @param {boolean} isQuarantined
 */
function queueAsOf(kvs, keys, token, isQuarantined) {
  const queue = queueOf(entriesOf(kvs, keys));
  queue.takePassed(isQuarantined);
  for (const entry of queue.processQueue(isQuarantined)) entry.token = token;
  return queue;
}

module.exports = { Queue, entriesOf, queueAsOf, queueOf };
