'use strict';

/**
 * Shows in stacks of errors and in warnings where a lock was requested. If a timer fires or another
 * thread steals the lock, the error's own stack has no frame of user code.
 */

const { then } = require('../../platform/intrinsics.js');
const { LIBRARY, describeStack } = require('../../platform/stack.js');

const { captureStackTrace } = Error;
const { defineProperty } = Object;

/**
 * The place of a call. `stack` becomes text when it is first read. Until then, it keeps the
 * functions that were on the stack alive.
 * @typedef {{ stack: string }} Origin
 */

/** @param {Function} callee the function whose caller is the place @returns {Origin} */
function originOf(callee) {
  const origin = { stack: '' };
  if (Error.stackTraceLimit >= ENOUGH) captureStackTrace(origin, callee);
  else withStackLimit(ENOUGH, () => captureStackTrace(origin, callee));
  return origin;
}

/**
 * Makes a copy that is only text. If user code that formats the stack throws, returns undefined.
 * @param {Origin} origin @returns {Origin | undefined}
 */
function withTextStack(origin) {
  try {
    return { stack: `${origin.stack}` };
  } catch {
    // User code may format stacks, and has thrown an error.
    return undefined;
  }
}

/** @template {Error} E @param {() => E} make */
const withLongStack = (make) => withStackLimit(LONG, make);

/**
 * @template T
 * @param {number} least the limit on frames, if users have set a lower one @param {() => T} make
 */
function withStackLimit(least, make) {
  const { stackTraceLimit } = Error;
  if (stackTraceLimit >= least) return make();
  try {
    Error.stackTraceLimit = least;
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

/** The default limit of V8, which leaves room for frames of user code besides the library's own. */
const ENOUGH = 10;

/** The library never has this many frames on the stack, so the stack reaches user code. */
const LONG = 30;

/**
 * Replaces the frames in the stack of the error.
 * @template {Error} E @param {E} error @param {Origin | undefined} origin
 */
function withOrigin(error, origin) {
  if (!origin) return error;
  try {
    const frames = framesOf(`${origin.stack}`);
    if (frames === '') return error;
    const value = `${error.name}: ${error.message}\n${frames}`;
    defineProperty(error, 'stack', descriptorOf(value));
  } catch {
    // User code may format stacks, and may throw an error. Then the error keeps its own stack.
  }
  return error;
}

/**
 * The result inherits nothing that users have put on Object.prototype.
 * @param {string} value @returns {PropertyDescriptor}
 */
const descriptorOf = (value) =>
  /** @type {any} */ ({ __proto__: null, value, writable: true, configurable: true });

/** Removes the message, which is the only line if there are no frames. @param {string} stack */
function framesOf(stack) {
  const end = stack.indexOf('\n');
  return end < 0 ? '' : stack.slice(end + 1);
}

/** The maximum number of frames in a place. */
const FRAMES = 4;

/** The first frames of user code; '' if they are unknown. @param {Origin | undefined} origin */
function placeOf(origin) {
  const text = origin && withTextStack(origin);
  if (!text) return '';
  const frames = framesOf(text.stack);
  // In a bundle, user code can be in the library's directory, so that no frames would be left.
  return firstFrames(frames, LIBRARY) || firstFrames(frames);
}

/**
 * Calls no methods of arrays, because users can replace them.
 * @param {string} frames one in each line @param {string} [without] part of frames to leave out
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

/** Like `originOf`, but makes the text at once. @param {Function} callee */
const callSite = (callee) => describeStack(callee, FRAMES, describeFrames);

/** @param {Error} _error @param {NodeJS.CallSite[]} frames */
function describeFrames(_error, frames) {
  let text = '';
  for (let i = 0; i < frames.length; i++) text += `${i ? '\n' : ''}    at ${frames[i]}`;
  return text;
}

/**
 * Rejects the promise of a request without an origin in such a way that the error's stack shows the
 * user's functions that await it. `tell` creates the error inside an async function. The promise of
 * that function is chained to the request's promise, and V8 follows this chain for the stack.
 * @param {{ resolve?: (value?: any) => void, reject?: (error?: any) => void }} request
 * @param {() => void} tell also rejects the promise, which nothing else may settle earlier
 */
function rejectInUsersStack({ resolve, reject }, tell) {
  const telling = inMicrotask(tell);
  try {
    // This is only the chain for V8: when the reaction runs, the promise is already settled.
    then(telling, resolve, reject);
  } catch {
    // User code has replaced parts of promises, so the error gets no frames.
  }
}

/** @param {() => void} tell */
async function inMicrotask(tell) {
  await undefined;
  tell();
}

module.exports = {
  withTextStack,
  callSite,
  rejectInUsersStack,
  originOf,
  placeOf,
  withLongStack,
  withOrigin,
};
