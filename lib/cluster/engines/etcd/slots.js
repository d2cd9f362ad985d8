'use strict';

/**
 * Slot numbers for the keys of a session's requests. They are recycled: reading a queue in etcd
 * also scans every key deleted from it since the last compaction. A slot is free again only when
 * the next step begins. Until then a request whose answer got lost may be looked up by its key. A
 * plan may also still delete that key, and etcd forbids to delete and create a key at once.
 */

class Slots {
  /** The slot of each `ref`. @type {Map<number, number>} */
  #slots = new Map();
  /** Slots that were used and are free. @type {number[]} */
  #free = [];
  #count = 0;
  /** Requests of the current step that are gone, or may not have been made. @type {Set<number>} */
  #over = new Set();

  /** The slot of a request. @param {number} ref */
  of(ref) {
    const known = this.#slots.get(ref);
    if (known !== undefined) return known;
    const slot = this.#free.pop() ?? this.#count++;
    this.#slots.set(ref, slot);
    this.#over.add(ref);
    return slot;
  }

  /**
   * Frees the slot when the next step begins.
   * @param {number} ref of a request that is not at etcd
   */
  free(ref) {
    this.#over.add(ref);
  }

  /** Called when a step begins. @param {{ has(ref: number): boolean }} known requests at etcd */
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
