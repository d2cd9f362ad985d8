'use strict';

/**
 * Numbers for the keys of a session's requests. Each is used again when the request that had it is
 * gone: who reads a queue at etcd passes all keys that there have been in it since etcd was
 * compacted last. So a session has no more keys in a queue than it had requests at a time, however
 * often it has had the name.
 *
 * But not before the next step begins. A request whose answer got lost may be gone already when it
 * is found out by its key whether it was made. And what is planned may be of a queue that was read
 * before the request was gone: etcd does not take a transaction that deletes a key and makes it,
 * too.
 */

class Slots {
  /** By `ref`. @type {Map<number, number>} */
  #slots = new Map();
  /** Those that nobody has any more; the last one is the next to be had. @type {number[]} */
  #free = [];
  #count = 0;
  /**
   * Requests that are gone, or may not have been made, in the step under way.
   * @type {Set<number>}
   */
  #over = new Set();

  /**
   * @param {number} ref of a request
   * @returns {number} the same until it is had by others
   */
  of(ref) {
    const known = this.#slots.get(ref);
    if (known !== undefined) return known;
    const slot = this.#free.pop() ?? this.#count++;
    this.#slots.set(ref, slot);
    this.#over.add(ref);
    return slot;
  }

  /** @param {number} ref of a request that is not at etcd, for certain */
  free(ref) {
    this.#over.add(ref);
  }

  /**
   * Another step begins.
   * @param {{ has(ref: number): boolean }} known requests that are at etcd
   */
  begin(known) {
    for (const ref of this.#over) {
      const slot = this.#slots.get(ref);
      if (slot === undefined || known.has(ref)) continue;
      this.#slots.delete(ref);
      this.#free.push(slot);
    }
    this.#over.clear();
  }
}

module.exports = { Slots };
