'use strict';

/**
 * Ends a command when this process is killed. On Windows, all processes that the command started
 * end as well: the end of the cmd process of a batch file, for example, would not end the programs
 * that it runs. On Linux, the kernel kills the command alone. Elsewhere nothing happens.
 */

const process = require('node:process');

const SYSTEMS = ['linux', 'win32'];

/** Returns undefined if there is no binary, because locks on a server work without it. */
function loadAddon() {
  if (!SYSTEMS.includes(process.platform)) return undefined;
  try {
    return require('../backend/addon.js').addon;
  } catch {
    return undefined;
  }
}

/** @param {boolean} endsWithUs whether commands that this thread starts later end with us */
const keepProcessGroup = (endsWithUs) => loadAddon()?.keepProcessGroup(endsWithUs);

/** On Windows, ends the command and all processes that it started. */
const endProcessGroup = () => loadAddon()?.endProcessGroup();

/** Must be called directly after the child was started. @param {number} child its process id */
const watchChild = (child) => loadAddon()?.watchChild(child);

/**
 * Returns the signal that ended the child on Linux, or 0. For a signal without a name (a real-time
 * signal), Node.js itself reports only the status 0. @returns {number}
 */
const signalThatEndedChild = () => loadAddon()?.signalOfChild() ?? 0;

module.exports = { endProcessGroup, keepProcessGroup, signalThatEndedChild, watchChild };
