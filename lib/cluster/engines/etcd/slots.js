'use strict';

/**
 * Slot numbers for the keys of a session's requests. They are recycled, because reading a queue in
 * etcd also scans every key deleted from it since the last compaction. The slot of a request that
 * has ended becomes free only when the next step begins. Until then the session may look up a lost
 * answer by the request's key. A plan may also still delete that key, and etcd forbids deleting and
 * creating a key in one transaction.
 */

class Slots {
  /** The slot of each `ref`. @type {Map<number, number>} */
  #slots = new Map();
  /** Slots that were used before. @type {number[]} */
  #free = [];
  #count = 0;
  /** Requests of this step that have ended, or may never have been made. @type {Set<number>} */
  #over = new Set();

  /** The slot of a request, which takes one if it has none yet. @param {number} ref */
  slotOf(ref) {
    const known = this.#slots.get(ref);
    if (known !== undefined) return known;
    const slot = this.#free.pop() ?? this.#count++;
    this.#slots.set(ref, slot);
    this.#over.add(ref);
    return slot;
  }

  /** Frees a slot at the next step. The request must not exist in etcd. @param {number} ref */
  free(ref) {
    this.#over.add(ref);
  }

  /**
   * Makes slots available whose requests have ended or were never made.
   * @param {{ has(ref: number): boolean }} known the requests that exist in etcd
   */
  recycle(known) {
    for (const ref of this.#over) {
      const slot = this.#slots.get(ref);
      if (slot === undefined || known.has(ref)) continue;
      this.#slots.delete(ref);
      this.#free.push(slot);
    }
    // The requests of a step get slots in their order, which is that of the queue, too.
    this.#free.sort((a, b) => b - a);
    this.#over.clear();
  }
}

module.exports = { Slots };
