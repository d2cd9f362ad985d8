'use strict';

/**
 * What is in a bucket, as of a revision of etcd: all its queues, sessions, and who holds what. It
 * is read once, and then follows the events of a watch, in their order. Who holds a name is
 * computed from its queue, by everybody alike: thieves come first, then requests by the revision
 * that made them and, of one session, by `ref`; as many from the head on hold the name as
 * adapter.js says. So a grant is nothing that is written.
 *
 * A lock's token is the revision at which it came to be held (more what life.js adds): that of its
 * own creation, or of the end of what was in its way. Where that is not known, because the watch
 * had to be begun anew, it is the revision that was read: greater, and less than that of any grant
 * that comes after.
 */

const { now } = require('../../../platform/intrinsics.js');
const { after, textOf, valueOf } = require('./keys.js');

/** @typedef {import('../../adapter.js').RequestOp} RequestOp */
/** @typedef {import('../../adapter.js').SessionInfo} SessionInfo */
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
 * @property {number} created revision
 * @property {bigint} token 0n: it waits
 * @property {number} asked when, by the wall clock of who asked; NaN: not known
 * @property {number} granted when, on the monotonic clock; NaN: before we saw it
 */

/**
 * @typedef {object} News of the own session; told when all of an answer was taken in
 * @property {(ref: number) => void} made a request is there; told at once
 * @property {(ref: number, token: bigint) => void} granted
 * @property {(ref: number, thief: string) => void} stolen
 * @property {(ref: number) => void} gone a request was ended, by whomever
 * @property {() => void} dead the session was ended
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

  /**
   * @param {Asking} request
   * @param {boolean} isQuarantined
   * @returns {boolean} whether it would be held at once, as the last one
   */
  fits(request, isQuarantined) {
    return isHeldBehind(this.entries.values(), request, isQuarantined);
  }

  /** @returns {number | undefined} that of the shared requests, all of which have the same */
  get limit() {
    for (const { kind, limit } of this.entries.values()) if (kind === 'c') return limit;
    return undefined;
  }

  get pending() {
    return this.entries.size - this.held;
  }

  /** @returns {Entry[]} */
  get holders() {
    return [...this.#first(this.held)];
  }

  /** @returns {Entry | undefined} the first that waits */
  get blocked() {
    return [...this.#first(this.held + 1)][this.held];
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
      if (one === entry) break;
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

class Mirror {
  /** All that happened until then is known. */
  revision = 0;
  /** How often all was read: what happened before the last time may not have been told. */
  loads = 0;
  /** The lease of a quarantine. @type {string | undefined} */
  quarantine;
  /** Added to a revision it is a token. */
  offset = 0n;
  /** Requests of the own session, by `ref`. @type {Map<number, Entry>} */
  mine = new Map();
  #keys;
  #lease;
  #news;
  /** @type {Map<string, Queue>} */
  #queues = new Map();
  /** @type {Map<string, Entry>} */
  #entries = new Map();
  /** By lease. @type {Map<string, SessionInfo>} */
  #sessions = new Map();
  /** @type {{ revision: number, resolve: () => void, reject: (error: unknown) => void }[]} */
  #waiting = [];

  /**
   * @param {BucketKeys} keys
   * @param {string} lease of the own session, as in keys
   * @param {News} news
   */
  constructor(keys, lease, news) {
    this.#keys = keys;
    this.#lease = lease;
    this.#news = news;
  }

  /** Of the keys of a bucket. */
  get range() {
    const { prefix } = this.#keys;
    return { key: prefix, end: after(prefix) };
  }

  /**
   * @param {string} name
   * @returns {Queue} empty if there is none
   */
  queue(name) {
    return this.#queues.get(name) ?? new Queue();
  }

  get isQuarantined() {
    return this.quarantine !== undefined;
  }

  get queues() {
    return this.#queues.keys();
  }

  /**
   * @param {string} lease
   * @returns {SessionInfo | undefined}
   */
  session(lease) {
    return this.#sessions.get(lease);
  }

  /**
   * @param {number} revision
   * @returns {Promise<void>} settles when all is known that happened until then
   */
  async reached(revision) {
    if (this.revision >= revision) return;
    /** @type {Promise<void>} */
    const reached = new Promise((resolve, reject) => {
      this.#waiting.push({ revision, resolve, reject });
    });
    await reached;
  }

  /**
   * The watch is gone: nobody waits for it any more.
   * @param {unknown} error
   */
  hangUp(error) {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { reject } of waiting) reject(error);
  }

  /**
   * Takes in all that there is. Nothing is told.
   * @param {KeyValue[]} all keys of the bucket
   * @param {number} revision at which they were read
   */
  load(all, revision) {
    const before = this.#entries;
    this.#queues = new Map();
    this.#entries = new Map();
    this.#sessions = new Map();
    this.mine = new Map();
    this.quarantine = undefined;
    this.loads++;
    const events = all.map((kv) => ({ kv }));
    events.sort((a, b) => Number(a.kv.create_revision) - Number(b.kv.create_revision));
    for (const made of byRevision(events, (kv) => Number(kv.create_revision))) this.#put(made);
    for (const queue of this.#queues.values()) {
      for (const entry of queue.process(this.isQuarantined)) {
        const known = before.get(entry.key);
        const isKnown = known?.created === entry.created && known.token > 0n;
        this.#grant(entry, isKnown ? known.token : this.#tokenOf(revision));
        entry.granted = isKnown ? known.granted : Number.NaN;
      }
    }
    this.#isAt(revision);
  }

  /** @param {WatchEvent[]} events in their order; all or none of a revision */
  apply(events) {
    /** @type {(() => void)[]} */
    const news = [];
    let last = this.revision;
    for (const some of byRevision(events, (kv) => Number(kv.mod_revision))) {
      last = Number(some[0].kv.mod_revision);
      // What is known already comes again if a watch began too early.
      if (last > this.revision) this.#change(some, last, news);
    }
    this.#isAt(Math.max(last, this.revision));
    for (const tell of news) tell();
  }

  /** @param {number} revision */
  #isAt(revision) {
    this.revision = revision;
    const waiting = this.#waiting;
    this.#waiting = waiting.filter((one) => one.revision > revision);
    for (const one of waiting) if (one.revision <= revision) one.resolve();
  }

  /**
   * @param {WatchEvent[]} events of one revision
   * @param {number} revision
   * @param {(() => void)[]} news
   */
  #change(events, revision, news) {
    const wasQuarantined = this.isQuarantined;
    const gone = events.filter(({ type }) => type === 'DELETE').map(({ kv }) => this.#delete(kv));
    const made = this.#put(events.filter(({ type }) => type !== 'DELETE'));
    const names = new Set();
    for (const entry of [...gone, ...made]) if (entry) names.add(entry.name);
    if (wasQuarantined !== this.isQuarantined) for (const name of this.queues) names.add(name);
    for (const { lease, ref } of made) if (lease === this.#lease) this.#news.made(ref);
    for (const entry of gone) {
      if (entry?.lease !== this.#lease) continue;
      const thief = made.find(({ kind, name }) => kind === 'a' && name === entry.name);
      const { clientId = '' } = (thief && this.#sessions.get(thief.lease)) ?? {};
      if (thief && entry.token > 0n) news.push(() => this.#news.stolen(entry.ref, clientId));
      else news.push(() => this.#news.gone(entry.ref));
    }
    for (const name of names) {
      const queue = this.queue(name);
      for (const entry of queue.process(this.isQuarantined)) {
        this.#grant(entry, this.#tokenOf(revision));
        const { lease, ref, token } = entry;
        if (lease === this.#lease) news.push(() => this.#news.granted(ref, token));
      }
      if (queue.entries.size === 0) this.#queues.delete(name);
    }
    const session = this.#keys.session(this.#lease);
    const isDead = events.some(({ type, kv }) => type === 'DELETE' && textOf(kv.key) === session);
    if (isDead) news.push(() => this.#news.dead());
  }

  /** @param {number} revision */
  #tokenOf(revision) {
    return BigInt(revision) + this.offset;
  }

  /**
   * @param {Entry} entry
   * @param {bigint} token
   */
  #grant(entry, token) {
    entry.token = token;
    entry.granted = now();
  }

  /**
   * @param {WatchEvent[]} events of one revision
   * @returns {Entry[]} that are new
   */
  #put(events) {
    const made = [];
    for (const { kv } of events) {
      const key = textOf(kv.key);
      const { type, lease, request } = this.#keys.parse(key);
      if (type === 's') this.#sessions.set(lease, valueOf(String(kv.value)));
      if (key === this.#keys.quarantine) this.quarantine = String(kv.lease);
      if (request && !this.#entries.has(key)) made.push(entryOf(key, request, kv));
    }
    made.sort((a, b) => a.ref - b.ref);
    for (const entry of made) {
      const queue = this.queue(entry.name);
      queue.add(entry);
      this.#queues.set(entry.name, queue);
      this.#entries.set(entry.key, entry);
      if (entry.lease === this.#lease) this.mine.set(entry.ref, entry);
    }
    return made;
  }

  /**
   * @param {KeyValue} kv
   * @returns {Entry | undefined}
   */
  #delete(kv) {
    const key = textOf(kv.key);
    const { type, lease } = this.#keys.parse(key);
    if (type === 's') this.#sessions.delete(lease);
    if (key === this.#keys.quarantine) this.quarantine = undefined;
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    this.queue(entry.name).entries.delete(key);
    if (entry.lease === this.#lease) this.mine.delete(entry.ref);
    return entry;
  }
}

/**
 * @param {string} key
 * @param {import('./keys.js').RequestKey} request
 * @param {KeyValue} kv
 * @returns {Entry}
 */
function entryOf(key, { kind, lease, limit, name, ref }, kv) {
  const { weight, label, asked = Number.NaN, name: longName } = valueOf(String(kv.value));
  const created = Number(kv.create_revision);
  return {
    ...{ key, kind, lease, limit, ref, weight, label, created, asked },
    name: name ?? longName,
    token: 0n,
    granted: 0,
  };
}

/**
 * @param {WatchEvent[]} events in order
 * @param {(kv: KeyValue) => number} revisionOf
 * @returns {WatchEvent[][]} those of a revision together
 */
function byRevision(events, revisionOf) {
  /** @type {WatchEvent[][]} */
  const groups = [];
  let last = -1;
  for (const event of events) {
    const revision = revisionOf(event.kv);
    if (revision === last) groups[groups.length - 1].push(event);
    else groups.push([event]);
    last = revision;
  }
  return groups;
}

module.exports = { Mirror, Queue, isHeldBehind };
