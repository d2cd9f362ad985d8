'use strict';

/**
 * Remembers where this thread requested the locks that it holds, if their requests recorded the
 * place (`origin` in request.js). Entries of queries are matched by their tokens. The places of
 * other threads' locks are unknown.
 */

const { uncurry } = require('../../platform/intrinsics.js');
const { placeOf } = require('./origin.js');

/** @import { Backend, DetailedSnapshot, LockDetails } from '../../backend/contract.js' */
/** @import { Origin } from './origin.js' */
/** @typedef {InstanceType<typeof import('../request/request.js').Request>} Request */

/** @type {(map: any, key: any) => any} */
const getFrom = uncurry(Map.prototype.get);
const setIn = uncurry(Map.prototype.set);
const deleteFrom = uncurry(Map.prototype.delete);

/** Held locks whose requests recorded their places. @type {Map<string, Request>} */
const noted = new Map();

/** @param {Backend} backend @param {{ name: string, token: bigint }} lock */
const keyOf = ({ id }, { name, token }) => `${token} ${name.length} ${name}${id}`;

/** @param {Request} lock with an `origin` */
function noteSite(lock) {
  // A request that passed (token 0) holds nothing. A reentrant request has no lock of its own.
  if (lock.token !== 0n && lock.rootLock === lock) setIn(noted, keyOf(lock.backend, lock), lock);
}

/** Harmless to repeat. @param {Request} lock */
function forgetSite(lock) {
  const key = keyOf(lock.backend, lock);
  if (getFrom(noted, key) === lock) deleteFrom(noted, key);
}

/**
 * Runs no user code, in contrast to `placeOf`.
 * @param {Backend} backend @param {LockDetails} lock @returns {Origin | undefined}
 */
function originOfHeld(backend, lock) {
  return lock.token ? getFrom(noted, keyOf(backend, lock))?.origin : undefined;
}

/** @param {Backend} backend @param {LockDetails[]} locks get their `site` */
function addSites(backend, locks) {
  for (let i = 0; i < locks.length; i++) {
    const origin = originOfHeld(backend, locks[i]);
    if (origin) locks[i].site = placeOf(origin);
  }
}

/** @param {Backend} backend @param {DetailedSnapshot | Promise<DetailedSnapshot>} answer */
function withSites(backend, answer) {
  if (!('held' in answer)) return withSitesLater(backend, answer);
  addSites(backend, answer.held);
  return answer;
}

/** @param {Backend} backend @param {Promise<DetailedSnapshot>} answer */
async function withSitesLater(backend, answer) {
  const snapshot = await answer;
  addSites(backend, snapshot.held);
  return snapshot;
}

let isRecording = false;

/** A profile turns this on, so that all requests have an origin. @param {boolean} isOn */
function recordSites(isOn) {
  isRecording = isOn;
}

const areSitesRecorded = () => isRecording;

/** For tests. */
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
