'use strict';

/** @typedef {{ lane: number, end: number }} Lane */

/** Assigns lanes to intervals so that the intervals of a lane do not overlap. */
class Lanes {
  /** A heap of lanes, sorted by the `end` of the last interval of each. @type {Lane[]} */
  #heap = [];

  /** Returns a lane. Calls must be sorted by `from`. @param {number} from @param {number} to */
  assign(from, to) {
    const heap = this.#heap;
    if (heap.length > 0 && heap[0].end < from) {
      const { lane } = heap[0];
      this.#sink({ lane, end: to });
      return lane;
    }
    const lane = heap.length;
    this.#rise({ lane, end: to });
    return lane;
  }

  /** @param {Lane} entry replaces the first entry */
  #sink(entry) {
    const heap = this.#heap;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child + 1 < heap.length && heap[child + 1].end < heap[child].end) child++;
      if (child >= heap.length || heap[child].end >= entry.end) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = entry;
  }

  /** @param {Lane} entry a new entry */
  #rise(entry) {
    const heap = this.#heap;
    let at = heap.length;
    while (at > 0 && heap[(at - 1) >> 1].end > entry.end) {
      heap[at] = heap[(at - 1) >> 1];
      at = (at - 1) >> 1;
    }
    heap[at] = entry;
  }
}

module.exports = { Lanes };
