'use strict';

/**
 * `web-locks/profile`: records which requests waited for which locks. If it is preloaded, it
 * profiles the program from its start to its end:
 *
 *   node --import web-locks/profile app.js
 *
 * WEB_LOCKS_PROFILE names the file, and WEB_LOCKS_PROFILE_SIZE sets the number of bytes for each
 * thread. WEB_LOCKS_PROFILE_SITES=0 leaves out call sites, which makes the profile cheaper. If the
 * module is imported by code, it does nothing until `startProfile()` is called.
 */

const path = require('node:path');
const process = require('node:process');
const { isMainThread } = require('node:worker_threads');
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

if (isPreloaded()) {
  const { env } = process;
  const size = env.WEB_LOCKS_PROFILE_SIZE ? Number(env.WEB_LOCKS_PROFILE_SIZE) : undefined;
  if (size !== undefined && !isProfileSize(size)) {
    throw new RangeError(
      `WEB_LOCKS_PROFILE_SIZE is '${env.WEB_LOCKS_PROFILE_SIZE}'; expected ${SIZES}.`,
    );
  }
  const profile = startProfile({
    file: env.WEB_LOCKS_PROFILE || undefined,
    size,
    sites: env.WEB_LOCKS_PROFILE_SITES !== '0',
  });
  if (isMainThread) {
    doBeforeSignals(['SIGINT', 'SIGTERM'], (isHandled) => {
      // If the program handles the signal itself, its 'exit' event ends the profile.
      if (!isHandled) profile.end();
    });
  }
}

module.exports = { startProfile };
