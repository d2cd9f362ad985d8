'use strict';

/**
 * The table of a session's places, by `ref`, in the order of those: not those that are gone. The
 * only one that changes the state of a place.
 */

const { ASKED, HELD, WAITING } = require('./place.js');

/** @typedef {InstanceType<typeof import('./place.js').Place>} Place */

class Places {
  /** @type {Map<number, Place>} */
  #places = new Map();
  /** Those of groups, by group. @type {Map<number, Set<Place>>} */
  #groups = new Map();
  #refs = 0;
  /** How many are not held: those keep the event loop alive. */
  unheld = 0;
  /** How many are in the queue, as far as is known. */
  waiting = 0;
  /** Counts what became of them: `place.news` is the count of its last one. */
  news = 0;

  /** @param {number} ref */
  get(ref) {
    return this.#places.get(ref);
  }

  /** @returns {Place[]} as they are now */
  all() {
    return [...this.#places.values()];
  }

  /**
   * @param {Place} place
   * @returns {Place[]} those of its group, as they are now; itself, if none
   */
  groupOf(place) {
    const group = this.#groups.get(place.op.group);
    return group ? [...group] : [place];
  }

  /** @param {Place} place in no table, to be asked for */
  enter(place) {
    place.state = ASKED;
    place.op.ref = ++this.#refs;
    this.#places.set(place.op.ref, place);
    this.#enterGroup(place, place.op.group);
    this.unheld++;
  }

  /**
   * @param {Place} place
   * @param {number} group 0 for none
   */
  #enterGroup(place, group) {
    if (group === 0) return;
    const places = this.#groups.get(group) ?? new Set();
    this.#groups.set(group, places.add(place));
  }

  /**
   * @param {Place} place
   * @param {1 | 2 | 3 | 4} state
   */
  move(place, state) {
    if (place.state === WAITING) this.waiting--;
    if (state === WAITING) this.waiting++;
    if (place.state === HELD) this.unheld++;
    if (state === HELD) this.unheld--;
    place.state = state;
    place.news = ++this.news;
  }

  /** @param {Place} place is gone */
  leave(place) {
    if (place.state === WAITING) this.waiting--;
    if (place.state !== HELD) this.unheld--;
    this.#places.delete(place.op.ref);
    const group = this.#groups.get(place.op.group);
    group?.delete(place);
    if (group?.size === 0) this.#groups.delete(place.op.group);
    place.end();
  }
}

module.exports = { Places };
