'use strict';

/**
 * The watches of a connection. The first watch covers the keys written for this session, so a
 * session that waits for nothing is never woken by other sessions. Names are watched while the
 * session waits for them near the head (far-waits.js), and up to two renewals longer: a few names
 * have a stream each, and all others share one stream over all queues of the bucket. A watch of
 * names starts at the present revision, because etcd delivers past events only ten times a second.
 * The queues are read after their watch has begun, so no change is missed. Each renewal checks that
 * the watches work: the first watch must deliver the session's sync key, and the others must
 * deliver the deletions of requests that no longer block ours.
 */

const { watchEndedError } = require('./errors.js');
const { FarWaits } = require('./far-waits.js');
const { allWith, base64, range, textOf } = require('./keys.js');

/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./queue-cache.js').QueueCache>} Cache */
/** @import { Entry } from './queue.js' */

/** How many names can have a stream of their own. */
const MOST_STREAMS = 4;
const MOST_READS = 100;

/** Lets callers wait until the watch has delivered a revision of the session's keys. */
class DeliveryBarrier {
  #revision = 0;
  /** @type {{ revision: number, resolve: () => void, reject: (error: unknown) => void }[]} */
  #waiting = [];

  /** @param {number} revision */
  advance(revision) {
    this.#revision = Math.max(this.#revision, revision);
    const waiting = this.#waiting;
    this.#waiting = waiting.filter((one) => one.revision > this.#revision);
    for (const one of waiting) if (one.revision <= this.#revision) one.resolve();
  }

  /** @param {number} revision */
  async waitFor(revision) {
    if (this.#revision >= revision) return;
    /** @type {Promise<void>} */
    const waitFor = new Promise((resolve, reject) => {
      this.#waiting.push({ revision, resolve, reject });
    });
    await waitFor;
  }

  /** Rejects the waits under way. @param {unknown} error */
  end(error) {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { reject } of waiting) reject(error);
  }
}

/** A watch of one name, or of all names. */
class NameStream {
  /** The prefixes of the names that use this stream. @type {Set<string>} */
  prefixes = new Set();
  stop = () => {};
  /** Called once etcd has created the watch. From then on, the watch delivers every change. */
  onBegin = () => {};
  /** @type {Promise<void>} */
  begun = new Promise((resolve) => {
    this.onBegin = resolve;
  });
}

class Streams {
  deliveries = new DeliveryBarrier();
  #keys;
  #lease;
  #queueCache;
  #link;
  #fail;
  #near;
  /** Streams of single names. @type {Set<NameStream>} */
  #narrow = new Set();
  /** The stream that all other names share. @type {NameStream | undefined} */
  #wide;
  /** The stream of each prefix. @type {Map<string, NameStream>} */
  #streams = new Map();
  #farWaits;
  #stopSessionWatch = () => {};
  #stopQuarantine = () => {};
  #isOver = false;

  /**
   * @param {{ keys: BucketKeys, lease: string, queueCache: Cache, link: Link, near: number,
   *   fail: (error: unknown) => void }} parts `fail` is called when a watch breaks; for `near` see
   *   far-waits.js
   */
  constructor({ keys, lease, queueCache, link, near, fail }) {
    this.#keys = keys;
    this.#lease = lease;
    this.#queueCache = queueCache;
    this.#link = link;
    this.#fail = fail;
    this.#near = near;
    const onNear = () => this.#watchNames();
    this.#farWaits = new FarWaits({ queueCache, link, near, fail, onNear });
  }

  /**
   * Watches the session's keys and the end of the quarantine.
   * @param {number} revision of the first change
   * @param {() => void} onCompacted called if etcd no longer has that revision
   */
  begin(revision, onCompacted) {
    const { key, end } = this.#keys.ownRange(this.#lease);
    const onResult = (/** @type {any} */ result) => {
      if (result.compact_revision) onCompacted();
      else this.#handleSessionEvents(eventsOf(result));
    };
    const from = { start_revision: String(revision) };
    this.#stopSessionWatch = this.#link.watch(
      { ...range(key, end), ...from },
      onResult,
      this.#fail,
    );
    if (!this.#queueCache.isQuarantined) return;
    const quarantine = { key: base64(this.#keys.quarantine), ...from };
    this.#stopQuarantine = this.#link.watch(quarantine, onResult, this.#fail);
  }

  /** Watches all names that this session waits for or follows; far from the head, a request. */
  follow() {
    if (this.#isOver) return;
    this.#farWaits.prune();
    this.#leaveFar();
    this.#watchNames();
  }

  /** Gives up the streams of single names whose head is far away, if their queues were read. */
  #leaveFar() {
    if (this.#queueCache.isQuarantined) return;
    for (const stream of this.#narrow) {
      const [prefix] = stream.prefixes;
      if (!this.#queueCache.isFar(prefix, 2 * this.#near)) continue;
      this.#queueCache.unfollow(prefix);
      this.#unfollow(prefix, stream);
      this.#farWaits.add(prefix);
    }
  }

  /** Whether no name can have a watch of its own. */
  get #isFull() {
    return this.#narrow.size + this.#farWaits.count >= MOST_STREAMS;
  }

  #watchNames() {
    const names = new Set([...this.#queueCache.followed, ...this.#queueCache.wanted]);
    /** @type {Map<NameStream, string[]>} */
    const added = new Map();
    for (const prefix of names) {
      if (this.#streams.has(prefix) || this.#farWaits.has(prefix)) continue;
      const stream = this.#streamOf(prefix);
      stream.prefixes.add(prefix);
      this.#streams.set(prefix, stream);
      this.#queueCache.follow(prefix, stream);
      added.set(stream, [...(added.get(stream) ?? []), prefix]);
    }
    for (const [stream, prefixes] of added) this.#readQueues(stream, prefixes);
  }

  /** The end of a quarantine can grant requests, so all queues are read again. */
  reload() {
    this.#stopQuarantine();
    for (const stream of new Set(this.#streams.values()))
      this.#readQueues(stream, [...stream.prefixes]);
  }

  /**
   * Called at each renewal, after its write. Resolves once all changes up to that write are known,
   * and ends the watches of names that `prune` stops following.
   */
  async handleRenewal() {
    this.follow();
    await this.#farWaits.check();
    await this.#queueCache.waitForOwn();
    await this.#awaitEnded();
    this.#queueCache.prune();
    const followed = new Set(this.#queueCache.followed);
    for (const [prefix, stream] of this.#streams) {
      if (!followed.has(prefix)) this.#unfollow(prefix, stream);
    }
  }

  /** Ends all watches, and rejects the waits under way. @param {unknown} error */
  stop(error) {
    this.#isOver = true;
    this.#stopSessionWatch();
    this.#stopQuarantine();
    this.#farWaits.stop();
    for (const stream of this.#streams.values()) stream.stop();
    this.#streams.clear();
    this.deliveries.end(error);
    this.#queueCache.rejectWaits(error);
  }

  /** @param {import('./queue.js').WatchEvent[]} events of keys outside the queues */
  #handleSessionEvents(events) {
    this.#queueCache.apply(events);
    const session = this.#keys.session(this.#lease);
    const last = events.findLast(({ kv }) => textOf(kv.key).startsWith(session));
    this.deliveries.advance(Number(last?.kv.mod_revision ?? 0));
  }

  /** A new stream for a prefix, or the shared one if there are many. @param {string} prefix */
  #streamOf(prefix) {
    if (!this.#isFull) {
      const stream = this.#openStream(prefix);
      this.#narrow.add(stream);
      return stream;
    }
    this.#wide ??= this.#openStream(this.#keys.queues);
    return this.#wide;
  }

  /** @param {string} prefix */
  #openStream(prefix) {
    const stream = new NameStream();
    const onResult = (/** @type {any} */ result) => {
      const events = eventsOf(result);
      if (result.created) stream.onBegin();
      this.#queueCache.apply(events, stream);
    };
    stream.stop = this.#link.watch(allWith(prefix), onResult, this.#fail);
    return stream;
  }

  /** @param {string} prefix @param {NameStream} stream */
  #unfollow(prefix, stream) {
    this.#streams.delete(prefix);
    stream.prefixes.delete(prefix);
    if (stream.prefixes.size > 0) return;
    stream.stop();
    this.#narrow.delete(stream);
    if (this.#wide === stream) this.#wide = undefined;
  }

  /**
   * Starts to read queues once their watch has begun; a failure ends the connection.
   * @param {NameStream} stream @param {string[]} prefixes
   */
  #readQueues(stream, prefixes) {
    const parts = partsOf(prefixes);
    stream.begun
      .then(() => Promise.all(parts.map((some) => this.#loadQueues(stream, some))))
      .catch(this.#fail);
  }

  /** @param {NameStream} stream @param {string[]} prefixes */
  async #loadQueues(stream, prefixes) {
    for (let left = prefixes; left.length > 0; ) {
      const { header, found } = await this.#link.read(left.map(allWith));
      const queues = new Map(left.map((prefix, i) => [prefix, found[i].kvs ?? []]));
      left = this.#queueCache.loadAll(queues, Number(header.revision), stream);
    }
    if (!this.#isOver) this.#leaveFar();
  }

  /** Waits until the streams have delivered the deletion of requests that no longer block ours. */
  async #awaitEnded() {
    const ended = await findAbsent(this.#queueCache.obstacles, this.#link);
    await Promise.all(ended.map((one) => this.#queueCache.waitForEnd(one)));
  }
}

/** The entries whose keys no longer exist. @param {Entry[]} entries @param {Link} link */
async function findAbsent(entries, link) {
  const absent = await Promise.all(
    partsOf(entries).map(async (some) => {
      const { found } = await link.read(
        some.map(({ key }) => ({ key: base64(key), keys_only: true })),
      );
      return some.filter(({ created }, i) => Number(found[i].kvs?.[0].create_revision) !== created);
    }),
  );
  return absent.flat();
}

/**
 * The events in a result; throws if etcd canceled the watch.
 * @param {any} result of a watch @returns {import('./queue.js').WatchEvent[]}
 */
function eventsOf({ canceled, cancel_reason: reason, events = [] }) {
  if (canceled) throw watchEndedError(reason);
  return events;
}

/** Splits a list into parts that one call may read. @template Item @param {Item[]} all */
function partsOf(all) {
  /** @type {Item[][]} */
  const parts = [];
  for (let i = 0; i < all.length; i += MOST_READS) parts.push(all.slice(i, i + MOST_READS));
  return parts;
}

module.exports = { DeliveryBarrier, Streams, findAbsent };
