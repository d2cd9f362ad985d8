'use strict';

/** The session's live requests, keyed and ordered by `ref`. Only this class changes their state. */

const { ASKED, HELD, WAITING } = require('./place.js');

/** @typedef {InstanceType<typeof import('./place.js').Place>} Place */

class Places {
  /** @type {Map<number, Place>} */
  #places = new Map();
  /** The members of each group. @type {Map<number, Set<Place>>} */
  #groups = new Map();
  #refs = 0;
  /** How many requests are not held: these keep the event loop alive. */
  unheld = 0;
  /** How many requests wait in a queue, as far as the session knows. */
  waiting = 0;
  /** Counts the changes; `place.news` is the count at a request's last one. */
  news = 0;

  /** @param {number} ref */
  get(ref) {
    return this.#places.get(ref);
  }

  all() {
    return [...this.#places.values()];
  }

  /** The members of a request's group, or the request alone. @param {Place} place */
  groupOf(place) {
    const group = this.#groups.get(place.op.group);
    return group ? [...group] : [place];
  }

  /** Adds a request with a new `ref`. @param {Place} place */
  enter(place) {
    place.state = ASKED;
    place.op.ref = ++this.#refs;
    this.#places.set(place.op.ref, place);
    this.#enterGroup(place, place.op.group);
    this.unheld++;
  }

  /** @param {Place} place @param {number} group 0 for none */
  #enterGroup(place, group) {
    if (group === 0) return;
    const places = this.#groups.get(group) ?? new Set();
    this.#groups.set(group, places.add(place));
  }

  /** @param {Place} place @param {1 | 2 | 3 | 4} state */
  move(place, state) {
    if (place.state === WAITING) this.waiting--;
    if (state === WAITING) this.waiting++;
    if (place.state === HELD) this.unheld++;
    if (state === HELD) this.unheld--;
    place.state = state;
    place.news = ++this.news;
  }

  /** @param {Place} place */
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
