'use strict';

/**
 * Counts what is kept: the living objects of classes. `v8.queryObjects` collects garbage first, so
 * the count depends on nothing but references. Versions of Node.js before 20.13, Bun and Deno lack
 * it; there, nothing counts as kept.
 */

const v8 = require('node:v8');

/** @type {((ctor: Function) => number) | undefined} */
const { queryObjects } = v8;

class Kept {
  /** The objects that lived at the beginning, by class. @type {Map<Function, number>} */
  #before = new Map();

  /** @param {...Function} classes of which each object that is made from now on is to end */
  constructor(...classes) {
    for (const one of classes) this.#before.set(one, queryObjects?.(one) ?? 0);
  }

  /** @param {number} [most] so many may live @returns {string[]} the classes with more objects */
  moreThan(most = 0) {
    if (!queryObjects) return [];
    return [...this.#before]
      .map(([one, before]) => ({ name: one.name, count: queryObjects(one) - before }))
      .filter(({ count }) => count > most)
      .map(({ name, count }) => `${count} ${name}`);
  }
}

module.exports = { Kept };
