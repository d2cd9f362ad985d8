'use strict';

/**
 * Errors of all parts. The names are the specification's (section 3.2.1); where it has none for a
 * fault, the error is a plain one with a `code`. Those about one lock are in
 * extensions/lock-errors.js.
 */

const { DOMException } = require('./realm.js');

const { assign } = Object;
const { stringify } = JSON;

/**
 * A failed conversion or call; message in the form browsers use.
 * @param {string} operation what was called, such as `'request' on 'LockManager'`
 * @param {string} problem what was given and what is wanted
 * @returns {TypeError}
 */
const typeError = (operation, problem) =>
  new TypeError(`Failed to execute ${operation}: ${problem}`);

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
const notSupportedError = (message) => new DOMException(message, 'NotSupportedError');

/**
 * The agent is gone: this thread's environment is shutting down.
 * @returns {DOMException} named `InvalidStateError`
 */
const closedError = () =>
  new DOMException('The environment of this lock manager is shutting down.', 'InvalidStateError');

/**
 * @param {unknown} [cause] why it could not be opened before
 * @returns {DOMException} named `InvalidStateError`
 */
function bucketClosedError(cause) {
  const message = 'The storage bucket of this lock manager was closed.';
  const error = new DOMException(message, 'InvalidStateError');
  return cause === undefined ? error : assign(error, { cause });
}

/**
 * @param {string} what could not be done
 * @returns {RangeError} with the code `ERR_WEB_LOCKS_NO_MEMORY`
 */
const noMemoryError = (what) =>
  assign(new RangeError(`Out of memory: ${what}.`), { code: 'ERR_WEB_LOCKS_NO_MEMORY' });

/**
 * @param {string} message
 * @param {string} code
 * @param {ErrorOptions} [options]
 * @returns {Error}
 */
const plainError = (message, code, options) => assign(new Error(message, options), { code });

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
  bucketClosedError,
  capitalized,
  closedError,
  illegalInvocation,
  noMemoryError,
  notSupportedError,
  plainError,
  quote,
  typeError,
};
