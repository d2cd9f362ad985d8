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
const { groupBy } = require('./lists.js');
const { OwnRequests } = require('./own-requests.js');
const { Queue, entriesOf, queueOf } = require('./queue.js');
const { Waits } = require('./waits.js');

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

class QueueCache extends OwnRequests {
  /** The lease of the quarantine's key. @type {string | undefined} */
  quarantine;
  /** The revision at which the quarantine ended. */
  quarantineEnd = 0;
  /** The difference between a token and its revision. */
  offset = 0n;
  #keys;
  #events;
  /** Calls of `#events`, until the whole response was applied. @type {(() => void)[]} */
  #notifications = [];
  /** The followed names, by the prefix of their keys. @type {Map<string, Followed>} */
  #followed = new Map();
  #renewals = 0;
  #waits = new Waits();

  /** @param {BucketKeys} keys @param {string} lease see `leaseKey` @param {CacheEvents} events */
  constructor(keys, lease, events) {
    super(keys, lease);
    this.#keys = keys;
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
      if (this.isMine(entry) && entry.token === 0n) return false;
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
    this.#waits.check();
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
    this.#waits.check();
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

  /**
   * Applies grants that a transaction of the session has read. Otherwise such a lock would get its
   * token only when a watch has begun and the queue is read again. Locks that were granted in
   * between could have smaller tokens.
   * @param {Iterable<InstanceType<typeof Queue>>} queues after the transaction
   */
  applyGrants(queues) {
    for (const { holders } of queues) {
      for (const holder of holders) {
        const own = this.isMine(holder) ? this.mine.get(holder.ref) : undefined;
        if (own?.token === 0n) this.#grant(own, holder.token, now());
      }
    }
    this.#emit();
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
    await this.#waits.until(() => {
      const followed = this.#followed.get(prefix);
      return !followed || (followed.isLive && followed.revision >= revision);
    });
  }

  /** Resolves when the cached queues contain all waiting requests of this session. */
  async waitForOwn() {
    await Promise.all(this.waiting.map(({ created, name }) => this.waitForRevision(name, created)));
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
    await this.#waits.until(
      () => this.#followed.get(prefix)?.queue.entries.get(key)?.created !== created,
    );
  }

  /**
   * Suspends the queues and rejects all waits, because the watches have ended.
   * @param {unknown} error
   */
  rejectWaits(error) {
    this.suspend();
    this.#waits.reject(error);
  }

  /**
   * Stores queues that were read after their watches began, and returns the prefixes of those that
   * have to be read again.
   * @param {Map<string, KeyValue[]>} found @param {number} revision of the read
   * @param {unknown} [source] the stream for which they were read
   */
  loadAll(found, revision, source) {
    const waiting = this.waitingUntil(revision);
    const again = [...found].filter(
      ([prefix, kvs]) => !this.#load(prefix, kvs, revision, source, waiting.get(prefix) ?? []),
    );
    this.#waits.check();
    this.#emit();
    return again.map(([prefix]) => prefix);
  }

  /**
   * Stores a queue if that is still needed; returns false if it has to be read again.
   * @param {string} prefix @param {KeyValue[]} kvs @param {number} revision @param {unknown} source
   * @param {Entry[]} waiting
   */
  #load(prefix, kvs, revision, source, waiting) {
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
      if (!followed.queue.entries.has(entry.key)) this.#handleGone(entry);
    }
    this.#process(followed, Number.NaN);
    const { early } = followed;
    followed.early = [];
    for (const one of early) this.#applyEvents(followed, one.events, one.revision);
    return true;
  }

  /**
   * The cached entry of the same request, which may have a token; otherwise `entry`.
   * @param {Entry} entry @param {Map<string, Entry>} before
   */
  #knownEntry(entry, before) {
    const own = this.mine.get(entry.ref);
    for (const one of [entry.lease === this.lease ? own : undefined, before.get(entry.key)]) {
      if (one?.key === entry.key && one.created === entry.created) return one;
    }
    return entry;
  }

  /**
   * @param {WatchEvent[]} events in order, complete for each name and revision
   * @param {unknown} [source] the stream that delivered them
   */
  apply(events, source) {
    for (const some of byRevision(events)) {
      const byQueue = groupBy(some, ({ kv }) => this.#keys.parse(textOf(kv.key)).queue);
      for (const event of byQueue.get(undefined) ?? []) this.#handleSessionEvent(event);
      for (const [prefix = '', of] of byQueue) {
        const followed = this.#followed.get(prefix);
        if (!followed || followed.source !== source) continue;
        this.#applyEvents(followed, of, Number(of[0].kv.mod_revision));
      }
    }
    this.#waits.check();
    this.#emit();
  }

  /** @param {WatchEvent} event of a key outside the queues */
  #handleSessionEvent({ type, kv }) {
    const key = textOf(kv.key);
    const { ref = 0, what } = this.#keys.parse(key);
    const isEnd = type === 'DELETE';
    if (key === this.#keys.session(this.lease) && isEnd) this.#notify(() => this.#events.dead());
    if (what === 'stolen' && !isEnd) this.#handleTheft(ref, valueOf(String(kv.value)));
    if (key === this.#keys.quarantine && isEnd) this.#clearQuarantine(Number(kv.mod_revision));
  }

  /** Ends the quarantine. @param {number} revision at which it was over */
  endQuarantine(revision) {
    this.#clearQuarantine(revision);
    this.#emit();
  }

  /**
   * Ends the quarantine, if there is one, and suspends the queues.
   * @param {number} revision
   */
  #clearQuarantine(revision) {
    if (!this.isQuarantined) return;
    this.quarantine = undefined;
    this.quarantineEnd = revision;
    this.suspend();
    this.#notify(() => this.#events.freed());
  }

  /** @param {number} ref @param {string} thief */
  #handleTheft(ref, thief) {
    if (this.thefts.has(ref)) return;
    this.thefts.set(ref, thief);
    this.forget(ref);
    this.#notify(() => this.#events.stolen(ref, thief));
  }

  /**
   * Applies events to a queue that is live; otherwise it keeps them until the queue is loaded.
   * @param {Followed} followed @param {WatchEvent[]} events of one revision
   * @param {number} revision
   */
  #applyEvents(followed, events, revision) {
    if (!followed.isLive) {
      followed.early.push({ events, revision });
      return;
    }
    // If the queue was read at this revision or a later one, it already includes the events.
    if (revision <= followed.revision) return;
    followed.revision = revision;
    const { queue } = followed;
    const deleted = events.filter(({ type }) => type === 'DELETE').map(({ kv }) => textOf(kv.key));
    const gone = deleted.flatMap((key) => queue.entries.get(key) ?? []);
    for (const key of deleted) queue.delete(key);
    const put = events.filter(({ type }) => type !== 'DELETE').map(({ kv }) => kv);
    const made = entriesOf(put, this.#keys).sort((a, b) => a.ref - b.ref);
    for (const entry of made) {
      if (!queue.entries.has(entry.key)) queue.add(this.#knownEntry(entry, queue.entries));
    }
    const theft = made.find(({ kind }) => kind === 'a');
    for (const entry of gone) {
      if (!this.isMine(entry)) continue;
      // The thief's notice may arrive after the next grant, so the theft is handled now.
      if (theft && entry.token > 0n) this.#handleTheft(entry.ref, theft.thief);
      else this.#handleGone(entry);
    }
    this.#process(followed, now());
  }

  /** @param {Entry} entry */
  #handleGone({ ref }) {
    this.forget(ref);
    this.#notify(() => this.#events.gone(ref));
  }

  /** @param {Followed} followed @param {number} time of new grants; NaN if unknown */
  #process({ queue, revision }, time) {
    for (const entry of queue.takePassed(this.isQuarantined)) {
      if (!this.isMine(entry)) continue;
      this.notePass(entry);
      this.#notify(() => this.#events.passed(entry.ref));
    }
    for (const entry of queue.processQueue(this.isQuarantined)) {
      this.#grant(entry, this.tokenOf(revision), time);
    }
  }

  /**
   * @param {Entry} entry @param {bigint} token
   * @param {number} time of the grant; an own request counts as granted now
   */
  #grant(entry, token, time) {
    const isOwn = entry.lease === this.lease;
    entry.token = token;
    entry.granted = isOwn ? now() : time;
    if (isOwn) this.#notify(() => this.#events.granted(entry));
  }

  /** @param {() => void} event */
  #notify(event) {
    this.#notifications.push(event);
  }

  #emit() {
    for (const notify of this.#notifications.splice(0)) notify();
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
