'use strict';

/**
 * The session's cache of its bucket: its own requests, and the queues of the names that it
 * *follows*, which are the names that it waits for or waited for lately. A queue is read after a
 * watch of it has begun (streams.js). Then only the events of that watch update it: another watch
 * may be ahead, and would hide events that the queue's watch has not delivered yet. A lock's token
 * is the revision at which it became held, plus the epoch's offset (epoch.js). If the session did
 * not see that revision, it takes the revision at which it read the queue. That one is greater, but
 * less than the revision of any grant after the read. Held locks need no watch: the transaction of
 * a thief also writes a notice for this session, and the end of the lease deletes the session's
 * key.
 */

const { now } = require('../../../platform/intrinsics.js');
const { textOf, valueOf } = require('./keys.js');
const { Queue, entriesOf, queueOf } = require('./queue.js');
const { Slots } = require('./slots.js');

/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @import { Entry, KeyValue, WatchEvent } from './queue.js' */

/**
 * @typedef {object} CacheEvents events of the session, emitted after a whole response was applied
 * @property {(entry: Entry) => void} granted
 * @property {(ref: number, thief: string) => void} stolen
 * @property {(ref: number) => void} passed
 * @property {(ref: number) => void} gone somebody deleted a waiting request
 * @property {() => void} freed the quarantine ended, so all queues must be read again
 * @property {() => void} dead the session ended
 */

/**
 * @typedef {object} Followed a name that the session follows
 * @property {InstanceType<typeof Queue>} queue
 * @property {unknown} source the stream that updates it
 * @property {number} revision up to which the queue is complete
 * @property {boolean} isLive whether the queue was read
 * @property {{ events: WatchEvent[], revision: number }[]} early events that arrived before the
 *   read
 * @property {number} since the number of the last renewal at which this session waited for the
 *   name; 0 before the first renewal
 */

class QueueCache {
  /** The lease of the quarantine's key. @type {string | undefined} */
  quarantine;
  /** The revision at which the quarantine ended. */
  quarantineEnd = 0;
  /** The difference between a token and its revision. */
  offset = 0n;
  /**
   * The session's requests in etcd, by `ref`, without the requests of a transaction that is under
   * way or whose outcome is unknown. Only `forget` and `#handlePass` remove one.
   * @type {Map<number, Entry>}
   */
  mine = new Map();
  slots = new Slots();
  /**
   * By `ref`: the thief of each stolen lock whose notice is still in etcd; '' for a request that
   * has passed and was not reported yet.
   * @type {Map<number, string>}
   */
  thefts = new Map();
  /** The `ref`s of own locks whose data may be in etcd. @type {Set<number>} */
  published = new Set();
  /** Own requests that have passed, until their keys are deleted. @type {Map<number, Entry>} */
  passed = new Map();
  #keys;
  #lease;
  #events;
  /** The followed names, by the prefix of their keys. @type {Map<string, Followed>} */
  #followed = new Map();
  #renewals = 0;
  /** @type {{ isOver: () => boolean, resolve: () => void, reject: (error: unknown) => void }[]} */
  #waiting = [];

  /** @param {BucketKeys} keys @param {string} lease see `leaseKey` @param {CacheEvents} events */
  constructor(keys, lease, events) {
    this.#keys = keys;
    this.#lease = lease;
    this.#events = events;
  }

  get isQuarantined() {
    return this.quarantine !== undefined;
  }

  /**
   * True during a quarantine, and for all revisions before the end of the last one.
   * @param {number} revision
   */
  wasQuarantined(revision) {
    return this.isQuarantined || revision < this.quarantineEnd;
  }

  /** @param {number | string} revision */
  tokenOf(revision) {
    return BigInt(revision) + this.offset;
  }

  /** A name's queue; undefined if the session does not know it. @param {string} name */
  queue(name) {
    const followed = this.#followed.get(this.#keys.queue(name));
    return followed?.isLive ? followed.queue : undefined;
  }

  /** The prefixes of the names that this session waits for. */
  get wanted() {
    const wanted = new Set();
    for (const { name, token } of this.mine.values()) {
      if (token === 0n) wanted.add(this.#keys.queue(name));
    }
    return wanted;
  }

  /**
   * The only request of this session that waits for a name; undefined if none or several wait.
   * @param {string} prefix
   */
  onlyWaiter(prefix) {
    let only;
    for (const entry of this.mine.values()) {
      if (entry.token !== 0n || this.#keys.queue(entry.name) !== prefix) continue;
      if (only) return undefined;
      only = entry;
    }
    return only;
  }

  /**
   * Whether at least `count` exclusive requests are ahead of the only request of this session that
   * waits for a name, as far as the queue is known.
   * @param {string} prefix @param {number} count
   */
  isFar(prefix, count) {
    const followed = this.#followed.get(prefix);
    if (!followed?.isLive) return false;
    let ahead = 0;
    for (const entry of followed.queue.entries.values()) {
      if (this.#isMine(entry) && entry.token === 0n) return false;
      if (entry.kind === 'b' && ++ahead >= count) return this.onlyWaiter(prefix) !== undefined;
    }
    return false;
  }

  /** The prefixes of the followed names. */
  get followed() {
    return [...this.#followed.keys()];
  }

  /** The caller must read the queue afterwards. @param {string} prefix @param {unknown} [source] */
  follow(prefix, source) {
    const { queue = new Queue(), revision = 0, since = 0 } = this.#followed.get(prefix) ?? {};
    this.#followed.set(prefix, { queue, source, revision, isLive: false, early: [], since });
  }

  /** Stops following a name. @param {string} prefix */
  unfollow(prefix) {
    this.#followed.delete(prefix);
    this.#resolveWaits();
  }

  /** Stops following names for which the session waited at neither this renewal nor the last. */
  prune() {
    const { wanted } = this;
    const renewal = ++this.#renewals;
    for (const [prefix, followed] of this.#followed) {
      if (followed.since === 0 || wanted.has(prefix)) followed.since = renewal;
      else if (renewal - followed.since > 1) this.#followed.delete(prefix);
    }
    // Callers that wait for these names stop waiting, and must read the queues instead.
    this.#resolveWaits();
  }

  /**
   * Adds a request that was written to etcd. If a watch has already delivered it, the entry of the
   * queue is added instead.
   * @param {Entry} entry
   */
  addOwn(entry) {
    // Even a queue that must be read again may know that the request is held.
    const { queue } = this.#followed.get(this.#keys.queue(entry.name)) ?? {};
    const seen = queue?.entries.get(entry.key);
    const own = seen?.created === entry.created ? seen : entry;
    this.mine.set(own.ref, own);
    return own;
  }

  /** Called when a step begins. Frees slots whose keys certainly do not exist in etcd. */
  beginStep() {
    this.slots.recycle({ has: (ref) => this.mine.has(ref) || this.passed.has(ref) });
  }

  /** Forgets passed requests, whose keys were deleted. @param {Iterable<number>} refs */
  dropPassed(refs) {
    for (const ref of refs) if (this.passed.delete(ref)) this.slots.free(ref);
  }

  /** Removes a request that certainly does not exist in etcd. @param {number} ref */
  forget(ref) {
    this.mine.delete(ref);
    this.slots.free(ref);
  }

  /**
   * Applies grants that a transaction of the session has read. Otherwise such a lock would get its
   * token only when a watch has begun and the queue is read again. Locks that were granted in
   * between could have smaller tokens.
   * @param {Iterable<InstanceType<typeof Queue>>} queues after the transaction
   */
  applyGrants(queues) {
    /** @type {(() => void)[]} */
    const notifications = [];
    for (const { holders } of queues) {
      for (const { key, lease, ref, token } of holders) {
        const own = lease === this.#lease ? this.mine.get(ref) : undefined;
        if (own?.key === key && own.token === 0n) this.#grant(own, token, now(), notifications);
      }
    }
    for (const notify of notifications) notify();
  }

  /** Holds events back until all queues have been read again. */
  suspend() {
    for (const followed of this.#followed.values()) followed.isLive = false;
  }

  /**
   * Resolves when the name's queue has reached a revision, or is no longer followed.
   * @param {string} name @param {number} revision
   */
  async waitForRevision(name, revision) {
    const prefix = this.#keys.queue(name);
    await this.#until(() => {
      const followed = this.#followed.get(prefix);
      return !followed || (followed.isLive && followed.revision >= revision);
    });
  }

  /** Resolves when the cached queues contain all waiting requests of this session. */
  async waitForOwn() {
    const waiting = [...this.mine.values()].filter(({ token }) => token === 0n);
    await Promise.all(waiting.map(({ created, name }) => this.waitForRevision(name, created)));
  }

  /** In each awaited queue, the first waiter and its blockers, which keep all waiters waiting. */
  get obstacles() {
    if (this.isQuarantined) return [];
    return [...this.wanted].flatMap(
      (prefix) => this.#followed.get(prefix)?.queue.firstWaiterAndBlockers ?? [],
    );
  }

  /** Resolves when the watch has delivered the end of a request. @param {Entry} request */
  async waitForEnd({ created, key, name }) {
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
   * Suspends the queues and rejects all waits, because the watches have ended.
   * @param {unknown} error
   */
  rejectWaits(error) {
    this.suspend();
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { reject } of waiting) reject(error);
  }

  #resolveWaits() {
    const waiting = this.#waiting;
    this.#waiting = waiting.filter(({ isOver }) => !isOver());
    for (const { isOver, resolve } of waiting) if (isOver()) resolve();
  }

  /**
   * Stores a queue that was read after its watch began; returns false if it has to be read again.
   * @param {string} prefix @param {KeyValue[]} kvs @param {number} revision of the read
   * @param {unknown} [source] the stream for which it was read
   */
  load(prefix, kvs, revision, source) {
    return this.loadAll(new Map([[prefix, kvs]]), revision, source).length === 0;
  }

  /**
   * Stores several queues as `load` does, and returns the prefixes that have to be read again.
   * @param {Map<string, KeyValue[]>} found @param {number} revision @param {unknown} [source]
   */
  loadAll(found, revision, source) {
    /** @type {(() => void)[]} */
    const notifications = [];
    const waiting = this.#waitingUntil(revision);
    const again = [...found].filter(
      ([prefix, kvs]) =>
        !this.#load(prefix, kvs, revision, source, waiting.get(prefix) ?? [], notifications),
    );
    this.#resolveWaits();
    for (const notify of notifications) notify();
    return again.map(([prefix]) => prefix);
  }

  /** The session's waiting requests that existed at a revision. @param {number} revision */
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
   * Stores a queue if that is still needed; returns false if it has to be read again.
   * @param {string} prefix @param {KeyValue[]} kvs @param {number} revision @param {unknown} source
   * @param {Entry[]} waiting @param {(() => void)[]} notifications
   */
  #load(prefix, kvs, revision, source, waiting, notifications) {
    const followed = this.#followed.get(prefix);
    if (!followed || followed.source !== source) return true;
    if (followed.isLive && followed.revision >= revision) return true;
    // A read from before the quarantine's end does not show the grants that this end caused.
    if (revision < this.quarantineEnd) return false;
    const before = followed.queue.entries;
    const entries = entriesOf(kvs, this.#keys).map((entry) => this.#knownEntry(entry, before));
    followed.queue = queueOf(entries);
    followed.revision = revision;
    followed.isLive = true;
    for (const entry of waiting) {
      if (!followed.queue.entries.has(entry.key)) this.#handleGone(entry, notifications);
    }
    this.#process(followed, notifications, Number.NaN);
    const { early } = followed;
    followed.early = [];
    for (const one of early) this.#applyEvents(followed, one.events, one.revision, notifications);
    return true;
  }

  /**
   * The cached entry of the same request, which may have a token; otherwise `entry`.
   * @param {Entry} entry @param {Map<string, Entry>} before
   */
  #knownEntry(entry, before) {
    const own = this.mine.get(entry.ref);
    for (const one of [entry.lease === this.#lease ? own : undefined, before.get(entry.key)]) {
      if (one?.key === entry.key && one.created === entry.created) return one;
    }
    return entry;
  }

  /**
   * @param {WatchEvent[]} events in order, complete for each name and revision
   * @param {unknown} [source] the stream that delivered them
   */
  apply(events, source) {
    /** @type {(() => void)[]} */
    const notifications = [];
    for (const some of byRevision(events)) {
      /** @type {Map<string, WatchEvent[]>} */
      const changes = new Map();
      for (const event of some) {
        const { queue } = this.#keys.parse(textOf(event.kv.key));
        if (queue === undefined) this.#handleSessionEvent(event, notifications);
        else changes.set(queue, [...(changes.get(queue) ?? []), event]);
      }
      for (const [prefix, of] of changes) {
        const followed = this.#followed.get(prefix);
        if (!followed || followed.source !== source) continue;
        this.#applyEvents(followed, of, Number(of[0].kv.mod_revision), notifications);
      }
    }
    this.#resolveWaits();
    for (const notify of notifications) notify();
  }

  /** @param {WatchEvent} event of a key outside the queues @param {(() => void)[]} notifications */
  #handleSessionEvent({ type, kv }, notifications) {
    const key = textOf(kv.key);
    const { ref = 0, what } = this.#keys.parse(key);
    const isEnd = type === 'DELETE';
    if (key === this.#keys.session(this.#lease) && isEnd)
      notifications.push(() => this.#events.dead());
    if (what === 'stolen' && !isEnd)
      this.#handleTheft(ref, valueOf(String(kv.value)), notifications);
    if (key === this.#keys.quarantine && isEnd)
      this.#clearQuarantine(Number(kv.mod_revision), notifications);
  }

  /** Ends the quarantine. @param {number} revision at which it was over */
  endQuarantine(revision) {
    /** @type {(() => void)[]} */
    const notifications = [];
    this.#clearQuarantine(revision, notifications);
    for (const notify of notifications) notify();
  }

  /**
   * Ends the quarantine, if there is one, and suspends the queues.
   * @param {number} revision @param {(() => void)[]} notifications
   */
  #clearQuarantine(revision, notifications) {
    if (!this.isQuarantined) return;
    this.quarantine = undefined;
    this.quarantineEnd = revision;
    this.suspend();
    notifications.push(() => this.#events.freed());
  }

  /** @param {number} ref @param {string} thief @param {(() => void)[]} notifications */
  #handleTheft(ref, thief, notifications) {
    if (this.thefts.has(ref)) return;
    this.thefts.set(ref, thief);
    this.forget(ref);
    notifications.push(() => this.#events.stolen(ref, thief));
  }

  /**
   * Applies events to a queue that is live; otherwise it keeps them until the queue is loaded.
   * @param {Followed} followed @param {WatchEvent[]} events of one revision
   * @param {number} revision @param {(() => void)[]} notifications
   */
  #applyEvents(followed, events, revision, notifications) {
    if (!followed.isLive) {
      followed.early.push({ events, revision });
      return;
    }
    // If the queue was read at this revision or a later one, it already includes the events.
    if (revision <= followed.revision) return;
    followed.revision = revision;
    const { entries } = followed.queue;
    const gone = events.flatMap(({ type, kv }) => {
      const entry = type === 'DELETE' ? entries.get(textOf(kv.key)) : undefined;
      return entry ? [entry] : [];
    });
    for (const { type, kv } of events) {
      if (type === 'DELETE') followed.queue.delete(textOf(kv.key));
    }
    const made = entriesOf(
      events.flatMap(({ type, kv }) => (type === 'DELETE' ? [] : [kv])),
      this.#keys,
    );
    made.sort((a, b) => a.ref - b.ref);
    for (const entry of made) {
      if (!entries.has(entry.key)) followed.queue.add(this.#knownEntry(entry, entries));
    }
    const theft = made.find(({ kind }) => kind === 'a');
    for (const entry of gone) {
      if (!this.#isMine(entry)) continue;
      // The thief's notice may arrive after the next grant, so the theft is handled now.
      if (theft && entry.token > 0n) this.#handleTheft(entry.ref, theft.thief, notifications);
      else this.#handleGone(entry, notifications);
    }
    this.#process(followed, notifications, now());
  }

  /** @param {Entry} entry */
  #isMine(entry) {
    return entry.lease === this.#lease && this.mine.get(entry.ref)?.key === entry.key;
  }

  /** @param {Entry} entry @param {(() => void)[]} notifications */
  #handleGone({ ref }, notifications) {
    this.forget(ref);
    notifications.push(() => this.#events.gone(ref));
  }

  /**
   * @param {Followed} followed @param {(() => void)[]} notifications
   * @param {number} time of new grants; NaN if unknown
   */
  #process({ queue, revision }, notifications, time) {
    for (const entry of queue.takePassed(this.isQuarantined)) {
      if (this.#isMine(entry)) this.#handlePass(entry, notifications);
    }
    for (const entry of queue.processQueue(this.isQuarantined)) {
      this.#grant(entry, this.tokenOf(revision), time, notifications);
    }
  }

  /** @param {Entry} entry @param {(() => void)[]} notifications */
  #handlePass(entry, notifications) {
    const { ref } = entry;
    this.mine.delete(ref);
    this.passed.set(ref, entry);
    this.thefts.set(ref, '');
    notifications.push(() => this.#events.passed(ref));
  }

  /**
   * @param {Entry} entry @param {bigint} token
   * @param {number} time of the grant; an own request counts as granted now
   * @param {(() => void)[]} notifications
   */
  #grant(entry, token, time, notifications) {
    const isOwn = entry.lease === this.#lease;
    entry.token = token;
    entry.granted = isOwn ? now() : time;
    if (isOwn) notifications.push(() => this.#events.granted(entry));
  }
}

/** Groups events by revision. @param {WatchEvent[]} events in order */
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

module.exports = { QueueCache };
