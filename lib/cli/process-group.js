'use strict';

/**
 * Makes a command end if this process is killed. On Windows, all processes that the command started
 * end as well. (If only the cmd process of a batch file ended, for example, the programs that it
 * runs would go on.) On Linux, the kernel kills the command alone. On other systems, the command
 * goes on.
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

/**
 * Makes `signalThatEndedChild` work. Must be called directly after the child was started.
 * @param {number} child its process id
 */
const watchChild = (child) => loadAddon()?.watchChild(child);

/**
 * On Linux, returns the number of the signal that ended the child; 0 if none did, and on other
 * systems. It is for real-time signals: they have no names, and Node.js reports only the status 0.
 * @returns {number}
 */
const signalThatEndedChild = () => loadAddon()?.signalOfChild() ?? 0;

module.exports = { endProcessGroup, keepProcessGroup, signalThatEndedChild, watchChild };
