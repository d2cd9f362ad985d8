'use strict';

/** Random numbers from a seed. */

/** mulberry32: a small seeded generator; returns numbers in [0, 1). */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** @returns {number} a different seed for each text: FNV-1a */
function seedOf(...parts) {
  let hash = 0x811c9dc5;
  for (const character of parts.join(' ')) {
    hash = Math.imul(hash ^ /** @type {number} */ (character.codePointAt(0)), 0x01000193) >>> 0;
  }
  return hash;
}

class Random {
  #next;

  /** @param {...(string | number)} parts of the seed */
  constructor(...parts) {
    this.#next = generator(seedOf(...parts));
  }

  /** @returns {number} from 0, less than 1 */
  number() {
    return this.#next();
  }

  chance(probability) {
    return this.#next() < probability;
  }

  /** @returns {number} an integer from 0, less than `limit` */
  below(limit) {
    return Math.floor(this.#next() * limit);
  }

  pick(list) {
    return list[this.below(list.length)];
  }

  /** @param {[any, number][]} list values, each with its weight */
  weighted(list) {
    const total = list.reduce((sum, [, weight]) => sum + weight, 0);
    let left = this.#next() * total;
    for (const [thing, weight] of list) {
      left -= weight;
      if (left < 0) return thing;
    }
    return list[list.length - 1][0];
  }

  /** @returns {any[]} the same values in another order */
  shuffled(list) {
    const all = [...list];
    for (let i = all.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [all[i], all[j]] = [all[j], all[i]];
    }
    return all;
  }
}

module.exports = { Random, generator };
