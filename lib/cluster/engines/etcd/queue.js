'use strict';

/**
 * The queue of a name, and who holds it: computed from the keys of its requests, by everybody
 * alike. Thieves come first, then requests by the revision that made them and, of one session, by
 * `ref`; as many from the head on hold the name as adapter.js says. So a grant is nothing that is
 * written.
 */

const { textOf, valueOf } = require('./keys.js');

/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */

/**
 * @typedef {object} KeyValue of the gateway: bytes are base64, numbers texts
 * @property {string} key
 * @property {string} [value]
 * @property {string} mod_revision
 * @property {string} [create_revision]
 * @property {string} [lease]
 */

/** @typedef {{ type?: 'PUT' | 'DELETE', kv: KeyValue }} WatchEvent */

/**
 * @typedef {object} Entry a request
 * @property {string} key
 * @property {string} name
 * @property {'a' | 'b' | 'c'} kind see keys.js
 * @property {string} lease
 * @property {number} ref
 * @property {number} limit
 * @property {number} weight
 * @property {string} label
 * @property {string} thief the client id of one who steals; '' if it is none
 * @property {number} created revision
 * @property {bigint} token 0n: it waits
 * @property {number} asked when, by the wall clock of who asked; NaN: not known
 * @property {number} granted when, on the monotonic clock; NaN: it waits, or that was not seen
 */

/**
 * @typedef {object} Asking what of a request decides
 * @property {'a' | 'b' | 'c'} kind
 * @property {number} limit
 * @property {number} weight
 */

/**
 * The specification's "process the lock request queue". This alone decides who holds a name.
 * @template {Asking} Request
 * @param {Iterable<Request>} queue
 * @param {boolean} isQuarantined
 * @returns {Generator<Request>} those that hold it, from the head on
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
 * @param {Iterable<Asking>} queue
 * @param {Asking} request
 * @param {boolean} [isQuarantined]
 * @returns {boolean} whether the request is held as the last one of that queue
 */
function isHeldBehind(queue, request, isQuarantined = false) {
  const all = function* all() {
    yield* queue;
    yield request;
  };
  for (const one of processTheLockRequestQueue(all(), isQuarantined)) {
    if (one === request) return true;
  }
  return false;
}

/** The requests of a name, in their order. */
class Queue {
  /** @type {Map<string, Entry>} */
  entries = new Map();
  /** How many from the head on hold it. */
  held = 0;

  /** @param {Entry} entry that was made last */
  add(entry) {
    const others = [...(entry.kind === 'a' ? this.entries.values() : [])];
    if (others.length > 0) this.entries.clear();
    this.entries.set(entry.key, entry);
    for (const other of others) this.entries.set(other.key, other);
  }

  /** @returns {Entry[]} */
  get holders() {
    return [...this.#first(this.held)];
  }

  /** @returns {Entry | undefined} the first that waits */
  get blocked() {
    return [...this.#first(this.held + 1)][this.held];
  }

  /**
   * @returns {Entry[]} the first that waits, and holders before it: as long as these are there it
   *   still waits, and so do those behind it; none: nobody waits
   */
  get obstacle() {
    const { blocked, holders } = this;
    if (!blocked) return [];
    let count = 0;
    while (count < holders.length && isHeldBehind(holders.slice(0, count), blocked)) count++;
    return [blocked, ...holders.slice(0, count)];
  }

  /** @param {number} count */
  *#first(count) {
    let left = count;
    for (const entry of this.entries.values()) {
      if (left-- <= 0) return;
      yield entry;
    }
  }

  /**
   * @param {Entry} entry that waits
   * @returns {number} how many wait before it
   */
  waitingBefore(entry) {
    let count = 0;
    for (const one of this.entries.values()) {
      if (one.key === entry.key) break;
      if (one.token === 0n) count++;
    }
    return count;
  }

  /**
   * @param {boolean} isQuarantined
   * @returns {Generator<Entry>} those that are held and were not
   */
  *process(isQuarantined) {
    this.held = 0;
    for (const entry of processTheLockRequestQueue(this.entries.values(), isQuarantined)) {
      this.held++;
      if (entry.token === 0n) yield entry;
    }
  }
}

/**
 * @param {string} key
 * @param {import('./keys.js').RequestKey} request
 * @param {KeyValue} kv
 * @returns {Entry} that waits so far
 */
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

/**
 * @param {Iterable<Entry>} entries in any order
 * @returns {Queue} that is not processed yet
 */
function queueOf(entries) {
  const queue = new Queue();
  const all = [...entries].sort((a, b) => a.created - b.created || a.ref - b.ref);
  for (const entry of all) queue.add(entry);
  return queue;
}

/**
 * @param {KeyValue[]} kvs of requests
 * @param {BucketKeys} keys
 * @returns {Entry[]}
 */
const entriesOf = (kvs, keys) =>
  kvs.flatMap((kv) => {
    const key = textOf(kv.key);
    const { request } = keys.parse(key);
    return request ? [entryOf(key, request, kv)] : [];
  });

/**
 * @param {KeyValue[]} kvs of requests of a name, as of a revision
 * @param {BucketKeys} keys
 * @param {bigint} token that the holder gets, unless it is known
 * @param {boolean} isQuarantined
 * @returns {Queue}
 */
function queueAsOf(kvs, keys, token, isQuarantined) {
  const queue = queueOf(entriesOf(kvs, keys));
  for (const entry of queue.process(isQuarantined)) entry.token = token;
  return queue;
}

module.exports = { Queue, entriesOf, isHeldBehind, queueAsOf, queueOf };
