'use strict';

const { uncurry } = require('../platform/intrinsics.js');

/** @import { LockDetails } from './contract.js' */

const isIn = uncurry(Set.prototype.has);

/**
 * Leaves out locks that were granted to this thread without its knowledge: such a lock may belong
 * to the very request whose blockers are wanted.
 * @param {LockDetails[]} holders @param {string} clientId of this thread
 * @param {() => Set<bigint>} tokensOf returns the tokens of the locks on the name that this thread
 *   knows to be its own; slow, so it is called only if the thread is among the holders
 * @returns {LockDetails[] | undefined} undefined if all holders were left out: then nobody knows
 *   the blockers
 */
function findBlockers(holders, clientId, tokensOf) {
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

module.exports = { findBlockers };
