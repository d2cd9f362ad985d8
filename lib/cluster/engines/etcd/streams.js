'use strict';

/**
 * The watches of a connection. One covers the keys written for this session, so a session that
 * waits for nothing is never woken by others. Names are watched while the session waits for them,
 * and up to two renewals longer. The JSON gateway cannot add a watch to a stream, and loses watches
 * if a request has several (gateway.js), so each watch is a request. A few names have a stream
 * each; the others share one over all queues of the bucket. A name keeps its stream.
 *
 * A watch starts at the present, which etcd serves at once (it serves the past ten times a second).
 * Queues are read after their watch has begun, so no change is missed.
 *
 * Each renewal checks that the watches work. The first watch must deliver the session's mark. For
 * the others, a renewal reads the requests that block ours. If one is gone, its stream must deliver
 * that before the renewal is answered.
 */

const { newWatchError } = require('./errors.js');
const { allWith, base64, range, textOf } = require('./keys.js');

/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} OpenLink */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./queue-cache.js').QueueCache>} BucketMirror */
/** @import { Entry } from './queue.js' */

/** How many names have a stream of their own. */
const MOST_STREAMS = 4;
/** How many queues or keys one call reads. */
const MOST_READS = 100;

/** Lets callers wait until the watch has delivered changes of the session's keys. */
class DeliveryBarrier {
  /** The last revision that the watch delivered. */
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

  /** Resolves when the watch has delivered a change. @param {number} revision */
  async reached(revision) {
    if (this.#revision >= revision) return;
    /** @type {Promise<void>} */
    const reached = new Promise((resolve, reject) => {
      this.#waiting.push({ revision, resolve, reject });
    });
    await reached;
  }

  /** @param {unknown} error */
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
  /** Called when the watch will deliver every later change. */
  begins = () => {};
  /** @type {Promise<void>} */
  begun = new Promise((resolve) => {
    this.begins = resolve;
  });
}

class Streams {
  deliveries = new DeliveryBarrier();
  #keys;
  #lease;
  #queueCache;
  #link;
  #fail;
  /** Streams of single names. @type {Set<NameStream>} */
  #narrow = new Set();
  /** The stream that all other names share. @type {NameStream | undefined} */
  #wide;
  /** The stream of each prefix. @type {Map<string, NameStream>} */
  #streams = new Map();
  #stopEar = () => {};
  #stopQuarantine = () => {};
  #isOver = false;

  /**
   * @param {object} parts @param {BucketKeys} parts.keys @param {string} parts.lease as in keys
   * @param {BucketMirror} parts.queueCache @param {OpenLink} parts.link
   * @param {(error: unknown) => void} parts.fail called when a watch breaks
   */
  constructor({ keys, lease, queueCache, link, fail }) {
    this.#keys = keys;
    this.#lease = lease;
    this.#queueCache = queueCache;
    this.#link = link;
    this.#fail = fail;
  }

  /**
   * Watches the session's keys and the end of the quarantine.
   * @param {number} revision of the first change
   * @param {() => void} isCompacted called if etcd no longer has that revision
   */
  begin(revision, isCompacted) {
    const { key, end } = this.#keys.own(this.#lease);
    const hear = (/** @type {any} */ result) => {
      if (result.compact_revision) isCompacted();
      else this.#hear(eventsOf(result));
    };
    const from = { start_revision: String(revision) };
    this.#stopEar = this.#link.watch({ ...range(key, end), ...from }, hear, this.#fail);
    if (!this.#queueCache.isQuarantined) return;
    const quarantine = { key: base64(this.#keys.quarantine), ...from };
    this.#stopQuarantine = this.#link.watch(quarantine, hear, this.#fail);
  }

  /** Watches all names that this session waits for or follows. */
  follow() {
    if (this.#isOver) return;
    const names = new Set([...this.#queueCache.followed, ...this.#queueCache.wanted]);
    /** @type {Map<NameStream, string[]>} */
    const added = new Map();
    for (const prefix of names) {
      if (this.#streams.has(prefix)) continue;
      const stream = this.#streamOf(prefix);
      stream.prefixes.add(prefix);
      this.#streams.set(prefix, stream);
      this.#queueCache.follow(prefix, stream);
      added.set(stream, [...(added.get(stream) ?? []), prefix]);
    }
    for (const [stream, prefixes] of added) this.#read(stream, prefixes);
  }

  /** The end of a quarantine can grant requests, so all queues are read again. */
  reload() {
    this.#stopQuarantine();
    for (const stream of new Set(this.#streams.values())) this.#read(stream, [...stream.prefixes]);
  }

  /**
   * Called with each renewal, after its write. It resolves when all changes up to then are known,
   * and ends watches of names that nobody has waited for since the last renewal.
   */
  async renewed() {
    this.follow();
    await this.#queueCache.known();
    await this.#compare();
    this.#queueCache.prune();
    const followed = new Set(this.#queueCache.followed);
    for (const [prefix, stream] of this.#streams) {
      if (!followed.has(prefix)) this.#leave(prefix, stream);
    }
  }

  /** @param {unknown} error */
  hangUp(error) {
    this.#isOver = true;
    this.#stopEar();
    this.#stopQuarantine();
    for (const stream of this.#streams.values()) stream.stop();
    this.#streams.clear();
    this.deliveries.end(error);
    this.#queueCache.hangUp(error);
  }

  /** @param {import('./queue.js').WatchEvent[]} events of keys outside the queues */
  #hear(events) {
    this.#queueCache.apply(events);
    const session = this.#keys.session(this.#lease);
    const last = events.findLast(({ kv }) => textOf(kv.key).startsWith(session));
    this.deliveries.advance(Number(last?.kv.mod_revision ?? 0));
  }

  /** @param {string} prefix */
  #streamOf(prefix) {
    if (this.#narrow.size < MOST_STREAMS) {
      const stream = this.#open(prefix);
      this.#narrow.add(stream);
      return stream;
    }
    this.#wide ??= this.#open(this.#keys.queues);
    return this.#wide;
  }

  /** @param {string} prefix */
  #open(prefix) {
    const stream = new NameStream();
    const hear = (/** @type {any} */ result) => {
      const events = eventsOf(result);
      if (result.created) stream.begins();
      this.#queueCache.apply(events, stream);
    };
    stream.stop = this.#link.watch(allWith(prefix), hear, this.#fail);
    return stream;
  }

  /** @param {string} prefix @param {NameStream} stream */
  #leave(prefix, stream) {
    this.#streams.delete(prefix);
    stream.prefixes.delete(prefix);
    if (stream.prefixes.size > 0) return;
    stream.stop();
    this.#narrow.delete(stream);
    if (this.#wide === stream) this.#wide = undefined;
  }

  /**
   * Reads queues after their watch has begun.
   * @param {NameStream} stream @param {string[]} prefixes
   */
  #read(stream, prefixes) {
    const parts = partsOf(prefixes);
    stream.begun
      .then(() => Promise.all(parts.map((some) => this.#load(stream, some))))
      .catch(this.#fail);
  }

  /** @param {NameStream} stream @param {string[]} prefixes */
  async #load(stream, prefixes) {
    for (let left = prefixes; left.length > 0; ) {
      const { header, found } = await this.#link.read(left.map(allWith));
      const queues = new Map(left.map((prefix, i) => [prefix, found[i].kvs ?? []]));
      left = this.#queueCache.loadAll(queues, Number(header.revision), stream);
    }
  }

  /** Waits until the streams have delivered the deletion of requests that no longer block ours. */
  async #compare() {
    const ended = await absentOf(this.#queueCache.obstacles, this.#link);
    await Promise.all(ended.map((one) => this.#queueCache.ended(one)));
  }
}

/** The entries whose keys no longer exist. @param {Entry[]} entries @param {OpenLink} link */
async function absentOf(entries, link) {
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

/** @param {any} result of a watch @returns {import('./queue.js').WatchEvent[]} */
function eventsOf({ canceled, cancel_reason: reason, events = [] }) {
  if (canceled) throw newWatchError(reason);
  return events;
}

/** Splits a list into parts that one call may read. @template Item @param {Item[]} all */
function partsOf(all) {
  /** @type {Item[][]} */
  const parts = [];
  for (let i = 0; i < all.length; i += MOST_READS) parts.push(all.slice(i, i + MOST_READS));
  return parts;
}

module.exports = { DeliveryBarrier, Streams, absentOf };
