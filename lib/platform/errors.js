'use strict';

/**
 * Errors of all parts. The names are the specification's (section 3.2.1); where it has none for a
 * fault, the error is a plain one with a `code`. Errors about one lock are in
 * extensions/lock-errors.js.
 */

const { inspect } = require('node:util');
const { DOMException } = require('./realm.js');

const { assign, defineProperty } = Object;
const { stringify } = JSON;

/**
 * Gives an error of ours its `errorCode`. It is not the `code`, which is a number of DOMExceptions.
 * @template {Error} E
 * @param {E} error
 * @param {string} errorCode
 * @returns {E}
 */
function withErrorCode(error, errorCode) {
  const isShown = /** @type {any} */ (error).code !== errorCode;
  defineProperty(
    error,
    'errorCode',
    /** @type {any} */ ({
      __proto__: null,
      value: errorCode,
      writable: true,
      enumerable: isShown,
      configurable: true,
    }),
  );
  return error;
}

/**
 * @param {string} message
 * @returns {TypeError}
 */
const argumentError = (message) =>
  withErrorCode(new TypeError(message), 'ERR_WEB_LOCKS_INVALID_ARGUMENT');

/**
 * A failed conversion or call; message in the form browsers use.
 * @param {string} operation what was called, such as `'request' on 'LockManager'`
 * @param {string} problem what was given and what is wanted
 * @returns {TypeError}
 */
const typeError = (operation, problem) =>
  argumentError(`Failed to execute ${operation}: ${problem}`);

/**
 * @param {string} operation what was called
 * @param {string} interfaceName that `this` is not of
 */
const illegalInvocation = (operation, interfaceName) =>
  typeError(operation, `Illegal invocation, this is not a ${interfaceName}.`);

/**
 * @param {string} message
 * @returns {DOMException} named `NotSupportedError`
 */
const notSupportedError = (message) =>
  withErrorCode(new DOMException(message, 'NotSupportedError'), 'ERR_WEB_LOCKS_NOT_SUPPORTED');

/** @param {string} message */
const invalidStateError = (message) =>
  withErrorCode(new DOMException(message, 'InvalidStateError'), 'ERR_WEB_LOCKS_CLOSED');

/**
 * The agent is gone: this thread's environment is shutting down.
 * @returns {DOMException} named `InvalidStateError`
 */
const closedError = () =>
  invalidStateError('The environment of this lock manager is shutting down.');

/**
 * @param {unknown} [cause] why it could not be opened before
 * @returns {DOMException} named `InvalidStateError`
 */
function bucketClosedError(cause) {
  const error = invalidStateError('The storage bucket of this lock manager was closed.');
  return cause === undefined ? error : assign(error, { cause });
}

/**
 * @param {string} what could not be done
 * @returns {RangeError} with the code `ERR_WEB_LOCKS_NO_MEMORY`
 */
const noMemoryError = (what) =>
  withCode(new RangeError(`Out of memory: ${what}.`), 'ERR_WEB_LOCKS_NO_MEMORY');

/**
 * @param {string} message
 * @param {string} code
 * @param {ErrorOptions} [options]
 * @returns {Error}
 */
const plainError = (message, code, options) => withCode(new Error(message, options), code);

/**
 * @template {Error} E
 * @param {E} error
 * @param {string} code also as its `code`
 * @returns {E}
 */
const withCode = (error, code) => withErrorCode(assign(error, { code }), code);

/**
 * @param {any} value that a user gave
 * @returns {string} what it is, in a few words; runs no code of the value's
 */
function describe(value) {
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'object' && value !== null) return 'an object';
  return inspect(value, { maxStringLength: 40 });
}

/**
 * @param {string} name possibly very long
 * @returns {string} fit for a message
 */
function quote(name) {
  return stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
}

/**
 * @param {string} text that is not empty
 * @returns {string} fit for the beginning of a sentence
 */
const capitalized = (text) => text[0].toUpperCase() + text.slice(1);

module.exports = {
  argumentError,
  bucketClosedError,
  capitalized,
  closedError,
  describe,
  illegalInvocation,
  noMemoryError,
  notSupportedError,
  plainError,
  quote,
  typeError,
  withCode,
  withErrorCode,
};
