'use strict';

/**
 * Lets requests follow AbortSignals. All requests that follow a signal share one listener. The
 * state of a signal is read from the platform's internal slots, because users may have replaced the
 * signal's properties and methods.
 */

const { addAbortListener } = require('node:events');
const { report, uncurry } = require('../platform/intrinsics.js');
const { AbortSignal, DOMException, dispose } = require('../platform/realm.js');

/**
 * @typedef {{ signalToAbort: (reason: unknown) => void, finish: () => void, tag: number, backend:
 *   { unfinished: any[], undo: (tag: number) => unknown } }} Follower
 */

/** @typedef {{ followers: Set<Follower>, listener: () => void, listening: any }} Following */

/** Returns a function that reads the member's internal slot of a signal. @param {string} member */
const getter = (member) =>
  uncurry(/** @type {any} */ (Object.getOwnPropertyDescriptor(AbortSignal.prototype, member)).get);

/** @type {(signal: any) => boolean} throws if the value is not a signal */
const getAbortedOfPlatform = getter('aborted');
/** @type {(signal: any) => unknown} */
const getReasonOfPlatform = getter('reason');

/**
 * Signals of another DOM, such as jsdom's. Their members are user code and may throw.
 * @type {WeakSet<object>}
 */
const others = new WeakSet();
/** While this is false, no signal has to be looked up in `others`. */
let areOthersKnown = false;
const addToWeakSet = uncurry(WeakSet.prototype.add);
const isIn = uncurry(WeakSet.prototype.has);

/** Whether `isLikeAbortSignal` found that another DOM made the signal. @param {any} signal */
const isOther = (signal) => areOthersKnown && isIn(others, signal);

/** @param {any} signal @returns {boolean} true also if the state cannot be read */
function getAborted(signal) {
  if (!isOther(signal)) return getAbortedOfPlatform(signal);
  try {
    return Boolean(signal.aborted);
  } catch {
    // A signal whose state cannot be read counts as aborted, so that no abort is lost.
    return true;
  }
}

/** @param {any} signal @returns {unknown} */
function getReason(signal) {
  if (!isOther(signal)) return getReasonOfPlatform(signal);
  try {
    return signal.reason;
  } catch {
    return new DOMException('The abort reason cannot be read.', 'AbortError');
  }
}

/** @param {any} value @returns {value is AbortSignal} */
function isAbortSignal(value) {
  try {
    getAbortedOfPlatform(value);
    return true;
  } catch (error) {
    // The stack has overflowed, so it is unknown whether the value is a signal.
    if (error instanceof RangeError) throw error;
    return false;
  }
}

/** Accepts signals of any DOM by their shape; remembers those of other DOMs. @param {any} value */
function isLikeAbortSignal(value) {
  if (isAbortSignal(value)) return true;
  const isLike =
    typeof value === 'object' &&
    value !== null &&
    typeof value.aborted === 'boolean' &&
    'reason' in value &&
    typeof value.addEventListener === 'function' &&
    typeof value.removeEventListener === 'function';
  if (isLike) {
    addToWeakSet(others, value);
    areOthersKnown = true;
  }
  return isLike;
}

/** @param {AbortSignal} signal @returns {{ reason: unknown } | undefined} undefined: not aborted */
const abortedReason = (signal) => (getAborted(signal) ? { reason: getReason(signal) } : undefined);

/** Whether a signal is currently notifying its followers of its abort. */
let isTelling = false;

/**
 * Like `abortedReason`, but reads the signal only if a follower may have missed its abort. Either
 * followers are just being notified, one after the other; or another listener can stop the event.
 * @param {AbortSignal} signal
 */
const missedReason = (signal) =>
  isTelling || !isSymbolKnown || isOther(signal) ? abortedReason(signal) : undefined;

/** @type {(signal: any, type: 'abort', listener: () => void, options: object) => void} */
const addEventListener = uncurry(AbortSignal.prototype.addEventListener);
/** @type {(signal: any, type: 'abort', listener: () => void) => void} */
const removeEventListener = uncurry(AbortSignal.prototype.removeEventListener);

/**
 * The options that `addAbortListener` gives to a signal. In Node.js they contain a private symbol,
 * which makes sure that a listener is called even if another listener stops the event. A call of
 * `addAbortListener` for each signal would run the signal's own methods, which may be user code.
 */
const listenerOptions = (() => {
  let options = {};
  const signal = /** @type {any} */ ({
    aborted: false,
    /** @param {string} _type @param {unknown} _listener @param {object} given */
    addEventListener(_type, _listener, given) {
      options = { ...given, once: false };
    },
    removeEventListener() {},
  });
  addAbortListener(signal, () => {});
  return options;
})();

/** If the options have no such symbol, `addAbortListener` must be called for each signal. */
const isSymbolKnown = Object.getOwnPropertySymbols(listenerOptions).length > 0;

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
 * An abort calls `signalToAbort` of all followers, in the order in which they were added.
 * @param {AbortSignal} signal must not be aborted @param {Follower} follower
 */
function follow(signal, follower) {
  const known = getFrom(followings, signal);
  if (known) addTo(known.followers, follower);
  else setIn(followings, signal, listen(signal, follower));
}

/** @param {AbortSignal} signal @param {Follower} first @returns {Following} */
function listen(signal, first) {
  /** @type {Set<Follower>} */
  const followers = new Set();
  addTo(followers, first);
  const listener = () => {
    // If the signal is not aborted, user code has dispatched the event itself.
    if (!getAborted(signal)) return;
    /** @type {{ reason: unknown } | undefined} */
    let aborted;
    try {
      aborted = { reason: getReason(signal) };
      stopListening(signal, following);
    } catch {
      // The stack has overflowed. If the reason is unknown, `finish` reads it.
    }
    const wasTelling = isTelling;
    isTelling = true;
    forEachOf(followers, (/** @type {Follower} */ follower) => {
      try {
        if (aborted) return follower.signalToAbort(aborted.reason);
      } catch {
        // The stack has overflowed again.
      }
      // contract.js explains these steps.
      const { unfinished } = follower.backend;
      unfinished[unfinished.length] = follower;
      follower.backend.undo(follower.tag);
    });
    isTelling = wasTelling;
  };
  /** @type {Following} */
  const following = { followers, listener, listening: undefined };
  if (isOther(signal)) signal.addEventListener('abort', listener);
  else if (isSymbolKnown) addEventListener(signal, 'abort', listener, listenerOptions);
  else following.listening = addAbortListener(signal, listener);
  return following;
}

/** @param {AbortSignal} signal @param {Following} following */
function stopListening(signal, { listener, listening }) {
  deleteFrom(followings, signal);
  if (isOther(signal)) removeListenerOfOther(signal, listener);
  else if (isSymbolKnown) removeEventListener(signal, 'abort', listener);
  else listening[dispose]();
}

/** @param {AbortSignal} signal @param {() => void} listener */
function removeListenerOfOther(signal, listener) {
  try {
    signal.removeEventListener('abort', listener);
  } catch (error) {
    report(error);
  }
}

/** @param {AbortSignal} signal @param {Follower} follower */
function unfollow(signal, follower) {
  const following = getFrom(followings, signal);
  if (!following || !removeFrom(following.followers, follower)) return;
  if (sizeOf(following.followers) === 0) stopListening(signal, following);
}

module.exports = {
  abortedReason,
  follow,
  isAbortSignal,
  isLikeAbortSignal,
  missedReason,
  unfollow,
};
