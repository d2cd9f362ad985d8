'use strict';

/**
 * `web-locks/profile`: records which requests waited for which locks, from a call of
 * `startProfile()` on; with `node --import web-locks/profile`, from the start of the program.
 * WEB_LOCKS_PROFILE names the file, and WEB_LOCKS_PROFILE_SIZE sets the number of bytes for each
 * thread. WEB_LOCKS_PROFILE_SITES=0 leaves out call sites, which makes the profile cheaper.
 */

const path = require('node:path');
const process = require('node:process');
const { isMainThread } = require('node:worker_threads');
const { readSetting } = require('./platform/environment.js');
const { doBeforeSignals } = require('./platform/signals.js');
const { SIZES, isProfileSize, startProfile } = require('./profile/profile.js');

/** Whether the command line or NODE_OPTIONS loads this module. */
function isPreloaded() {
  const words = [...process.execArgv, ...(process.env.NODE_OPTIONS ?? '').split(/\s+/)];
  return words.some((word, i) => {
    const joined = /^--(?:import|require)=(.*)$/.exec(word);
    if (joined) return isThisModule(joined[1]);
    return /^(?:--import|--require|-r)$/.test(words[i - 1]) && isThisModule(word);
  });
}

/** @param {string} specifier */
const isThisModule = (specifier) =>
  specifier === 'web-locks/profile' ||
  path.resolve(specifier.replace(/^file:\/\//, '')).replace(/\.mjs$/, '.js') === __filename;

/** Returns undefined if the size is not allowed. @param {string} text */
const toSize = (text) => (isProfileSize(Number(text)) ? Number(text) : undefined);

/** @param {string} text @returns {boolean | undefined} undefined unless the text is 0 or 1 */
const toSites = (text) => (text === '0' ? false : text === '1' || undefined);

if (isPreloaded()) {
  const profile = startProfile({
    file: process.env.WEB_LOCKS_PROFILE || undefined,
    size: readSetting('WEB_LOCKS_PROFILE_SIZE', toSize, SIZES),
    sites: readSetting('WEB_LOCKS_PROFILE_SITES', toSites, "'0' or '1'") ?? true,
  });
  if (isMainThread) {
    doBeforeSignals(['SIGINT', 'SIGTERM'], (isHandled) => {
      // If the program handles the signal itself, its 'exit' event ends the profile.
      if (!isHandled) profile.end();
    });
  }
}

module.exports = { startProfile };
