'use strict';

/**
 * Loaded before all else by each Node.js that runs under Wine (run.js). Wine 8 does not start a process
 * now and then, about one of some thousand Node.js's: libuv throws `spawn UNKNOWN`, before anything of
 * the new process has run. Then it is started once more, and standard error says so.
 */

const childProcess = require('node:child_process');

for (const name of ['fork', 'spawn']) {
  const start = childProcess[name];
  childProcess[name] = (...words) => {
    try {
      return start(...words);
    } catch (error) {
      if (error.code !== 'UNKNOWN') throw error;
      process.stderr.write(`Wine did not start a process: ${error.stack}\n`);
      return start(...words);
    }
  };
}
