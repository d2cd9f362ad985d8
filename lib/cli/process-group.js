'use strict';

/**
 * Ends a command when this process is killed. On Windows that includes all processes that the
 * command started: ending only the cmd process of a batch file, for example, would not end the
 * programs that it runs. On Linux the kernel kills the command alone. Elsewhere nothing happens.
 */

const process = require('node:process');

const SYSTEMS = ['linux', 'win32'];

/**
 * Returns undefined if there is no binary, because locks on a server work without it. The command
 * then survives this process.
 */
function loadAddon() {
  if (!SYSTEMS.includes(process.platform)) return undefined;
  try {
    return require('../backend/addon.js').addon;
  } catch {
    return undefined;
  }
}

/**
 * Makes all processes that this thread starts from now on members of the group.
 * @param {boolean} endsWithUs whether the group ends when this process ends for any reason
 */
const keepProcessGroup = (endsWithUs) => loadAddon()?.keepProcessGroup(endsWithUs);

/** On Windows, ends all processes of the group except this one. */
const endProcessGroup = () => loadAddon()?.endProcessGroup();

/**
 * Records which signal ends a child. It must be called directly after the child was started.
 * @param {number} child its process id
 */
const watchChild = (child) => loadAddon()?.watchChild(child);

/**
 * @returns {number} the signal that ended the child, even if Node.js has no name for it (a
 *   real-time signal) and reports the status 0; 0 if no signal ended the child, or the system is
 *   not Linux
 */
const signalOfChild = () => loadAddon()?.signalOfChild() ?? 0;

module.exports = { endProcessGroup, keepProcessGroup, signalOfChild, watchChild };
