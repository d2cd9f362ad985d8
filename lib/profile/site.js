'use strict';

/** Where users' code asked for a lock. */

const path = require('node:path');
const process = require('node:process');

const { describeStack } = require('../platform/stack.js');

/** Files below this folder are the library's. */
const library = path.join(__dirname, '..') + path.sep;

/** The folder that the program was started in, which is left out of each site. */
const folder = (() => {
  try {
    return process.cwd() + path.sep;
  } catch {
    // It was removed.
    return '';
  }
})();

/** A frame costs more than all else that is recorded: as few as lead out of the library first. */
const FEW = 10;
const MANY = 25;

/**
 * @returns {string} the innermost frame that is users', such as `save (store.js:12:5)`; '' where
 *   there is none
 */
const callSite = () =>
  describeStack(callSite, FEW, usersFrame) || describeStack(callSite, MANY, usersFrame);

/**
 * @param {Error} _error
 * @param {NodeJS.CallSite[]} frames
 */
function usersFrame(_error, frames) {
  for (let i = 0; i < frames.length; i++) {
    const file = frames[i].getFileName() ?? '';
    if (!file || file.startsWith('node:') || file.startsWith(library)) continue;
    return String(frames[i]).replace('file://', '').replace(folder, '');
  }
  return '';
}

module.exports = { callSite, folder };
