'use strict';

/** Publishes a value: the details of a held lock then tell it as `data`. */

const { Buffer } = require('node:buffer');
const { types } = require('node:util');
const { NO_TAG } = require('../../backend/contract.js');
const {
  describe,
  notSupportedError,
  typeError,
  withErrorCode,
} = require('../../platform/errors.js');

/** @typedef {InstanceType<typeof import('./request.js').Request>} Request */

const { byteLength } = Buffer;
const { assign, getOwnPropertyDescriptor } = Object;
const { stringify } = JSON;

/** The greatest length of what is published, as JSON text in UTF-8. */
const MOST_BYTES = 4_096;

/**
 * A method of `Lock` and of `Leader`. The text is made before anything about the lock is read,
 * because a `toJSON` of the user may release the lock, or publish something else.
 * @param {Request} request a granted request @param {unknown} value
 * @param {string} interfaceName of the object on which users called the method
 * @returns {Promise<boolean>} false if the lock is no longer held
 */
async function publish(request, value, interfaceName) {
  const lock = request.rootLock;
  const { backend } = lock;
  if (!backend.publish) throw notSupportedError('This engine does not support publish().');
  const text = value === undefined ? undefined : toText(value, `'publish' on '${interfaceName}'`);
  if (!request.checkHeld()) return false;
  const number = ++lock.publications;
  let answer;
  try {
    answer = backend.publish(lock, text);
    if (answer === true) noteText(lock, text, number);
    // The call may have found out that the lock was stolen.
    backend.announce();
  } catch (error) {
    // On a stack overflow, the event loop announces the loss: see contract.js.
    backend.undo(NO_TAG);
    throw error;
  }
  if (typeof answer === 'boolean') return answer;
  const isPublished = await answer;
  if (isPublished) noteText(lock, text, number);
  return isPublished;
}

/**
 * Sets `published`, unless a later publication has set it: the host scope may answer that one
 * first.
 * @param {Request} lock @param {string | undefined} text @param {number} number of the publication
 */
function noteText(lock, text, number) {
  if (number < lock.publishedLast) return;
  lock.published = text;
  lock.publishedLast = number;
}

/** @param {unknown} value @param {string} operation @returns {string} JSON */
function toText(value, operation) {
  let text;
  try {
    text = stringify(value);
  } catch (error) {
    const problem = `the value cannot be expressed as JSON${becauseOf(error)}.`;
    throw assign(typeError(operation, problem), { cause: error });
  }
  if (text === undefined)
    throw typeError(operation, `${describe(value)} cannot be expressed as JSON.`);
  const bytes = byteLength(text);
  if (bytes > MOST_BYTES) throw tooLongError(bytes, operation);
  return text;
}

/** Runs no user code. @param {any} error what `toJSON` of a user, or JSON.stringify, has thrown */
function becauseOf(error) {
  if (!types.isNativeError(error)) return `: ${describe(error)} was thrown`;
  const message = getOwnPropertyDescriptor(error, 'message')?.value;
  if (typeof message !== 'string') return '';
  // V8 draws the path of a circle on further lines.
  const [line] = message.split('\n', 1);
  return `: ${line.endsWith('.') ? line.slice(0, -1) : line}`;
}

/** @param {number} bytes @param {string} operation */
function tooLongError(bytes, operation) {
  const error = new RangeError(
    `Failed to execute ${operation}: the JSON text of the value has ${bytes} bytes; at most ` +
      `${MOST_BYTES} are allowed.`,
  );
  return withErrorCode(error, 'ERR_WEB_LOCKS_INVALID_ARGUMENT');
}

module.exports = { MOST_BYTES, publish };
