'use strict';

/**
 * Makes the errors that all parts use. (lib/extensions/errors makes the errors of a lock.) An error
 * that the specification names (section 3.2.1) is a DOMException with this name.
 */

const { inspect } = require('node:util');
const { DOMException } = require('./realm.js');

const { assign, defineProperty } = Object;
const { stringify } = JSON;

/**
 * Sets `errorCode` and not `code`, because the `code` of a DOMException is a number.
 * @template {Error} E @param {E} error @param {string} errorCode
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

/** Makes a TypeError with exactly this message. @param {string} message */
const argumentError = (message) =>
  withErrorCode(new TypeError(message), 'ERR_WEB_LOCKS_INVALID_ARGUMENT');

/**
 * The message has the form that browsers use.
 * @param {string} operation for example `'request' on 'LockManager'`
 * @param {string} problem what was given, and what is allowed
 */
const typeError = (operation, problem) =>
  argumentError(`Failed to execute ${operation}: ${problem}`);

/** @param {string} operation @param {string} interfaceName that of the required `this` */
const illegalInvocation = (operation, interfaceName) =>
  typeError(operation, `Illegal invocation: 'this' is not a ${interfaceName}.`);

/** @param {string} message */
const notSupportedError = (message) =>
  withErrorCode(new DOMException(message, 'NotSupportedError'), 'ERR_WEB_LOCKS_NOT_SUPPORTED');

/** The code of every InvalidStateError is ERR_WEB_LOCKS_CLOSED. @param {string} message */
const invalidStateError = (message) =>
  withErrorCode(new DOMException(message, 'InvalidStateError'), 'ERR_WEB_LOCKS_CLOSED');

/** The error of a call after this thread's agent has ended. */
const closedError = () =>
  invalidStateError('The environment of this lock manager is shutting down.');

/** @param {unknown} [cause] why the bucket could not be opened */
function bucketClosedError(cause) {
  const error = invalidStateError('The storage bucket of this lock manager was closed.');
  return cause === undefined ? error : assign(error, { cause });
}

/** @param {string} what the operation, as a gerund */
const noMemoryError = (what) =>
  withCode(new RangeError(`Out of memory while ${what}.`), 'ERR_WEB_LOCKS_NO_MEMORY');

/** @param {string} message @param {string} code @param {ErrorOptions} [options] */
const plainError = (message, code, options) => withCode(new Error(message, options), code);

/** Sets both `code` and `errorCode`. @template {Error} E @param {E} error @param {string} code */
const withCode = (error, code) => withErrorCode(assign(error, { code }), code);

/** Never calls getters or toString() of the value, which could run user code. @param {any} value */
function describe(value) {
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'object' && value !== null) return 'an object';
  return inspect(value, { maxStringLength: 40 });
}

/** Shortens long names. @param {string} name */
function quote(name) {
  return stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
}

/** @param {string} text not empty */
const capitalize = (text) => text[0].toUpperCase() + text.slice(1);

module.exports = {
  argumentError,
  bucketClosedError,
  capitalize,
  closedError,
  describe,
  illegalInvocation,
  invalidStateError,
  noMemoryError,
  notSupportedError,
  plainError,
  quote,
  typeError,
  withCode,
  withErrorCode,
};
