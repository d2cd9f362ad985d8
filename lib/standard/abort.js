'use strict';

/**
 * AbortSignals and the requests that follow them: one listener a signal, however many requests,
 * gone with the last one.
 */

const { addAbortListener } = require('node:events');
const { dispose } = require('../platform/realm.js');

/**
 * @typedef {object} Follower
 * @property {(reason: unknown) => void} signalToAbort
 */

/** @typedef {{ followers: Set<Follower>, stop: () => void }} Following */

/** @type {WeakMap<AbortSignal, Following>} */
const followings = new WeakMap();

/**
 * Calls `follower.signalToAbort` with the signal's reason when it aborts, in the order in which
 * they began to follow.
 * @param {AbortSignal} signal not aborted
 * @param {Follower} follower
 */
function follow(signal, follower) {
  let following = followings.get(signal);
  if (!following) {
    following = listen(signal);
    followings.set(signal, following);
  }
  following.followers.add(follower);
}

/**
 * @param {AbortSignal} signal
 * @returns {Following}
 */
function listen(signal) {
  const followers = new Set();
  // Unlike a plain listener, this one is called even if another stops the propagation of the event.
  const listener = addAbortListener(signal, () => {
    followings.delete(signal);
    for (const follower of followers) follower.signalToAbort(signal.reason);
  });
  return { followers, stop: () => /** @type {any} */ (listener)[dispose]() };
}

/**
 * Undoes `follow`; harmless if the signal has aborted.
 * @param {AbortSignal} signal
 * @param {Follower} follower
 */
function unfollow(signal, follower) {
  const following = followings.get(signal);
  if (!following) return;
  following.followers.delete(follower);
  if (following.followers.size > 0) return;
  followings.delete(signal);
  following.stop();
}

module.exports = { follow, unfollow };
