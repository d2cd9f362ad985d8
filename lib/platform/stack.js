'use strict';

const path = require('node:path');

const { captureStackTrace } = Error;

/** The directory of the library's files; in a bundle, other code may be there as well. */
const LIBRARY = path.join(__dirname, '..') + path.sep;

/**
 * Captures the stack of a call, even if user code has changed how stacks are formatted.
 * @param {Function} callee the function whose caller is the first frame
 * @param {number} most the most frames to capture
 * @param {(error: Error, frames: NodeJS.CallSite[]) => string} describe
 * @returns {string} the result of `describe`; '' if Error is frozen
 */
function describeStack(callee, most, describe) {
  const holder = { stack: '' };
  try {
    const { prepareStackTrace, stackTraceLimit } = Error;
    Error.prepareStackTrace = describe;
    Error.stackTraceLimit = most;
    try {
      captureStackTrace(holder, callee);
      return holder.stack;
    } finally {
      Error.prepareStackTrace = prepareStackTrace;
      Error.stackTraceLimit = stackTraceLimit;
    }
  } catch {
    return '';
  }
}

module.exports = { LIBRARY, describeStack };
