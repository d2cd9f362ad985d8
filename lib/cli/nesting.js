'use strict';

/**
 * Finds the `web-locks` commands that enclose this one. They hold their locks until this command
 * ends, so a request that waits for one of these locks would wait forever. WEB_LOCKS_OUTER has a
 * word for each enclosing command: its process id, and the token of its lock. The id alone is not
 * enough: this command may outlive an enclosing one in the background, and another process may then
 * get that id, but not that token.
 */

const process = require('node:process');
const { hostname } = require('../platform/machine.js');

/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */

/**
 * @param {NodeJS.ProcessEnv} env @param {bigint} token of the lock that this process holds
 * @returns {string} WEB_LOCKS_OUTER for its command
 */
const appendEnclosing = ({ WEB_LOCKS_OUTER }, token) =>
  `${WEB_LOCKS_OUTER ? `${WEB_LOCKS_OUTER} ` : ''}${process.pid}:${token}`;

/**
 * Returns a function that recognizes enclosing commands among holders; undefined if there are none.
 * @param {NodeJS.ProcessEnv} env @returns {((holder: LockDetails) => boolean) | undefined}
 */
function enclosingMatcher({ WEB_LOCKS_OUTER }) {
  if (!WEB_LOCKS_OUTER) return undefined;
  const outer = new Set(WEB_LOCKS_OUTER.split(' '));
  const here = hostname();
  return ({ host, pid, token }) => host === here && outer.has(`${pid}:${token}`);
}

/** @typedef {{ mode: string, limit?: number, weight?: number, priority?: number }} Wanted */

/**
 * Whether a request would wait for an enclosing command, or for a request that waits for one.
 * @param {LockDetails[]} outer the locks of this name that enclosing commands hold
 * @param {LockDetails[]} pending requests for the name @param {Wanted} wanted
 */
function wouldWaitFor(outer, pending, wanted) {
  if (outer.length === 0) return false;
  const ahead = pending.filter(({ priority = 0 }) => priority >= (wanted.priority ?? 0));
  return [...ahead, wanted].some((one) => isBehind(outer, one));
}

/** @param {LockDetails[]} outer @param {Wanted} wanted */
function isBehind(outer, { mode, limit, weight = 1 }) {
  if (mode === 'exclusive' || outer.some((holder) => holder.mode === 'exclusive')) return true;
  return outer.reduce((sum, holder) => sum + (holder.weight ?? 0), weight) > (limit || Infinity);
}

module.exports = { wouldWaitFor, enclosingMatcher, appendEnclosing };
