'use strict';

/**
 * Collects garbage, and counts the living objects of classes. `v8.queryObjects` collects garbage
 * first, so the count depends on nothing but references. Versions of Node.js before 20.13, Bun and
 * Deno lack it; there, nothing counts as kept.
 */

const v8 = require('node:v8');
const vm = require('node:vm');

/** @type {(() => void) | undefined} */
let collector;

/** Collects garbage now. */
function gc() {
  if (!collector) {
    v8.setFlagsFromString('--expose-gc');
    collector = vm.runInNewContext('gc');
  }
  collector();
}

/** @type {((ctor: Function) => number) | undefined} */
const { queryObjects } = v8;

class Kept {
  /** The objects that lived at the beginning, by class. @type {Map<Function, number>} */
  #before = new Map();

  /** @param {...Function} classes whose objects must all be collected, if made from now on */
  constructor(...classes) {
    for (const one of classes) this.#before.set(one, queryObjects?.(one) ?? 0);
  }

  /** @param {number} [most] how many may live @returns {string[]} the classes with more objects */
  moreThan(most = 0) {
    if (!queryObjects) return [];
    return [...this.#before]
      .map(([one, before]) => ({ name: one.name, count: queryObjects(one) - before }))
      .filter(({ count }) => count > most)
      .map(({ name, count }) => `${count} ${name}`);
  }
}

module.exports = { Kept, gc };
