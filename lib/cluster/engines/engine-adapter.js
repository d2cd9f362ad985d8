'use strict';

/**
 * The bases of adapters and of their connections: what all engines do alike. Each call of `open`,
 * `hello` and `dispose` begins a generation, and only the latest generation takes effect.
 */

const { NO_EVENTS } = require('../adapter.js');
const { classify, staleError } = require('./errors.js');

/** What most engines support. */
const CAN = { limits: true, priorities: true, groups: true, marks: true, data: true };

/** The base of connections to an engine. A connection never reconnects, and ends only once. */
class EngineLink {
  isDown = false;
  /** Called with the error if the connection ends by itself. @type {(error: unknown) => void} */
  onDown = () => {};

  /** Ends the connection without `onDown`. */
  drop() {
    this.onDown = () => {};
    this.fail();
  }

  /** Ends the connection, and calls `onDown`. @param {unknown} [error] */
  fail = (error) => {
    if (this.isDown) return;
    this.isDown = true;
    const why = this.explainEnd(error);
    this.end(why);
    this.onDown(why);
  };

  /** The error of the calls under way. @param {unknown} [error] undefined if there was none */
  explainEnd(error) {
    return error ?? staleError();
  }

  /** Frees what the connection has, and rejects the calls under way. @param {unknown} _why */
  end(_why) {}
}

/** @template {EngineLink} Link */
class EngineAdapter {
  id = '';
  /** @type {import('../adapter.js').AdapterEvents} */
  events = NO_EVENTS;
  classify = classify;
  /** The connection in use. @type {Link | undefined} */
  link;
  generation = 0;
  /** The refs of thefts that a renewal listed; the next one confirms them. @type {number[]} */
  knownThefts = [];
  /** The connection that is being made. @type {Link | undefined} */
  #next;
  /** Connections that serve a single call, and their generations. @type {Map<Link, number>} */
  #singleCallLinks = new Map();
  #isDisposed = false;

  /** Drops the connection, even one that is still being made, and returns the new generation. */
  dropLinks() {
    // The answer to the last renewal may be lost. Then the session does not know the thefts in it,
    // so the next renewal must not confirm them.
    this.knownThefts = [];
    // Calls of the latest generation may continue. Older ones are ended, because a client could
    // retry them forever.
    for (const [link, generation] of this.#singleCallLinks)
      if (generation !== this.generation) link.drop();
    const { link } = this;
    this.link = undefined;
    this.generation++;
    link?.drop();
    this.#next?.drop();
    this.#next = undefined;
    return this.generation;
  }

  /**
   * Drops the connection, and makes a new one, which is in use once `prepare` has succeeded. If a
   * later generation has begun, this drops the new connection and throws.
   * @template T @param {() => Link | Promise<Link>} make
   * @param {(link: Link) => Promise<() => T>} prepare begins in the same generation, and returns
   *   what to do once the link is in use
   * @returns {Promise<T>}
   */
  async connect(make, prepare) {
    const generation = this.dropLinks();
    const link = await make();
    try {
      this.#requireUsable(link, generation);
      this.#next = link;
      const use = await prepare(link);
      this.#requireUsable(link, generation);
      this.#next = undefined;
      this.link = link;
      link.onDown = (error) => {
        if (link !== this.link) return;
        this.link = undefined;
        this.events.down(error);
      };
      return use();
    } catch (error) {
      link.drop();
      throw error;
    }
  }

  /** @param {Link} link @param {number} generation */
  #requireUsable(link, generation) {
    if (link.isDown || generation !== this.generation) throw staleError();
  }

  requireLink() {
    if (!this.link) throw staleError();
    return this.link;
  }

  /**
   * The connection in use, or else a new one without a session, for `extend`.
   * @param {() => Link} make @param {(link: Link) => Promise<void>} [open]
   */
  async linkForCalls(make, open = async () => {}) {
    const prepare = async (/** @type {Link} */ link) => {
      await open(link);
      return () => link;
    };
    return this.link ?? this.connect(make, prepare);
  }

  /**
   * Does work that is harmless to repeat over the connection in use. If there is none, or it ends
   * meanwhile, this does the work over a connection of its own.
   * @template T @param {(link: Link) => Promise<T>} work @param {() => Promise<T>} overOwn
   */
  async overAnyLink(work, overOwn) {
    const { link } = this;
    if (!link) return overOwn();
    try {
      return await work(link);
    } catch (error) {
      if (!link.isDown) throw error;
      return overOwn();
    }
  }

  /**
   * Makes a connection for a single call, which is dropped if the adapter is disposed meanwhile.
   * @template T @param {() => Link} make @param {(link: Link) => Promise<T>} work
   */
  async overSingleCallLink(make, work) {
    // No attempt may begin after `dispose`, because nobody would end it.
    if (this.#isDisposed) throw staleError();
    const link = make();
    this.#singleCallLinks.set(link, this.generation);
    try {
      return await work(link);
    } finally {
      this.#singleCallLinks.delete(link);
    }
  }

  /**
   * Has the next renewal confirm the thefts of this one, if its connection is still in use.
   * @param {number} generation at the call of the renewal @param {Map<number, string>} stolen
   */
  noteThefts(generation, stolen) {
    if (generation === this.generation) this.knownThefts = [...stolen.keys()];
  }

  async dispose() {
    this.events = NO_EVENTS;
    this.#isDisposed = true;
    this.dropLinks();
    for (const link of this.#singleCallLinks.keys()) link.drop();
  }
}

module.exports = { CAN, EngineAdapter, EngineLink };
