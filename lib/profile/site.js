'use strict';

/** Finds the place in user code that requested a lock. */

const path = require('node:path');
const process = require('node:process');

const { describeStack } = require('../platform/stack.js');

/** Files below this directory belong to the library. */
const library = path.join(__dirname, '..') + path.sep;

/** The directory in which the program was started. Call sites leave it out. */
const folder = (() => {
  try {
    return process.cwd() + path.sep;
  } catch {
    // The directory was removed.
    return '';
  }
})();

/** Stack frames are expensive: MANY are read only if the first FEW all belong to the library. */
const FEW = 10;
const MANY = 25;

/** @returns {string} such as `save (store.js:12:5)`; '' if only the library is on the stack */
const callSite = () =>
  describeStack(callSite, FEW, usersFrame) || describeStack(callSite, MANY, usersFrame);

/** @param {Error} _error @param {NodeJS.CallSite[]} frames */
function usersFrame(_error, frames) {
  for (let i = 0; i < frames.length; i++) {
    const file = frames[i].getFileName() ?? '';
    if (!file || file.startsWith('node:') || file.startsWith(library)) continue;
    return String(frames[i]).replace('file://', '').replace(folder, '');
  }
  return '';
}

module.exports = { callSite, folder };
