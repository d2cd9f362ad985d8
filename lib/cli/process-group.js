'use strict';

/**
 * Ends a command when this process is killed. On Windows that includes everything that the command
 * started: the end of a process, such as the cmd of a batch file, is not the end of the programs
 * that it runs. On Linux the kernel kills the command alone. Elsewhere nothing happens.
 */

const process = require('node:process');

const SYSTEMS = ['linux', 'win32'];

/** The locks of a server need no binary. Without one the command survives this process. */
function load() {
  if (!SYSTEMS.includes(process.platform)) return undefined;
  try {
    return require('../backend/addon.js').addon;
  } catch {
    return undefined;
  }
}

/**
 * What this thread starts from now on belongs to the family.
 * @param {boolean} endsWithUs whether the family ends when this process does, killed or not
 */
const keepProcessGroup = (endsWithUs) => load()?.keepFamily(endsWithUs);

/** Ends all of it but this process, on Windows. */
const endProcessGroup = () => load()?.endFamily();

module.exports = { endProcessGroup, keepProcessGroup };
