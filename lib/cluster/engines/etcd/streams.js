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

const { clearTimeout, setTimeout, unref } = require('../../../platform/intrinsics.js');
const { staleError } = require('../errors.js');
const { noWatchEventsError, watchEndedError } = require('./errors.js');
const { FarWaits } = require('./far-waits.js');
const { textOf } = require('./keys.js');
const { partsOf } = require('./lists.js');
const { allWith, only, range } = require('./operations.js');
const { Waits } = require('./waits.js');

/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./queue-cache.js').QueueCache>} Cache */
/** @import { Entry } from './queue.js' */

/** How many names can have a stream of their own. */
const MOST_STREAMS = 4;
const MOST_READS = 100;

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
  #keys;
  #queueCache;
  #link;
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
  /** The last revision of the session's keys that the first watch has delivered. */
  #delivered = 0;
  #deliveries = new Waits();

  /**
   * @param {{ keys: BucketKeys, queueCache: Cache, link: Link, near: number }} parts for `near` see
   *   far-waits.js
   */
  constructor({ keys, queueCache, link, near }) {
    this.#keys = keys;
    this.#queueCache = queueCache;
    this.#link = link;
    this.#near = near;
    const onNear = () => this.#watchNames();
    this.#farWaits = new FarWaits({ queueCache, link, near, onNear });
    link.onEnd = (why) => this.stop(why);
  }

  /**
   * Watches the session's keys and the end of the quarantine. Resolves with true once the watch has
   * delivered the first revision, and with false if etcd no longer has it.
   * @param {number} revision of the first change @param {number} patience milliseconds
   */
  async begin(revision, patience) {
    let isBegun = false;
    let isCompacted = false;
    const onResult = (/** @type {any} */ result) => {
      if (!result.compact_revision) this.#handleSessionEvents(eventsOf(result));
      else if (isBegun) throw watchEndedError('the next revision was compacted');
      else {
        isCompacted = true;
        this.stop(staleError());
      }
    };
    const watch = (/** @type {object} */ keys) =>
      this.#link.watch({ ...keys, start_revision: String(revision) }, onResult);
    const timer = setTimeout(() => this.stop(noWatchEventsError()), patience);
    unref(timer);
    this.#stopSessionWatch = watch(this.#ownKeys);
    if (this.#queueCache.isQuarantined) this.#stopQuarantine = watch(only(this.#keys.quarantine));
    try {
      await this.waitForDelivery(revision);
      isBegun = true;
      return !isCompacted;
    } catch (error) {
      if (isCompacted) return false;
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  get #ownKeys() {
    const { key, end } = this.#keys.ownRange(this.#queueCache.lease);
    return range(key, end);
  }

  /** Resolves when the first watch has delivered a revision. @param {number} revision */
  waitForDelivery(revision) {
    return this.#deliveries.until(() => this.#delivered >= revision);
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
    this.#deliveries.reject(error);
    this.#queueCache.rejectWaits(error);
  }

  /** @param {import('./queue.js').WatchEvent[]} events of keys outside the queues */
  #handleSessionEvents(events) {
    this.#queueCache.apply(events);
    const session = this.#keys.session(this.#queueCache.lease);
    const last = events.findLast(({ kv }) => textOf(kv.key).startsWith(session));
    this.#delivered = Math.max(this.#delivered, Number(last?.kv.mod_revision ?? 0));
    this.#deliveries.check();
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
    stream.stop = this.#link.watch(allWith(prefix), onResult);
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
    const parts = partsOf(prefixes, MOST_READS);
    stream.begun
      .then(() => Promise.all(parts.map((some) => this.#loadQueues(stream, some))))
      .catch(this.#link.fail);
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
    partsOf(entries, MOST_READS).map(async (some) => {
      const { found } = await link.read(some.map(({ key }) => ({ ...only(key), keys_only: true })));
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

module.exports = { Streams, findAbsent };
