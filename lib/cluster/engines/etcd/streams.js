'use strict';

/**
 * The watches of a connection. One is always there: of what is written for this session alone, so
 * that a session that waits for nothing is not woken by what others do, however many they are.
 * Names that it waits for are watched as well, as long as it does, and for up to two renewals after
 * that.
 *
 * Each watch is a request of its own, for the JSON gateway cannot take one more on a stream, and of
 * several in one request it may lose all but the first: it begins to answer when that was made, and
 * what it has not read until then of the request is thrown away. So a few names have a stream each,
 * and all others have one together, which hears of all queues of the bucket. A name has the same
 * stream for as long as it is followed.
 *
 * A watch begins with what comes next, which etcd serves at once (it looks at what is past ten
 * times a second), and a queue is read when its watch has begun: nothing is missed, and nothing has
 * to be remembered by etcd.
 *
 * That the first watch is heard shows with each renewal, by the session's mark. Of the others it
 * shows then where it matters: what is in the way of a request is looked at, and if it is not
 * there any more, the stream has to tell that before the renewal is answered.
 */

const { newWatchError } = require('./errors.js');
const { allWith, base64, range, textOf } = require('./keys.js');

/** @typedef {InstanceType<typeof import('./gateway.js').Link>} OpenLink */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./mirror.js').Mirror>} BucketMirror */
/** @typedef {import('./queue.js').Entry} Entry */

/** The most names that have a stream each. */
const MOST_STREAMS = 4;
/** Queues that are read at once, or keys. */
const MOST_READS = 100;

/** Waits for what is written for the session. */
class Ear {
  /** The last change of its keys that was heard. */
  #revision = 0;
  /** @type {{ revision: number, resolve: () => void, reject: (error: unknown) => void }[]} */
  #waiting = [];

  /** @param {number} revision */
  isAt(revision) {
    this.#revision = Math.max(this.#revision, revision);
    const waiting = this.#waiting;
    this.#waiting = waiting.filter((one) => one.revision > this.#revision);
    for (const one of waiting) if (one.revision <= this.#revision) one.resolve();
  }

  /**
   * @param {number} revision of a change of the session's keys
   * @returns {Promise<void>} settles when it was heard
   */
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

/** A watch of one name, or of all. */
class NameStream {
  /** What the keys of the names begin with that it tells of. @type {Set<string>} */
  prefixes = new Set();
  /** Ends the watch. */
  stop = () => {};
  /** It does: what happens from now on will be heard. */
  begins = () => {};
  /** @type {Promise<void>} */
  begun = new Promise((resolve) => {
    this.begins = resolve;
  });
}

class Streams {
  ear = new Ear();
  #keys;
  #lease;
  #mirror;
  #link;
  #fail;
  /** Of names that have one each. @type {Set<NameStream>} */
  #narrow = new Set();
  /** The one of all other names. @type {NameStream | undefined} */
  #wide;
  /** By what the keys of a name begin with. @type {Map<string, NameStream>} */
  #streams = new Map();
  #stopEar = () => {};
  #stopQuarantine = () => {};
  #isOver = false;

  /**
   * @param {object} parts
   * @param {BucketKeys} parts.keys
   * @param {string} parts.lease as in keys
   * @param {BucketMirror} parts.mirror
   * @param {OpenLink} parts.link
   * @param {(error: unknown) => void} parts.fail is called when one of them is not heard any more
   */
  constructor({ keys, lease, mirror, link, fail }) {
    this.#keys = keys;
    this.#lease = lease;
    this.#mirror = mirror;
    this.#link = link;
    this.#fail = fail;
  }

  /**
   * Hears what is written for the session, and the end of a quarantine.
   * @param {number} revision of the first change that is to be heard
   * @param {() => void} isCompacted etcd does not have that any more
   */
  begin(revision, isCompacted) {
    const { key, end } = this.#keys.own(this.#lease);
    const hear = (/** @type {any} */ result) => {
      if (result.compact_revision) isCompacted();
      else this.#hear(eventsOf(result));
    };
    const from = { start_revision: String(revision) };
    this.#stopEar = this.#link.watch({ ...range(key, end), ...from }, hear, this.#fail);
    if (!this.#mirror.isQuarantined) return;
    const quarantine = { key: base64(this.#keys.quarantine), ...from };
    this.#stopQuarantine = this.#link.watch(quarantine, hear, this.#fail);
  }

  /** Follows all that somebody here waits for, and what was followed before. */
  follow() {
    if (this.#isOver) return;
    const names = new Set([...this.#mirror.followed, ...this.#mirror.wanted]);
    /** @type {Map<NameStream, string[]>} */
    const added = new Map();
    for (const prefix of names) {
      if (this.#streams.has(prefix)) continue;
      const stream = this.#streamOf(prefix);
      stream.prefixes.add(prefix);
      this.#streams.set(prefix, stream);
      this.#mirror.follow(prefix, stream);
      added.set(stream, [...(added.get(stream) ?? []), prefix]);
    }
    for (const [stream, prefixes] of added) this.#read(stream, prefixes);
  }

  /** A quarantine is over: reads all queues again. */
  reload() {
    this.#stopQuarantine();
    for (const stream of new Set(this.#streams.values())) this.#read(stream, [...stream.prefixes]);
  }

  /**
   * To be called with each renewal, after it was written: what was not waited for since the last
   * one is let go.
   * @returns {Promise<void>} settles when all is known that has become of what is waited for
   */
  async renewed() {
    this.follow();
    await this.#mirror.known();
    await this.#compare();
    this.#mirror.prune();
    const followed = new Set(this.#mirror.followed);
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
    this.ear.end(error);
    this.#mirror.hangUp(error);
  }

  // Watches.

  /** @param {import('./queue.js').WatchEvent[]} events of no names */
  #hear(events) {
    this.#mirror.apply(events);
    const session = this.#keys.session(this.#lease);
    const last = events.findLast(({ kv }) => textOf(kv.key).startsWith(session));
    this.ear.isAt(Number(last?.kv.mod_revision ?? 0));
  }

  /**
   * @param {string} prefix of a name that is to be followed
   * @returns {NameStream}
   */
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
      this.#mirror.apply(events, stream);
    };
    stream.stop = this.#link.watch(allWith(prefix), hear, this.#fail);
    return stream;
  }

  /**
   * @param {string} prefix of a name that is followed no more
   * @param {NameStream} stream
   */
  #leave(prefix, stream) {
    this.#streams.delete(prefix);
    stream.prefixes.delete(prefix);
    if (stream.prefixes.size > 0) return;
    stream.stop();
    this.#narrow.delete(stream);
    if (this.#wide === stream) this.#wide = undefined;
  }

  // Queues.

  /**
   * Reads queues when their watch has begun.
   * @param {NameStream} stream
   * @param {string[]} prefixes
   */
  #read(stream, prefixes) {
    const parts = partsOf(prefixes);
    stream.begun
      .then(() => Promise.all(parts.map((some) => this.#load(stream, some))))
      .catch(this.#fail);
  }

  /**
   * @param {NameStream} stream
   * @param {string[]} prefixes
   */
  async #load(stream, prefixes) {
    for (let left = prefixes; left.length > 0; ) {
      const { header, found } = await this.#link.read(left.map(allWith));
      const queues = new Map(left.map((prefix, i) => [prefix, found[i].kvs ?? []]));
      left = this.#mirror.loadAll(queues, Number(header.revision), stream);
    }
  }

  /** Waits until it is known what is not in the way any more of what somebody here waits for. */
  async #compare() {
    const ended = await absentOf(this.#mirror.obstacles, this.#link);
    await Promise.all(ended.map((one) => this.#mirror.ended(one)));
  }
}

/**
 * @param {Entry[]} entries that were made
 * @param {OpenLink} link
 * @returns {Promise<Entry[]>} those whose keys are not there any more
 */
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

/**
 * @param {any} result of a watch
 * @returns {import('./queue.js').WatchEvent[]}
 */
function eventsOf({ canceled, cancel_reason: reason, events = [] }) {
  if (canceled) throw newWatchError(reason);
  return events;
}

/**
 * @template Item
 * @param {Item[]} all
 * @returns {Item[][]} as many as may be read at once together
 */
function partsOf(all) {
  /** @type {Item[][]} */
  const parts = [];
  for (let i = 0; i < all.length; i += MOST_READS) parts.push(all.slice(i, i + MOST_READS));
  return parts;
}

module.exports = { Ear, Streams, absentOf };
