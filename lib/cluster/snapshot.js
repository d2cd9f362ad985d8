'use strict';

/**
 * Converts an adapter's entries into the results of `query` and `details`. For `query`, this is
 * § 4.5 "snapshot the lock state"
 * (https://www.w3.org/TR/2023/WD-web-locks-20230105/#snapshot-the-lock-state).
 */

const { dataOf, lockDetails, pendingDetails } = require('../backend/details.js');

/** @import { Entry } from './adapter.js' */
/** @import { DetailedSnapshot, LockDetails, LockManagerSnapshot } from '../backend/contract.js' */

/** @param {Entry[]} entries @returns {LockManagerSnapshot} */
function toSnapshot(entries) {
  /** @type {LockManagerSnapshot} */
  const state = { held: [], pending: [] };
  for (const { clientId, mode, name, token } of entries) {
    (token ? state.held : state.pending).push({ clientId, mode, name });
  }
  return state;
}

/** @param {Entry[]} entries in the order of each name's queue @param {number} [grantsIn] */
function toDetails(entries, grantsIn = 0) {
  /** @type {Map<string, { held: LockDetails[], ahead: number }>} */
  const names = new Map();
  /** @type {DetailedSnapshot} */
  const state = { held: [], pending: [] };
  for (const entry of entries) {
    const { name } = entry;
    const known = names.get(name) ?? { held: [], ahead: 0 };
    names.set(name, known);
    const details = toLockDetails(entry);
    if (entry.token) {
      known.held.push(details);
      state.held.push(details);
    } else {
      state.pending.push(pendingDetails(details, known.held, known.ahead++));
    }
  }
  if (grantsIn > 0) state.grantsIn = Math.ceil(grantsIn);
  return state;
}

/** @param {Entry[]} entries of held locks @returns {LockDetails[]} */
const toHolders = (entries) => entries.map(toLockDetails);

/** @param {Entry} entry @returns {LockDetails} */
const toLockDetails = ({ data, ...entry }) =>
  lockDetails({
    ...entry,
    label: entry.label || (entry.program ?? ''),
    priority: entry.priority ?? 0,
    waited: entry.token ? 0 : Math.floor(entry.waited),
    held: entry.token ? Math.floor(entry.held) : 0,
    data: dataOf(data),
  });

module.exports = { toDetails, toHolders, toSnapshot };
