'use strict';

/**
 * Preloaded by each Node.js that runs under Wine (run.js). Wine 8 sometimes fails to start a
 * process, one in some thousands: libuv throws `spawn UNKNOWN` before the new process has run
 * anything. Then the process is started once more, and a line on standard error says so.
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
