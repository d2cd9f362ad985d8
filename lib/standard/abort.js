'use strict';

/**
 * AbortSignals and the requests that follow them: one listener a signal, however many requests,
 * gone with the last one. The state of a signal is the platform's: its own properties and methods
 * may be anybody's.
 */

const { addAbortListener } = require('node:events');
const { report, uncurry } = require('../platform/intrinsics.js');
const { AbortSignal, dispose } = require('../platform/realm.js');

/**
 * @typedef {object} Follower
 * @property {(reason: unknown) => void} signalToAbort
 * @property {() => void} finish
 * @property {number} tag
 * @property {{ unfinished: any[], undo: (tag: number) => unknown }} backend
 */

/** @typedef {{ followers: Set<Follower>, listener: () => void, listening: any }} Following */

/** @param {string} member */
const getter = (member) =>
  uncurry(/** @type {any} */ (Object.getOwnPropertyDescriptor(AbortSignal.prototype, member)).get);

/** @type {(signal: any) => boolean} throws if it is none */
const getAbortedOfPlatform = getter('aborted');
/** @type {(signal: any) => unknown} */
const getReasonOfPlatform = getter('reason');

/**
 * Signals of a DOM that is not the platform's, such as that of jsdom: their own members count.
 * @type {WeakSet<object>}
 */
const others = new WeakSet();
const addOther = uncurry(WeakSet.prototype.add);
const isOther = uncurry(WeakSet.prototype.has);

/** @type {(signal: any) => boolean} throws if it is none */
const getAborted = (signal) =>
  isOther(others, signal) ? Boolean(signal.aborted) : getAbortedOfPlatform(signal);
/** @type {(signal: any) => unknown} */
const getReason = (signal) =>
  isOther(others, signal) ? signal.reason : getReasonOfPlatform(signal);

/**
 * @param {any} value
 * @returns {value is AbortSignal} whether it is one, not merely inherits from one
 */
function isAbortSignal(value) {
  try {
    getAbortedOfPlatform(value);
    return true;
  } catch (error) {
    // Near the end of the stack it is not known.
    if (error instanceof RangeError) throw error;
    return false;
  }
}

/**
 * @param {any} value
 * @returns {boolean} whether it is one, or has the shape of one
 */
function isLikeAbortSignal(value) {
  if (isAbortSignal(value)) return true;
  const isLike =
    typeof value === 'object' &&
    value !== null &&
    typeof value.aborted === 'boolean' &&
    'reason' in value &&
    typeof value.addEventListener === 'function' &&
    typeof value.removeEventListener === 'function';
  if (isLike) addOther(others, value);
  return isLike;
}

/**
 * @param {AbortSignal} signal
 * @returns {{ reason: unknown } | undefined} undefined if it is not aborted
 */
const abortedReason = (signal) => (getAborted(signal) ? { reason: getReason(signal) } : undefined);

/** @type {(signal: any, type: 'abort', listener: () => void, options: object) => void} */
const addEventListener = uncurry(AbortSignal.prototype.addEventListener);
/** @type {(signal: any, type: 'abort', listener: () => void) => void} */
const removeEventListener = uncurry(AbortSignal.prototype.removeEventListener);

/**
 * The options that `addAbortListener` gives to a signal. In Node.js they have a symbol that nobody
 * else can get: a listener with it is called even if another one stops the event. The function
 * itself would call the signal's own methods, and costs an object more.
 */
const listenerOptions = (() => {
  let options = {};
  const signal = /** @type {any} */ ({
    aborted: false,
    /**
     * @param {string} _type
     * @param {unknown} _listener
     * @param {object} given
     */
    addEventListener(_type, _listener, given) {
      options = { ...given, once: false };
    },
    removeEventListener() {},
  });
  addAbortListener(signal, () => {});
  return options;
})();

/** Elsewhere the function has to do it in its own way. */
const isSymbolKnown = Object.getOwnPropertySymbols(listenerOptions).length > 0;

/** Maps and sets whose methods nobody can replace. */
const getFrom = uncurry(WeakMap.prototype.get);
const setIn = uncurry(WeakMap.prototype.set);
const deleteFrom = uncurry(WeakMap.prototype.delete);
const addTo = uncurry(Set.prototype.add);
const removeFrom = uncurry(Set.prototype.delete);
const forEachOf = uncurry(Set.prototype.forEach);
const sizeOf = uncurry(
  /** @type {any} */ (Object.getOwnPropertyDescriptor(Set.prototype, 'size')).get,
);

/** @type {WeakMap<AbortSignal, Following>} */
const followings = new WeakMap();

/**
 * Calls `follower.signalToAbort` with the signal's reason when it aborts, in the order in which
 * they began to follow.
 * @param {AbortSignal} signal not aborted
 * @param {Follower} follower
 */
function follow(signal, follower) {
  const known = getFrom(followings, signal);
  if (known) addTo(known.followers, follower);
  else setIn(followings, signal, listen(signal, follower));
}

/**
 * @param {AbortSignal} signal
 * @param {Follower} first
 * @returns {Following}
 */
function listen(signal, first) {
  /** @type {Set<Follower>} */
  const followers = new Set();
  addTo(followers, first);
  const listener = () => {
    // An event that somebody made up.
    if (!getAborted(signal)) return;
    stop(signal, following);
    const reason = getReason(signal);
    forEachOf(followers, (/** @type {Follower} */ follower) => {
      try {
        follower.signalToAbort(reason);
      } catch {
        // No stack for it (LockRequest#start).
        const { unfinished } = follower.backend;
        unfinished[unfinished.length] = follower;
        follower.backend.undo(follower.tag);
      }
    });
  };
  /** @type {Following} */
  const following = { followers, listener, listening: undefined };
  if (isOther(others, signal)) signal.addEventListener('abort', listener);
  else if (isSymbolKnown) addEventListener(signal, 'abort', listener, listenerOptions);
  else following.listening = addAbortListener(signal, listener);
  return following;
}

/**
 * @param {AbortSignal} signal
 * @param {Following} following
 */
function stop(signal, { listener, listening }) {
  deleteFrom(followings, signal);
  if (isOther(others, signal)) removeFromOther(signal, listener);
  else if (isSymbolKnown) removeEventListener(signal, 'abort', listener);
  else listening[dispose]();
}

/**
 * @param {AbortSignal} signal whose method may be anybody's
 * @param {() => void} listener
 */
function removeFromOther(signal, listener) {
  try {
    signal.removeEventListener('abort', listener);
  } catch (error) {
    report(error);
  }
}

/**
 * Undoes `follow`; harmless if the signal has aborted.
 * @param {AbortSignal} signal
 * @param {Follower} follower
 */
function unfollow(signal, follower) {
  const following = getFrom(followings, signal);
  if (!following || !removeFrom(following.followers, follower)) return;
  if (sizeOf(following.followers) === 0) stop(signal, following);
}

module.exports = { abortedReason, follow, isAbortSignal, isLikeAbortSignal, unfollow };
