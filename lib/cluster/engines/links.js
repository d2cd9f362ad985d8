'use strict';

/**
 * The connections of an adapter: the one in use, and the one that is being made. Each call of
 * `open`, `hello` and `dispose` begins a generation, and only the latest generation takes effect.
 */

const { staleError } = require('./errors.js');

/** @template {{ drop: () => void }} Link */
class Links {
  /** The connection in use. @type {Link | undefined} */
  current;
  /** The connection that is being made. @type {Link | undefined} */
  next;
  generation = 0;

  /** Drops both connections, and returns the new generation. */
  begin() {
    const { current, next } = this;
    this.current = this.next = undefined;
    this.generation++;
    current?.drop();
    next?.drop();
    return this.generation;
  }

  /** @param {number} generation */
  isLatest(generation) {
    return generation === this.generation;
  }

  /**
   * Registers a connection that is being made. If a later generation has begun, this drops the
   * connection and throws.
   * @param {number} generation @param {Link} link
   */
  prepare(generation, link) {
    if (!this.isLatest(generation)) {
      link.drop();
      throw staleError();
    }
    this.next = link;
    return link;
  }

  /**
   * Makes a connection the one in use; throws if a later generation has begun.
   * @param {number} generation @param {Link} link that is ready
   */
  use(generation, link) {
    if (!this.isLatest(generation)) throw staleError();
    this.next = undefined;
    this.current = link;
  }

  /**
   * Forgets the connection if it is in use, and returns whether it was.
   * @param {Link} link that has ended
   */
  lose(link) {
    if (link !== this.current) return false;
    this.current = undefined;
    return true;
  }
}

module.exports = { Links };
