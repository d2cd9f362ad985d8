'use strict';

/**
 * The board: shared memory in which all threads of a torture note what they hold, and look whether
 * somebody else holds it.
 *
 * Each thread has a slot, which the next thread gets when it ends, and a number of its own. A
 * thread that is about to be killed, or to end by itself, is marked as doomed before: what it noted
 * then counts no more, since its locks go on to others while the notes stay until the slot is
 * cleaned. The thread itself still checks that nobody took over what it holds for as long as it
 * runs.
 */

/** Threads that a torture can have, one after the other. */
const THREADS = 2 ** 20;

const FIELDS = ['grants', 'requests', 'aborts', 'misses', 'steals', 'robbed', 'kills', 'ends'];
const FAULTS = ['exclusion', 'units', 'fifo', 'lost', 'crash', 'leak'];

class Board {
  /**
   * @param {{ slots: number, names: number, memory?: SharedArrayBuffer }} shape `names`: over all
   *   buckets
   */
  constructor({ slots, names, memory }) {
    this.slots = slots;
    this.names = names;
    const sizes = {
      /** By name: the number of the thread that holds it exclusively, or 0. */
      owner: names,
      /** By slot and name: shared locks held; of a semaphore, units held. */
      readers: slots * names,
      /**
       * By name: when the latest request that was granted, exclusively or shared, had not begun
       * yet.
       */
      lastExclusive: names,
      lastShared: names,
      /** By slot: the number of its thread, from 1. */
      thread: slots,
      /** By thread. */
      doomed: THREADS,
      /** By slot: turns of the event loop. */
      heartbeat: slots,
      counters: FIELDS.length + FAULTS.length,
      /** Counts events, to order them in time. */
      clock: 1,
      /** 1 when everybody has to come to an end. */
      stop: 1,
    };
    const total = Object.values(sizes).reduce((sum, size) => sum + size, 0);
    this.memory = memory ?? new SharedArrayBuffer(total * 4);
    let offset = 0;
    for (const [name, size] of Object.entries(sizes)) {
      this[name] = new Int32Array(this.memory, offset * 4, size);
      offset += size;
    }
  }

  get shape() {
    return { slots: this.slots, names: this.names, memory: this.memory };
  }

  count(field, by = 1) {
    Atomics.add(this.counters, [...FIELDS, ...FAULTS].indexOf(field), by);
  }

  get stopped() {
    return Atomics.load(this.stop, 0) === 1;
  }

  tick() {
    return Atomics.add(this.clock, 0, 1);
  }

  doom(slot) {
    Atomics.store(this.doomed, this.#threadOf(slot), 1);
  }

  isDoomed(slot) {
    return this.#isDoomed(this.#threadOf(slot));
  }

  #threadOf(slot) {
    return Atomics.load(this.thread, slot);
  }

  #isDoomed(thread) {
    return Atomics.load(this.doomed, thread) === 1;
  }

  /** Makes a slot ready for its next thread. The last one is gone. */
  clean(slot, thread) {
    for (let name = 0; name < this.names; name++) {
      Atomics.store(this.readers, slot * this.names + name, 0);
    }
    // Last: who sees the new number sees the readers cleared.
    Atomics.store(this.thread, slot, thread);
  }

  isInside(slot, name) {
    const owner = Atomics.load(this.owner, name) === this.#threadOf(slot);
    return owner || Atomics.load(this.readers, slot * this.names + name) > 0;
  }

  /**
   * Notes that `slot` holds `name`, and looks for others who do: of a semaphore, for more units than
   * its limit.
   */
  enter(slot, name, { mode, weight = 1, limit }) {
    this.count('grants');
    const thread = this.#threadOf(slot);
    if (mode === 'shared') {
      Atomics.add(this.readers, slot * this.names + name, weight);
      const owner = Atomics.load(this.owner, name);
      if (owner > 0 && !this.#isDoomed(owner)) this.count('exclusion');
      if (limit && this.#unitsHeld(name) > limit) this.count('units');
      return;
    }
    const before = Atomics.exchange(this.owner, name, thread);
    if (before === thread || (before > 0 && !this.#isDoomed(before))) this.count('exclusion');
    for (let other = 0; other < this.slots; other++) {
      const reader = this.#threadOf(other);
      const count = Atomics.load(this.readers, other * this.names + name);
      if (count > 0 && (reader === thread || !this.#isDoomed(reader))) this.count('exclusion');
    }
  }

  /** What threads hold that are not doomed. */
  #unitsHeld(name) {
    let units = 0;
    for (let slot = 0; slot < this.slots; slot++) {
      const thread = this.#threadOf(slot);
      const held = Atomics.load(this.readers, slot * this.names + name);
      if (!this.#isDoomed(thread)) units += held;
    }
    return units;
  }

  /**
   * Notes that `slot` is about to let go of `name`. It is a fault if somebody took over meanwhile.
   */
  leave(slot, name, { mode, weight = 1 }) {
    if (mode === 'shared') {
      Atomics.sub(this.readers, slot * this.names + name, weight);
      return;
    }
    const thread = this.#threadOf(slot);
    if (Atomics.compareExchange(this.owner, name, thread, 0) !== thread) this.count('exclusion');
  }

  /**
   * Checks first come, first served at a grant. `begun` and `made` are ticks before and after the
   * call of request(): had another request of the name begun after this one was made, and was it
   * granted already, it overtook. Two shared requests are granted together, and their callbacks run
   * in any order.
   */
  checkOrder(name, mode, begun, made) {
    const later = (array) => ((Atomics.load(array, name) - made) | 0) > 0;
    if (later(this.lastExclusive) || (mode === 'exclusive' && later(this.lastShared))) {
      this.count('fifo');
    }
    this.#raise(mode === 'shared' ? this.lastShared : this.lastExclusive, name, begun);
  }

  #raise(array, name, to) {
    let now = Atomics.load(array, name);
    while (((to - now) | 0) > 0) {
      const before = Atomics.compareExchange(array, name, now, to);
      if (before === now) return;
      now = before;
    }
  }

  report() {
    const all = [...FIELDS, ...FAULTS].map((field, i) => [field, Atomics.load(this.counters, i)]);
    return Object.fromEntries(all);
  }

  get faults() {
    const report = this.report();
    return FAULTS.reduce((sum, fault) => sum + report[fault], 0);
  }
}

module.exports = { Board };
