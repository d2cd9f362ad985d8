'use strict';

/**
 * Where the locks that this thread holds were requested, as far as their requests noted it
 * (`origin` in request.js). Others' locks have no entry. An entry of a query is joined with its
 * request by its token, which no other lock of its name has.
 */

const { uncurry } = require('../platform/intrinsics.js');
const { placeOf } = require('./origin.js');
const { rootLock } = require('./reentrant-parent.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */
/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */
/** @typedef {import('./origin.js').Origin} Origin */
/** @typedef {InstanceType<typeof import('./request.js').Request>} Request */

/** Methods that nobody can replace. @type {(map: any, key: any) => any} */
const getFrom = uncurry(Map.prototype.get);
const setIn = uncurry(Map.prototype.set);
const deleteFrom = uncurry(Map.prototype.delete);

/**
 * Locks that are held, and whose requests noted where they were made.
 * @type {Map<string, Request>}
 */
const noted = new Map();

/**
 * @param {Backend} backend
 * @param {{ name: string, token: bigint }} lock
 */
const keyOf = ({ id }, { name, token }) => `${token} ${name.length} ${name}${id}`;

/** @param {Request} lock with an `origin`, just granted */
function noteSite(lock) {
  // A request that only passed holds nothing; a lock that serves others was requested elsewhere.
  if (lock.token !== 0n && rootLock(lock) === lock) setIn(noted, keyOf(lock.backend, lock), lock);
}

/** @param {Request} lock that is not held any more. Harmless to repeat */
function forgetSite(lock) {
  const key = keyOf(lock.backend, lock);
  if (getFrom(noted, key) === lock) deleteFrom(noted, key);
}

/**
 * Runs no users' code, in contrast to `placeOf`.
 * @param {Backend} backend
 * @param {LockDetails} lock
 * @returns {Origin | undefined}
 */
function originOfHeld(backend, lock) {
  return lock.token ? getFrom(noted, keyOf(backend, lock))?.origin : undefined;
}

/**
 * @param {Backend} backend
 * @param {LockDetails[]} locks whose `site` is filled in
 */
function addSites(backend, locks) {
  for (let i = 0; i < locks.length; i++) {
    const origin = originOfHeld(backend, locks[i]);
    if (origin) locks[i].site = placeOf(origin);
  }
}

/**
 * @param {Backend} backend
 * @param {DetailedSnapshot | Promise<DetailedSnapshot>} answer
 * @returns {DetailedSnapshot | Promise<DetailedSnapshot>} the same, with the sites of its locks
 */
function withSites(backend, answer) {
  if (!('held' in answer)) return withSitesLater(backend, answer);
  addSites(backend, answer.held);
  return answer;
}

/**
 * @param {Backend} backend
 * @param {Promise<DetailedSnapshot>} answer
 */
async function withSitesLater(backend, answer) {
  const snapshot = await answer;
  addSites(backend, snapshot.held);
  return snapshot;
}

let isRecording = false;

/**
 * While a profile has the places of all requests, queries and errors have them, too.
 * @param {boolean} isOn
 */
function recordSites(isOn) {
  isRecording = isOn;
}

const areSitesRecorded = () => isRecording;

/** For tests. @returns {number} */
const countSites = () => noted.size;

module.exports = {
  addSites,
  areSitesRecorded,
  countSites,
  forgetSite,
  noteSite,
  originOfHeld,
  recordSites,
  withSites,
};
