'use strict';

/**
 * The `web-locks` around this one, which hold locks until it has ended: a request that waits for
 * one of those would wait for ever. The environment variable WEB_LOCKS_OUTER has a word for each,
 * its process and the token of its lock, so that what a command has left in the background is not
 * taken for a part of it.
 */

const process = require('node:process');
const { hostname } = require('../platform/machine.js');

/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */

/**
 * @param {NodeJS.ProcessEnv} env of this process
 * @param {bigint} token of the lock that it holds
 * @returns {string} WEB_LOCKS_OUTER of its command
 */
const outerOf = ({ WEB_LOCKS_OUTER }, token) =>
  `${WEB_LOCKS_OUTER ? `${WEB_LOCKS_OUTER} ` : ''}${process.pid}:${token}`;

/**
 * @param {NodeJS.ProcessEnv} env of this process
 * @returns {((holder: LockDetails) => boolean) | undefined} whether that one is around it;
 *   undefined: nobody is
 */
function isOuter({ WEB_LOCKS_OUTER }) {
  if (!WEB_LOCKS_OUTER) return undefined;
  const outer = new Set(WEB_LOCKS_OUTER.split(' '));
  const here = hostname();
  return ({ host, pid, token }) => host === here && outer.has(`${pid}:${token}`);
}

/**
 * @param {LockDetails[]} outer those around it that hold the name
 * @param {{ mode: string, limit?: number, weight?: number }} wanted
 * @returns {boolean} whether a request would have to wait for them
 */
function excludes(outer, { mode, limit = Infinity, weight = 1 }) {
  if (outer.length === 0) return false;
  if (mode === 'exclusive' || outer.some((holder) => holder.mode === 'exclusive')) return true;
  return outer.reduce((sum, holder) => sum + (holder.weight ?? 0), weight) > limit;
}

module.exports = { excludes, isOuter, outerOf };
