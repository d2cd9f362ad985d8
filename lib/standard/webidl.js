'use strict';

/**
 * The conversions of WebIDL that the API needs, and the shape of its interfaces. A conversion that
 * fails throws a TypeError whose message names the call (`operation`) and the argument (`what`).
 */

const { inspect } = require('node:util');
const { describe, notSupportedError, quote, typeError } = require('../platform/errors.js');
const abort = require('./abort.js');

const { keys } = Object;

/** @import { LockMode } from '../backend/contract.js' */

/**
 * A LockOptions dictionary (section 3.2 of the specification) after conversion.
 * @typedef {{ ifAvailable: boolean, mode: LockMode, signal: AbortSignal | undefined,
 *   steal: boolean }} LockOptions
 */

/** @type {Readonly<LockOptions>} */
const defaultOptions = Object.freeze({
  ifAvailable: false,
  mode: 'exclusive',
  signal: undefined,
  steal: false,
});

/** @param {any} value @param {string} operation @param {string} what @returns {string} */
function toDOMString(value, operation, what) {
  if (typeof value === 'string') return value;
  if (typeof value === 'symbol') {
    throw typeError(operation, `${what} is a Symbol and cannot be converted to a string.`);
  }
  return `${value}`;
}

/** Section 3.2.1, step 5. @param {string} name @throws {DOMException} if the name is reserved */
function checkName(name) {
  if (name[0] === '-') {
    throw notSupportedError(`The name ${quote(name)} starts with '-': such names are reserved.`);
  }
}

/**
 * @param {any} value @param {string} operation @param {string} what
 * @returns {(...args: any[]) => any}
 */
function toCallback(value, operation, what) {
  if (typeof value === 'function') return value;
  throw typeError(operation, `${what} is ${describe(value)}; expected a function.`);
}

/** @param {any} value @param {string} operation @returns {LockMode} */
function toLockMode(value, operation) {
  const mode = toDOMString(value, operation, "The 'mode' option");
  if (mode === 'exclusive' || mode === 'shared') return mode;
  throw typeError(
    operation,
    `The 'mode' option is ${inspect(mode)}; expected 'exclusive' or 'shared'.`,
  );
}

/**
 * Reads each member once, in lexicographical order, and converts it before it reads the next.
 * @param {any} value @param {string} operation @param {(signal: any) => boolean} [isAbortSignal]
 * @returns {Readonly<LockOptions>}
 */
function toLockOptions(value, operation, isAbortSignal = abort.isAbortSignal) {
  if (value === undefined || value === null) return defaultOptions;
  if (typeof value !== 'object' && typeof value !== 'function') {
    throw typeError(operation, `The options are ${describe(value)}; expected an object.`);
  }
  const ifAvailable = Boolean(value.ifAvailable);
  const givenMode = value.mode;
  const mode = givenMode === undefined ? 'exclusive' : toLockMode(givenMode, operation);
  const signal = value.signal;
  if (signal !== undefined && !isAbortSignal(signal)) {
    throw typeError(
      operation,
      `The 'signal' option is ${describe(signal)}; expected an AbortSignal.`,
    );
  }
  const steal = Boolean(value.steal);
  return { ifAvailable, mode, signal, steal };
}

/** @param {number} count @param {number} needed @param {string} operation */
function requireArguments(count, needed, operation) {
  if (count >= needed) return;
  const arguments_ = needed === 1 ? '1 argument' : `${needed} arguments`;
  throw typeError(operation, `${arguments_} required, but only ${count} present.`);
}

/**
 * Gives a class the enumerable members and the `Symbol.toStringTag` of a WebIDL interface.
 * @param {Function} interfaceClass @param {string[]} members names on the prototype
 */
function defineInterface(interfaceClass, members) {
  const { prototype } = interfaceClass;
  for (const member of members) Object.defineProperty(prototype, member, { enumerable: true });
  Object.defineProperty(prototype, Symbol.toStringTag, {
    value: interfaceClass.name,
    writable: false,
    enumerable: false,
    configurable: true,
  });
}

/**
 * @param {any} options @param {readonly string[]} names @param {string} operation
 * @param {readonly string[]} [more] further names
 */
function rejectUnknownOptions(options, names, operation, more = []) {
  if (options === undefined || options === null) return;
  const given = keys(options);
  for (let i = 0; i < given.length; i++) {
    const name = given[i];
    if (includes(names, name) || includes(more, name) || options[name] === undefined) continue;
    throw typeError(operation, `The option '${name}' is not supported here.`);
  }
}

/** @param {readonly string[]} list @param {string} value */
function includes(list, value) {
  for (let i = 0; i < list.length; i++) if (list[i] === value) return true;
  return false;
}

module.exports = {
  checkName,
  defaultOptions,
  defineInterface,
  describe,
  requireArguments,
  rejectUnknownOptions,
  toCallback,
  toDOMString,
  toLockMode,
  toLockOptions,
};
