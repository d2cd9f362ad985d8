'use strict';

const { captureStackTrace } = Error;

/**
 * Captures the stack of a call, whatever form users' code gave to stacks.
 * @param {Function} callee its caller is the first frame
 * @param {number} most frames
 * @param {(error: Error, frames: NodeJS.CallSite[]) => string} describe
 * @returns {string} what `describe` returned; '' if somebody froze Error
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

module.exports = { describeStack };
