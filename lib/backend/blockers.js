'use strict';

const { uncurry } = require('../platform/intrinsics.js');

/** @typedef {import('./contract.js').LockDetails} LockDetails */

/** A method that nobody can replace. */
const isIn = uncurry(Set.prototype.has);

/**
 * Finds the requests that block a waiting request of this thread. Not what the thread was granted
 * and has
 * not heard of: that can be the very request that asks.
 * @param {LockDetails[]} holders of its name
 * @param {string} clientId of this thread
 * @param {() => Set<bigint>} tokensOf gives the tokens of the locks that this thread knows to be
 *   its own. It looks through all requests of the thread, and is called only if the thread has one
 *   of the locks
 * @returns {LockDetails[] | undefined} undefined if nobody is left: it is not known
 */
function inTheWay(holders, clientId, tokensOf) {
  /** @type {LockDetails[]} */
  const others = [];
  /** @type {Set<bigint> | undefined} */
  let known;
  for (let i = 0; i < holders.length; i++) {
    const holder = holders[i];
    if (holder.clientId === clientId) {
      known ??= tokensOf();
      if (!isIn(known, holder.token)) continue;
    }
    others[others.length] = holder;
  }
  return others.length === 0 && holders.length > 0 ? undefined : others;
}

module.exports = { inTheWay };
