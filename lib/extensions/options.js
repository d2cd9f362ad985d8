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
 * @property {boolean} reentrant
 * @property {number | undefined} timeout milliseconds
 * @property {number | undefined} warnAfter milliseconds
 */
/** @typedef {import('../standard/webidl.js').LockOptions & Extension} RequestOptions */

/** @type {Readonly<RequestOptions>} */
const defaultOptions = Object.freeze({
  ...standardDefaults,
  deadlock: undefined,
  holdTimeout: undefined,
  label: undefined,
  reentrant: false,
  timeout: undefined,
  warnAfter: undefined,
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
  if (holdTimeout === 0) throw typeError(operation, "The 'holdTimeout' option is 0.");
  const givenLabel = value.label;
  const label =
    givenLabel === undefined ? undefined : toDOMString(givenLabel, operation, "The 'label' option");
  const reentrant = Boolean(value.reentrant);
  const timeout = toMilliseconds(value.timeout, operation, "The 'timeout' option");
  const warnAfter = toMilliseconds(value.warnAfter, operation, "The 'warnAfter' option");
  return {
    ifAvailable,
    mode,
    signal,
    steal,
    deadlock,
    holdTimeout,
    label,
    reentrant,
    timeout,
    warnAfter,
  };
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
  const { ifAvailable, steal, timeout } = options;
  if (timeout === undefined || !(steal || ifAvailable)) return;
  throw notSupportedError(
    `The 'timeout' and '${steal ? 'steal' : 'ifAvailable'}' options cannot be used together.`,
  );
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

module.exports = { checkRequest, defaultOptions, refuse, toOptions };
