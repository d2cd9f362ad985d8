'use strict';

const { uncurry } = require('../platform/intrinsics.js');

/** @typedef {import('./contract.js').LockDetails} LockDetails */

/** A method that nobody can replace. */
const isIn = uncurry(Set.prototype.has);

/**
 * Who is in the way of a request of this thread that waits. Not what the thread was granted and has
 * not heard of: that can be the very request that asks.
 * @param {LockDetails[]} holders of its name
 * @param {string} clientId of this thread
 * @param {Set<bigint>} known the tokens of the locks that this thread knows to be its own
 * @returns {LockDetails[] | undefined} undefined if nobody is left: it is not known
 */
function inTheWay(holders, clientId, known) {
  /** @type {LockDetails[]} */
  const others = [];
  for (let i = 0; i < holders.length; i++) {
    const holder = holders[i];
    if (holder.clientId === clientId && !isIn(known, holder.token)) continue;
    others[others.length] = holder;
  }
  return others.length === 0 && holders.length > 0 ? undefined : others;
}

module.exports = { inTheWay };
