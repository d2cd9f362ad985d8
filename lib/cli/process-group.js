'use strict';

/**
 * Ends a command when this process is killed. On Windows that includes everything that the command
 * started: the end of the cmd of a batch file, for instance, does not end the programs that it
 * runs. On Linux the kernel kills the command alone. Elsewhere nothing happens.
 */

const process = require('node:process');

const SYSTEMS = ['linux', 'win32'];

/** Locks at a server need no binary; without one, the command survives this process. */
function loadAddon() {
  if (!SYSTEMS.includes(process.platform)) return undefined;
  try {
    return require('../backend/addon.js').addon;
  } catch {
    return undefined;
  }
}

/**
 * Puts the processes that this thread starts from now on into the group.
 * @param {boolean} endsWithUs whether the group ends when this process ends, however it ends
 */
const keepProcessGroup = (endsWithUs) => loadAddon()?.keepProcessGroup(endsWithUs);

/** On Windows, ends all processes of the group but this one. */
const endProcessGroup = () => loadAddon()?.endProcessGroup();

module.exports = { endProcessGroup, keepProcessGroup };
