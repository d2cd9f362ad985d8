'use strict';

/**
 * What a session knows of its bucket: its own requests, and the queues of the names that it
 * follows.
 *
 * Nothing is known of a name that is free: the transaction that asks for it tells who holds it.
 * A name that one waits for is *followed*: its queue is read once, when a watch of it has begun
 * (streams.js), and then kept by the events of that watch, in their order. Those of another watch
 * say nothing: it may be ahead of this one, and what it has left behind would be missed.
 *
 * A lock's token is the revision at which it came to be held (more what life.js adds): that of its
 * own creation, or of the end of what was in its way. Where that is not known, because the name was
 * not watched then, it is the revision that was read: greater, and less than that of any grant that
 * comes after.
 *
 * Of what is held, only what is written for this session is watched: a thief writes the theft
 * there, in the same transaction, and the end of a lease ends the session's key.
 */

const { now } = require('../../../platform/intrinsics.js');
const { textOf, valueOf } = require('./keys.js');
const { Queue, entriesOf, queueOf } = require('./queue.js');
const { Slots } = require('./slots.js');

/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {import('./queue.js').Entry} Entry */
/** @typedef {import('./queue.js').KeyValue} KeyValue */
/** @typedef {import('./queue.js').WatchEvent} WatchEvent */

/**
 * @typedef {object} News of the own session; told when all of an answer was taken in
 * @property {(entry: Entry) => void} granted
 * @property {(ref: number, thief: string) => void} stolen
 * @property {(ref: number) => void} gone a request that waited was ended, by whomever
 * @property {() => void} freed a quarantine is over: all queues have to be read again
 * @property {() => void} dead the session was ended
 */

/**
 * @typedef {object} Followed a name
 * @property {InstanceType<typeof Queue>} queue
 * @property {unknown} source the stream that tells of it
 * @property {number} revision until which all is known
 * @property {boolean} isLive whether that is so; if not, the queue is yet to be read
 * @property {{ events: WatchEvent[], revision: number }[]} early came before it was read
 * @property {number} since the number of the last renewal when somebody here waited for it
 */

class Mirror {
  /** The lease of a quarantine. @type {string | undefined} */
  quarantine;
  /** The revision at which it ended. */
  freed = 0;
  /** Added to a revision it is a token. */
  offset = 0n;
  /**
   * Requests of the own session, by `ref`: all that are at etcd, but for those of a transaction
   * that is under way, or in doubt. Only `forget` takes one off.
   * @type {Map<number, Entry>}
   */
  mine = new Map();
  /** Of the keys of its requests. */
  slots = new Slots();
  /** Thefts whose keys are still there: who, by `ref`. @type {Map<number, string>} */
  thefts = new Map();
  #keys;
  #lease;
  #news;
  /** By what their keys begin with. @type {Map<string, Followed>} */
  #followed = new Map();
  #renewals = 0;
  /** @type {{ isOver: () => boolean, resolve: () => void, reject: (error: unknown) => void }[]} */
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

  get isQuarantined() {
    return this.quarantine !== undefined;
  }

  /** @param {number} revision */
  wasQuarantined(revision) {
    return this.isQuarantined || revision < this.freed;
  }

  /** @param {number | string} revision */
  tokenOf(revision) {
    return BigInt(revision) + this.offset;
  }

  // Names.

  /**
   * @param {string} name
   * @returns {InstanceType<typeof Queue> | undefined} undefined: its queue is not known
   */
  queue(name) {
    const followed = this.#followed.get(this.#keys.queue(name));
    return followed?.isLive ? followed.queue : undefined;
  }

  /** @returns {Set<string>} what the keys of all names begin with that somebody here waits for */
  get wanted() {
    const wanted = new Set();
    for (const { name, token } of this.mine.values()) {
      if (token === 0n) wanted.add(this.#keys.queue(name));
    }
    return wanted;
  }

  /** @returns {string[]} what the keys of all names begin with that are followed */
  get followed() {
    return [...this.#followed.keys()];
  }

  /**
   * Nothing is known of it before its queue is read.
   * @param {string} prefix of its keys
   * @param {unknown} [source] the stream that tells of it from now on
   */
  follow(prefix, source) {
    const { queue = new Queue(), revision = 0, since = 0 } = this.#followed.get(prefix) ?? {};
    this.#followed.set(prefix, { queue, source, revision, isLive: false, early: [], since });
  }

  /** Names that nobody here has waited for between two renewals are followed no more. */
  prune() {
    const { wanted } = this;
    const renewal = ++this.#renewals;
    for (const [prefix, followed] of this.#followed) {
      if (followed.since === 0 || wanted.has(prefix)) followed.since = renewal;
      else if (renewal - followed.since > 1) this.#followed.delete(prefix);
    }
    // Whoever waits for one of those has to look it up.
    this.#wake();
  }

  /**
   * @param {Entry} entry of the session, which was made
   * @returns {Entry} the one that follows what becomes of it: the watch may have told of it before,
   *   or not even of the end of the one that had its key
   */
  own(entry) {
    // Also of a queue that is to be read again: it may have been heard before that it is held.
    const { queue } = this.#followed.get(this.#keys.queue(entry.name)) ?? {};
    const seen = queue?.entries.get(entry.key);
    const own = seen?.created === entry.created ? seen : entry;
    this.mine.set(own.ref, own);
    return own;
  }

  /** @param {number} ref of a request of the session that is not at etcd any more, for certain */
  forget(ref) {
    this.mine.delete(ref);
    this.slots.free(ref);
  }

  /**
   * Takes in who holds names by a transaction of the session. A watch that begins later would tell
   * it with the token of then, which is greater than those of what was granted behind it.
   * @param {Iterable<InstanceType<typeof Queue>>} queues as of the transaction
   */
  found(queues) {
    /** @type {(() => void)[]} */
    const news = [];
    for (const { holders } of queues) {
      for (const { key, lease, ref, token } of holders) {
        const own = lease === this.#lease ? this.mine.get(ref) : undefined;
        if (own?.key === key && own.token === 0n) this.#hold(own, token, now(), news);
      }
    }
    for (const tell of news) tell();
  }

  /** What comes now is not taken in before all queues are read again. */
  suspend() {
    for (const followed of this.#followed.values()) followed.isLive = false;
  }

  /**
   * @param {string} name that is followed, and was changed
   * @param {number} revision
   * @returns {Promise<void>} settles when all is known that happened to it until then
   */
  async reached(name, revision) {
    const prefix = this.#keys.queue(name);
    await this.#until(() => {
      const followed = this.#followed.get(prefix);
      return !followed || (followed.isLive && followed.revision >= revision);
    });
  }

  /**
   * @returns {Promise<void>} settles when the queues of all names are known that a request here
   *   waits for, as they were when it began to
   */
  async known() {
    const waiting = [...this.mine.values()].filter(({ token }) => token === 0n);
    await Promise.all(waiting.map(({ created, name }) => this.reached(name, created)));
  }

  /**
   * @returns {Entry[]} while these are there, no request here is granted, as far as it is known; in
   *   a quarantine none is granted anyhow
   */
  get obstacles() {
    if (this.isQuarantined) return [];
    return [...this.wanted].flatMap((prefix) => this.#followed.get(prefix)?.queue.obstacle ?? []);
  }

  /**
   * @param {Entry} obstacle that is not there any more
   * @returns {Promise<void>} settles when that is known
   */
  async ended({ created, key, name }) {
    const prefix = this.#keys.queue(name);
    await this.#until(
      () => this.#followed.get(prefix)?.queue.entries.get(key)?.created !== created,
    );
  }

  /** @param {() => boolean} isOver */
  async #until(isOver) {
    if (isOver()) return;
    /** @type {Promise<void>} */
    const over = new Promise((resolve, reject) => {
      this.#waiting.push({ isOver, resolve, reject });
    });
    await over;
  }

  /**
   * The watches are gone: nobody waits for them any more.
   * @param {unknown} error
   */
  hangUp(error) {
    this.suspend();
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { reject } of waiting) reject(error);
  }

  #wake() {
    const waiting = this.#waiting;
    this.#waiting = waiting.filter(({ isOver }) => !isOver());
    for (const { isOver, resolve } of waiting) if (isOver()) resolve();
  }

  /**
   * Takes in the queue of a name that is followed, read after its watch has begun.
   * @param {string} prefix of its keys
   * @param {KeyValue[]} kvs
   * @param {number} revision at which it was read
   * @param {unknown} [source] the stream for which it was read
   * @returns {boolean} false: it has to be read again
   */
  load(prefix, kvs, revision, source) {
    return this.loadAll(new Map([[prefix, kvs]]), revision, source).length === 0;
  }

  /**
   * As `load`, of several: what they have in common is looked at once.
   * @param {Map<string, KeyValue[]>} found by what the keys of a name begin with
   * @param {number} revision
   * @param {unknown} [source]
   * @returns {string[]} what has to be read again
   */
  loadAll(found, revision, source) {
    /** @type {(() => void)[]} */
    const news = [];
    const waiting = this.#waitingUntil(revision);
    const again = [...found].filter(
      ([prefix, kvs]) =>
        !this.#load(prefix, kvs, revision, source, waiting.get(prefix) ?? [], news),
    );
    this.#wake();
    for (const tell of news) tell();
    return again.map(([prefix]) => prefix);
  }

  /**
   * @param {number} revision
   * @returns {Map<string, Entry[]>} own requests that were made until then and wait, by what the
   *   keys of their names begin with
   */
  #waitingUntil(revision) {
    /** @type {Map<string, Entry[]>} */
    const waiting = new Map();
    for (const entry of this.mine.values()) {
      if (entry.token !== 0n || entry.created > revision) continue;
      const prefix = this.#keys.queue(entry.name);
      const some = waiting.get(prefix);
      if (some) some.push(entry);
      else waiting.set(prefix, [entry]);
    }
    return waiting;
  }

  /**
   * @param {string} prefix
   * @param {KeyValue[]} kvs
   * @param {number} revision
   * @param {unknown} source
   * @param {Entry[]} waiting own requests that were made until then
   * @param {(() => void)[]} news
   */
  #load(prefix, kvs, revision, source, waiting, news) {
    const followed = this.#followed.get(prefix);
    if (!followed || followed.source !== source) return true;
    if (followed.isLive && followed.revision >= revision) return true;
    // As of a time before the end of a quarantine nobody could know who is granted what by it.
    if (revision < this.freed) return false;
    const before = followed.queue.entries;
    const entries = entriesOf(kvs, this.#keys).map((entry) => this.#known(entry, before));
    followed.queue = queueOf(entries);
    followed.revision = revision;
    followed.isLive = true;
    for (const entry of waiting) {
      if (!followed.queue.entries.has(entry.key)) this.#gone(entry, news);
    }
    this.#process(followed, news, Number.NaN);
    const { early } = followed;
    followed.early = [];
    for (const one of early) this.#change(followed, one.events, one.revision, news);
    return true;
  }

  /**
   * @param {Entry} entry
   * @param {Map<string, Entry>} before
   * @returns {Entry} the one that is known here already, if it is
   */
  #known(entry, before) {
    const own = this.mine.get(entry.ref);
    for (const one of [entry.lease === this.#lease ? own : undefined, before.get(entry.key)]) {
      if (one?.key === entry.key && one.created === entry.created) return one;
    }
    return entry;
  }

  // Events.

  /**
   * @param {WatchEvent[]} events in their order; of a name all or none of a revision
   * @param {unknown} [source] the stream that they come by
   */
  apply(events, source) {
    /** @type {(() => void)[]} */
    const news = [];
    for (const some of byRevision(events)) {
      /** @type {Map<string, WatchEvent[]>} */
      const changes = new Map();
      for (const event of some) {
        const { queue } = this.#keys.parse(textOf(event.kv.key));
        if (queue === undefined) this.#hear(event, news);
        else changes.set(queue, [...(changes.get(queue) ?? []), event]);
      }
      for (const [prefix, of] of changes) {
        const followed = this.#followed.get(prefix);
        if (!followed || followed.source !== source) continue;
        this.#change(followed, of, Number(of[0].kv.mod_revision), news);
      }
    }
    this.#wake();
    for (const tell of news) tell();
  }

  /**
   * @param {WatchEvent} event of no name
   * @param {(() => void)[]} news
   */
  #hear({ type, kv }, news) {
    const key = textOf(kv.key);
    const { ref = 0, what } = this.#keys.parse(key);
    const isEnd = type === 'DELETE';
    if (key === this.#keys.session(this.#lease) && isEnd) news.push(() => this.#news.dead());
    if (what === 'stolen' && !isEnd) this.#rob(ref, valueOf(String(kv.value)), news);
    if (key === this.#keys.quarantine && isEnd) this.#free(Number(kv.mod_revision), news);
  }

  /**
   * The quarantine is over.
   * @param {number} revision at which it was, at the latest
   */
  free(revision) {
    /** @type {(() => void)[]} */
    const news = [];
    this.#free(revision, news);
    for (const tell of news) tell();
  }

  /**
   * @param {number} revision
   * @param {(() => void)[]} news
   */
  #free(revision, news) {
    if (!this.isQuarantined) return;
    this.quarantine = undefined;
    this.freed = revision;
    this.suspend();
    news.push(() => this.#news.freed());
  }

  /**
   * @param {number} ref of a lock that was stolen
   * @param {string} thief
   * @param {(() => void)[]} news
   */
  #rob(ref, thief, news) {
    if (this.thefts.has(ref)) return;
    this.thefts.set(ref, thief);
    this.forget(ref);
    news.push(() => this.#news.stolen(ref, thief));
  }

  /**
   * @param {Followed} followed
   * @param {WatchEvent[]} events of one revision
   * @param {number} revision
   * @param {(() => void)[]} news
   */
  #change(followed, events, revision, news) {
    if (!followed.isLive) {
      followed.early.push({ events, revision });
      return;
    }
    // It was in the queue already when that was read.
    if (revision <= followed.revision) return;
    followed.revision = revision;
    const { entries } = followed.queue;
    const gone = events.flatMap(({ type, kv }) => {
      const entry = type === 'DELETE' ? entries.get(textOf(kv.key)) : undefined;
      return entry ? [entry] : [];
    });
    for (const { key } of gone) entries.delete(key);
    const made = entriesOf(
      events.flatMap(({ type, kv }) => (type === 'DELETE' ? [] : [kv])),
      this.#keys,
    );
    made.sort((a, b) => a.ref - b.ref);
    for (const entry of made) {
      if (!entries.has(entry.key)) followed.queue.add(this.#known(entry, entries));
    }
    const theft = made.find(({ kind }) => kind === 'a');
    for (const entry of gone) {
      if (!this.#isMine(entry)) continue;
      // It is told of what is written for the session, too, but that may come after the next grant.
      if (theft && entry.token > 0n) this.#rob(entry.ref, theft.thief, news);
      else this.#gone(entry, news);
    }
    this.#process(followed, news, now());
  }

  /** @param {Entry} entry */
  #isMine(entry) {
    return entry.lease === this.#lease && this.mine.get(entry.ref)?.key === entry.key;
  }

  /**
   * @param {Entry} entry
   * @param {(() => void)[]} news
   */
  #gone({ ref }, news) {
    this.forget(ref);
    news.push(() => this.#news.gone(ref));
  }

  /**
   * @param {Followed} followed
   * @param {(() => void)[]} news
   * @param {number} time NaN: it is not known since when
   */
  #process({ queue, revision }, news, time) {
    for (const entry of queue.process(this.isQuarantined)) {
      this.#hold(entry, this.tokenOf(revision), time, news);
    }
  }

  /**
   * @param {Entry} entry
   * @param {bigint} token
   * @param {number} time when it came to be held; that of an own one is known: now
   * @param {(() => void)[]} news
   */
  #hold(entry, token, time, news) {
    const isOwn = entry.lease === this.#lease;
    entry.token = token;
    entry.granted = isOwn ? now() : time;
    if (isOwn) news.push(() => this.#news.granted(entry));
  }
}

/**
 * @param {WatchEvent[]} events in order
 * @returns {WatchEvent[][]} those of a revision together
 */
function byRevision(events) {
  /** @type {WatchEvent[][]} */
  const groups = [];
  let last = '';
  for (const event of events) {
    const { mod_revision: revision } = event.kv;
    if (revision === last) groups[groups.length - 1].push(event);
    else groups.push([event]);
    last = revision;
  }
  return groups;
}

module.exports = { Mirror };
