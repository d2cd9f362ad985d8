'use strict';

/**
 * The watches of a connection. One is always there: of what is written for this session alone, so
 * that a session that waits for nothing is not woken by what others do, however many they are.
 * Names that it waits for are watched as well, as long as it does, and for up to two renewals after
 * that.
 *
 * The JSON gateway cannot take a watch more on a stream, so names come by streams of their own:
 * all that a step has to wait for by one, and if there are as many streams as may be, all names
 * together by a new one, that replaces the others. A watch begins with what comes next, which
 * etcd serves at once (it looks at what is past ten times a second), and a queue is read when its
 * watch has begun: nothing is missed, and nothing has to be remembered by etcd.
 *
 * On each stream the session's mark is watched, too. Who has written it knows by it that
 * a stream is heard.
 */

const { newWatchError } = require('./errors.js');
const { allWith, base64, textOf } = require('./keys.js');

/** @typedef {InstanceType<typeof import('./gateway.js').Link>} OpenLink */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./mirror.js').Mirror>} BucketMirror */

/** The most streams of names, but for the one that replaces them. */
const MOST_STREAMS = 4;
/** Queues that are read at once. */
const MOST_QUEUES = 100;

/** A stream of watches, one of which is of the session's own keys, or of one of these. */
class Stream {
  stop = () => {};
  /** Whether the queues of its names were read. */
  #isReady;
  /** The last change of the session's own keys that was heard. */
  #revision = 0;
  /** @type {{ revision: number, resolve: () => void, reject: (error: unknown) => void }[]} */
  #waiting = [];

  /** @param {boolean} isReady */
  constructor(isReady) {
    this.#isReady = isReady;
  }

  get isReady() {
    return this.#isReady;
  }

  set isReady(isReady) {
    this.#isReady = isReady;
    this.isAt(this.#revision);
  }

  /** @param {number} revision */
  isAt(revision) {
    this.#revision = Math.max(this.#revision, revision);
    if (!this.#isReady) return;
    const waiting = this.#waiting;
    this.#waiting = waiting.filter((one) => one.revision > this.#revision);
    for (const one of waiting) if (one.revision <= this.#revision) one.resolve();
  }

  /**
   * @param {number} revision of a change of the session's mark
   * @returns {Promise<void>} settles when it was heard, and all queues are known
   */
  async reached(revision) {
    if (this.#isReady && this.#revision >= revision) return;
    /** @type {Promise<void>} */
    const reached = new Promise((resolve, reject) => {
      this.#waiting.push({ revision, resolve, reject });
    });
    await reached;
  }

  /** Nobody waits for it any more. @param {unknown} [error] none: it is not needed */
  end(error) {
    this.stop();
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { reject, resolve } of waiting) error ? reject(error) : resolve();
  }
}

class Streams {
  #keys;
  #lease;
  #mirror;
  #link;
  #fail;
  /** With the prefixes of keys that they watch. @type {Map<Stream, Set<string>>} */
  #streams = new Map();
  #isReplacing = false;
  #isOver = false;
  #renewals = 0;

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
   * The watch of what is written for the session.
   * @param {number} revision of the first change that is to be heard
   * @param {() => void} isCompacted etcd does not have that any more
   * @returns {Stream}
   */
  begin(revision, isCompacted) {
    const { key, end } = this.#keys.own(this.#lease);
    const ranges = [{ key: base64(key), range_end: base64(end) }];
    if (this.#mirror.isQuarantined) {
      ranges.push({ key: base64(this.#keys.quarantine), range_end: '' });
    }
    const watches = ranges.map((range) => ({ ...range, start_revision: String(revision) }));
    return this.#open(watches, [], (result) => {
      if (result.compact_revision) isCompacted();
      return Boolean(result.compact_revision);
    });
  }

  /** Follows all that somebody here waits for. */
  follow() {
    if (this.#isOver || this.#isReplacing) return;
    const followed = new Set(this.#mirror.followed);
    const names = [...this.#mirror.wanted].filter((prefix) => !followed.has(prefix));
    if (names.length === 0) return;
    this.#mirror.follow(names);
    const others = [...this.#streams].filter(([, prefixes]) => prefixes.size > 0);
    this.#isReplacing = others.length >= MOST_STREAMS;
    if (!this.#isReplacing) this.#watch(names);
    else {
      this.#mirror.forgetOthers();
      this.#watch(this.#mirror.followed, () => {
        for (const [stream] of others) this.#drop(stream);
        this.#isReplacing = false;
        this.follow();
      });
    }
  }

  /** Begins to follow anew what is followed. */
  resume() {
    if (this.#mirror.followed.length > 0) this.#watch(this.#mirror.followed);
    this.follow();
  }

  /** Reads all queues again. Those of a stream that is not ready are about to be read. */
  reload() {
    for (const [stream, prefixes] of this.#streams) {
      if (prefixes.size > 0 && stream.isReady) this.#read(stream, [...prefixes]);
    }
  }

  /**
   * To be called with each renewal: what was not waited for since the last one is let go.
   * @param {number} revision of the session's mark
   */
  async renewed(revision) {
    await Promise.all([...this.#streams.keys()].map((stream) => stream.reached(revision)));
    this.follow();
    this.#mirror.prune(++this.#renewals);
    const followed = new Set(this.#mirror.followed);
    for (const [stream, prefixes] of this.#streams) {
      const isOfNames = prefixes.size > 0;
      for (const prefix of prefixes) if (!followed.has(prefix)) prefixes.delete(prefix);
      if (isOfNames && prefixes.size === 0) this.#drop(stream);
    }
  }

  /** @param {unknown} error */
  hangUp(error) {
    this.#isOver = true;
    for (const stream of this.#streams.keys()) stream.end(error);
    this.#streams.clear();
    this.#mirror.hangUp(error);
  }

  /** @param {Stream} stream */
  #drop(stream) {
    this.#streams.delete(stream);
    stream.end();
  }

  /**
   * @param {string[]} prefixes
   * @param {() => void} [then] is called when their queues were read
   */
  #watch(prefixes, then = () => {}) {
    const mark = { key: base64(this.#keys.mark(this.#lease)) };
    const watches = [mark, ...prefixes.map(allWith)];
    let left = watches.length;
    const stream = this.#open(watches, prefixes, (result) => {
      if (result.created && --left === 0) this.#read(stream, prefixes, then);
      return false;
    });
  }

  /**
   * @param {Stream} stream of names, all watches of which have begun
   * @param {string[]} prefixes
   * @param {() => void} [then] is called when their queues were read
   */
  #read(stream, prefixes, then = () => {}) {
    stream.isReady = false;
    this.#loadAll(prefixes)
      .then((revision) => {
        stream.isAt(revision);
        stream.isReady = true;
        then();
      })
      .catch(this.#fail);
  }

  /**
   * @param {object[]} watches
   * @param {string[]} prefixes
   * @param {(result: any) => boolean} hear says whether all is done
   */
  #open(watches, prefixes, hear) {
    const stream = new Stream(prefixes.length === 0);
    this.#streams.set(stream, new Set(prefixes));
    const take = (/** @type {any} */ result) => {
      if (hear(result)) return;
      if (result.canceled) throw newWatchError(result.cancel_reason);
      const { events = [] } = result;
      this.#mirror.apply(events);
      stream.isAt(this.#lastOwn(events));
    };
    stream.stop = this.#link.watch(watches, take, this.#fail);
    return stream;
  }

  /**
   * @param {import('./queue.js').WatchEvent[]} events
   * @returns {number} the revision of the last one of the session's own keys
   */
  #lastOwn(events) {
    const session = this.#keys.session(this.#lease);
    const last = events.findLast(({ kv }) => textOf(kv.key).startsWith(session));
    return Number(last?.kv.mod_revision ?? 0);
  }

  /**
   * @param {string[]} prefixes
   * @returns {Promise<number>} the revision until which all is known
   */
  async #loadAll(prefixes) {
    let last = Number.POSITIVE_INFINITY;
    for (let i = 0; i < prefixes.length; i += MOST_QUEUES) {
      const some = prefixes.slice(i, i + MOST_QUEUES);
      last = Math.min(last, await this.#load(some));
    }
    return last;
  }

  /**
   * @param {string[]} prefixes
   * @returns {Promise<number>}
   */
  async #load(prefixes) {
    for (;;) {
      const { header, responses } = await this.#link.call('kv/txn', {
        compare: [],
        success: prefixes.map((prefix) => ({ request_range: allWith(prefix) })),
      });
      const revision = Number(header.revision);
      const areKnown = prefixes.map((prefix, i) =>
        this.#mirror.load(prefix, responses[i].response_range.kvs ?? [], revision),
      );
      if (areKnown.every(Boolean)) return revision;
    }
  }
}

module.exports = { Stream, Streams };
