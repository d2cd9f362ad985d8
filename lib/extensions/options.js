'use strict';

/** What the options of a request can say beyond the specification. */

const { notSupportedError, typeError } = require('../platform/errors.js');
const { checkOptions } = require('../standard/lock-manager.js');
const {
  defaultOptions: standardDefaults,
  describe,
  toDOMString,
  toLockOptions,
} = require('../standard/webidl.js');

/**
 * @typedef {object} Extension
 * @property {'reject' | undefined} deadlock
 * @property {number | undefined} holdTimeout milliseconds
 * @property {string | undefined} label
 * @property {number | undefined} limit
 * @property {number | undefined} maxPending
 * @property {boolean} reentrant
 * @property {number | undefined} timeout milliseconds
 * @property {number | undefined} warnAfter milliseconds
 * @property {number | undefined} weight
 */
/** @typedef {import('../standard/webidl.js').LockOptions & Extension} RequestOptions */

/** @type {Readonly<RequestOptions>} */
const defaultOptions = Object.freeze({
  ...standardDefaults,
  deadlock: undefined,
  holdTimeout: undefined,
  label: undefined,
  limit: undefined,
  maxPending: undefined,
  reentrant: false,
  timeout: undefined,
  warnAfter: undefined,
  weight: undefined,
});

/**
 * As `toLockOptions`. Extensions come after the standard's members, whose reading they must not
 * change.
 * @param {any} value
 * @param {string} operation for the messages
 * @returns {Readonly<RequestOptions>}
 */
function toOptions(value, operation) {
  const standard = toLockOptions(value, operation);
  if (standard === standardDefaults) return defaultOptions;
  const { ifAvailable, mode, signal, steal } = standard;
  const deadlock = value.deadlock;
  if (deadlock !== undefined && deadlock !== 'reject') {
    throw typeError(operation, `The 'deadlock' option is ${describe(deadlock)}, not 'reject'.`);
  }
  const holdTimeout = toMilliseconds(value.holdTimeout, operation, "The 'holdTimeout' option");
  if (holdTimeout === 0) {
    throw typeError(operation, "The 'holdTimeout' option is 0: milliseconds, more than 0.");
  }
  const givenLabel = value.label;
  const label =
    givenLabel === undefined ? undefined : toDOMString(givenLabel, operation, "The 'label' option");
  const limit = toCount(value.limit, 1, operation, "The 'limit' option");
  const maxPending = toCount(value.maxPending, 0, operation, "The 'maxPending' option");
  const reentrant = Boolean(value.reentrant);
  const timeout = toMilliseconds(value.timeout, operation, "The 'timeout' option");
  const warnAfter = toMilliseconds(value.warnAfter, operation, "The 'warnAfter' option");
  const weight = toCount(value.weight, 1, operation, "The 'weight' option");
  return {
    ifAvailable,
    mode,
    signal,
    steal,
    deadlock,
    holdTimeout,
    label,
    limit,
    maxPending,
    reentrant,
    timeout,
    warnAfter,
    weight,
  };
}

/** The most that a count can be. */
const MOST = 2 ** 31 - 1;

/**
 * @param {any} value
 * @param {number} least
 * @param {string} operation for the message
 * @param {string} what the argument is, for the message
 * @returns {number | undefined} a whole number from `least` to MOST, or undefined
 */
function toCount(value, least, operation, what) {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value >= least && value <= MOST && value % 1 === 0) return value;
  const wanted = `a whole number from ${least} to 2^31 - 1`;
  throw typeError(operation, `${what} is ${describe(value)}, not ${wanted}.`);
}

/**
 * @param {any} value
 * @param {string} operation for the message
 * @param {string} what the argument is, for the message
 * @returns {number | undefined} not negative and finite, or undefined
 */
function toMilliseconds(value, operation, what) {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value >= 0 && value < Number.POSITIVE_INFINITY) return value;
  throw typeError(operation, `${what} is ${describe(value)}, not a number of milliseconds.`);
}

/**
 * Options that fit together, as the standard's `checkOptions`.
 * @param {Readonly<RequestOptions>} options
 */
function checkRequest(options) {
  checkOptions(options);
  if (options.limit !== undefined || options.weight !== undefined) checkUnits(options);
  const { ifAvailable, steal, timeout } = options;
  if (timeout === undefined || !(steal || ifAvailable)) return;
  throw notSupportedError(
    `The 'timeout' and '${steal ? 'steal' : 'ifAvailable'}' options cannot be used together.`,
  );
}

/** @param {Readonly<RequestOptions>} options */
function checkUnits({ limit, mode, weight = 1 }) {
  if (limit === undefined) throw new TypeError("The 'weight' option needs a 'limit'.");
  if (mode !== 'shared') throw new TypeError("The 'limit' option needs the mode 'shared'.");
  if (weight > limit) {
    throw new TypeError(
      `The 'weight' option is ${weight}, which is more than the limit, ${limit}.`,
    );
  }
}

/**
 * Refuses options that make no sense where they are given.
 * @param {Readonly<RequestOptions>} options
 * @param {readonly (keyof RequestOptions)[]} names
 * @param {string} operation for the message
 */
function refuse(options, names, operation) {
  for (let i = 0; i < names.length; i++) {
    if (!options[names[i]]) continue;
    throw notSupportedError(`The '${names[i]}' option cannot be used with ${operation}.`);
  }
}

module.exports = { checkRequest, defaultOptions, refuse, toCount, toOptions };
