'use strict';

/** Converts proper-lockfile's options. It ignores `stale` and `update`: no lock becomes stale. */

const fs = require('node:fs');
const { typeError } = require('../platform/errors.js');
const { describe } = require('../standard/webidl.js');
const { syncError } = require('./errors.js');

const FOREVER = Number.POSITIVE_INFINITY;

/**
 * @typedef {object} Options
 * @property {boolean} realpath
 * @property {any} fs needs `realpath` and `realpathSync`
 * @property {number} wait milliseconds; 0 for no wait, Infinity for no limit
 * @property {string | undefined} lockfilePath
 * @property {(error: Error) => void} onCompromised
 */

/** The default of `onCompromised` causes an uncaught exception. @type {(error: Error) => void} */
const throwIt = (error) => {
  throw error;
};

/** @param {any} options */
function toOptions(options) {
  const { realpath = true, fs: given, retries, lockfilePath, onCompromised } = options ?? {};
  if (onCompromised !== undefined && typeof onCompromised !== 'function') {
    throw typeError(
      "'lock'",
      `'onCompromised' is ${describe(onCompromised)}; expected a function.`,
    );
  }
  return {
    realpath: Boolean(realpath),
    fs: given ?? fs,
    wait: waitOf(retries),
    lockfilePath: lockfilePath || undefined,
    onCompromised: onCompromised ?? throwIt,
  };
}

/** Throws if `retries` would make the request wait. @param {any} options @returns {Options} */
function toSyncOptions(options) {
  const given = toOptions(options);
  if (given.wait > 0) throw syncError();
  return given;
}

/** The defaults of the package retry. */
const DEFAULTS = {
  retries: 10,
  factor: 2,
  minTimeout: 1000,
  maxTimeout: FOREVER,
  maxRetryTime: FOREVER,
  forever: false,
};

/**
 * A request waits until the time at which proper-lockfile would make its last retry.
 * @param {any} retries a number, the options of the package retry, or a list of pauses
 * @returns {number} milliseconds
 */
function waitOf(retries) {
  if (!retries) return 0;
  let wait = 0;
  if (Array.isArray(retries)) {
    for (let i = 0; i < retries.length; i++) wait += retries[i];
  } else {
    const given = typeof retries === 'number' ? { retries } : retries;
    wait = totalPause({ ...DEFAULTS, ...given });
  }
  if (typeof wait === 'number' && wait >= 0) return wait;
  throw typeError(
    "'lock'",
    `'retries' is ${describe(retries)} with a value that is negative or not a number; expected a ` +
      'number of retries, an array of pauses in milliseconds, or options of the package retry.',
  );
}

/** @param {typeof DEFAULTS} options @returns {number} milliseconds from first to last try */
function totalPause({ retries, factor, minTimeout, maxTimeout, maxRetryTime, forever }) {
  if (forever || retries === FOREVER) return maxRetryTime;
  if (minTimeout > maxTimeout) {
    throw typeError(
      "'lock'",
      `'minTimeout' is ${describe(minTimeout)}; expected at most 'maxTimeout', which is ` +
        `${describe(maxTimeout)}.`,
    );
  }
  let time = 0;
  let pause = Math.max(minTimeout, 1);
  for (let left = retries; left > 0 && time < maxRetryTime; left--) {
    // All later pauses have the same length.
    if (pause >= maxTimeout || factor === 1) {
      time += left * Math.min(pause, maxTimeout);
      break;
    }
    // This pause and all later ones round to 0.
    if (factor < 1 && pause < 0.5) break;
    time += Math.round(pause);
    pause *= factor;
  }
  return Math.min(time, maxRetryTime);
}

module.exports = { toOptions, toSyncOptions };
