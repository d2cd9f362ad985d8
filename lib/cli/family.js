'use strict';

/**
 * A command with all that it has started, on Windows: there the end of a process, such as the cmd
 * of a batch file, is not that of the programs that it runs, and there is no signal that asks it to
 * end them. Elsewhere nothing happens: those who start others end them.
 */

const process = require('node:process');

/** The locks of a server need no binary: without one it is the command alone that ends. */
function load() {
  if (process.platform !== 'win32') return undefined;
  try {
    return require('../backend/addon.js').addon;
  } catch {
    return undefined;
  }
}

/**
 * What is started from now on is of this process's family.
 * @param {boolean} endsWithUs whether all of it ends when this process does, killed or not
 */
const keepFamily = (endsWithUs) => load()?.keepFamily(endsWithUs);

/** Ends all of it but this process. */
const endFamily = () => load()?.endFamily();

module.exports = { endFamily, keepFamily };
