'use strict';

/**
 * Shows in stacks of errors and in warnings where a lock was requested: an error that is made when
 * a timer
 * fires or another thread steals has no frame of users' code in its own stack.
 */

const path = require('node:path');
const { then } = require('../platform/intrinsics.js');
const { describeStack } = require('../platform/stack.js');

const { captureStackTrace } = Error;
const { defineProperty } = Object;

/** @typedef {{ stack: string }} Origin an object with a stack that is not text yet */

/**
 * @param {Function} callee
 * @returns {Origin} where it was called. It becomes text when it is read; until then the engine
 *   keeps what was called there
 */
function originOf(callee) {
  const origin = { stack: '' };
  captureStackTrace(origin, callee);
  return origin;
}

/**
 * @param {Origin} origin
 * @returns {Origin | undefined} the same as text, which keeps nothing alive
 */
function asText(origin) {
  try {
    return { stack: `${origin.stack}` };
  } catch {
    // Users' code forms stacks, and threw.
    return undefined;
  }
}

/**
 * Makes an error whose stack is long enough to reach users' code.
 * @template {Error} E
 * @param {() => E} make
 * @returns {E}
 */
function withLongStack(make) {
  const { stackTraceLimit } = Error;
  try {
    Error.stackTraceLimit = Math.max(stackTraceLimit, LONG);
  } catch {
    // Somebody froze Error.
    return make();
  }
  try {
    return make();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** More frames than the library has of its own. */
const LONG = 30;

/**
 * @template {Error} E
 * @param {E} error
 * @param {Origin | undefined} origin
 * @returns {E} the error, whose stack now leads there
 */
function withOrigin(error, origin) {
  if (!origin) return error;
  try {
    const { stack } = origin;
    if (stack === '') return error;
    const value = `${error.name}: ${error.message}\n${framesOf(stack)}`;
    defineProperty(error, 'stack', attributesOf(value));
  } catch {
    // Users' code can have its own form of stacks, and throw: then the error has its own.
  }
  return error;
}

/**
 * @param {string} value
 * @returns {PropertyDescriptor} with nothing that somebody put into Object.prototype
 */
const attributesOf = (value) =>
  /** @type {any} */ ({ __proto__: null, value, writable: true, configurable: true });

/** @param {string} stack */
const framesOf = (stack) => stack.slice(stack.indexOf('\n') + 1);

/** What tells where a handle was acquired has so many lines. */
const FRAMES = 4;

/** Where the frames of the library are. */
const LIBRARY = path.join(__dirname, '..') + path.sep;

/**
 * @param {Origin | undefined} origin
 * @returns {string} the first frames of users' code; '' if they are not known
 */
function placeOf(origin) {
  const text = origin && asText(origin);
  if (!text) return '';
  const frames = framesOf(text.stack);
  // In a bundle the library is where users' code is.
  return firstFrames(frames, LIBRARY) || firstFrames(frames);
}

/**
 * By no function of arrays: users can replace those.
 * @param {string} frames one a line
 * @param {string} [without] leaves out frames that have this
 */
function firstFrames(frames, without) {
  let first = '';
  let count = 0;
  for (let at = 0; at < frames.length && count < FRAMES; ) {
    const end = frames.indexOf('\n', at);
    const frame = frames.slice(at, end < 0 ? frames.length : end);
    at += frame.length + 1;
    if (without && frame.includes(without)) continue;
    first += count === 0 ? frame : `\n${frame}`;
    count++;
  }
  return first;
}

/**
 * As text from the start: what has it keeps nothing alive, neither what has the handle.
 * @param {Function} callee
 * @returns {string} where it was called
 */
const callSite = (callee) => describeStack(callee, FRAMES, describeFrames);

/**
 * @param {Error} _error
 * @param {NodeJS.CallSite[]} frames
 */
function describeFrames(_error, frames) {
  let text = '';
  for (let i = 0; i < frames.length; i++) text += `${i ? '\n' : ''}    at ${frames[i]}`;
  return text;
}

/**
 * Lets a request that nobody gave a time limit reject its promise where the stack has those who
 * wait for that promise: in an async function whose own promise leads to it. The engine finds them
 * when an error is made, and not before.
 * @param {{ resolve?: (value?: any) => void, reject?: (error?: any) => void }} request
 * @param {() => void} tell makes the error and rejects; before that nothing settles the promise
 */
function inTheirStack({ resolve, reject }, tell) {
  const telling = inMicrotask(tell);
  try {
    // Only the engine looks at this reaction: the promise is settled by then.
    then(telling, resolve, reject);
  } catch {
    // Somebody changed what promises are made of: the error has no frames then.
  }
}

/** @param {() => void} tell */
async function inMicrotask(tell) {
  await undefined;
  tell();
}

module.exports = { asText, callSite, inTheirStack, originOf, placeOf, withLongStack, withOrigin };
