'use strict';

/**
 * `web-locks elect`: one of the candidates leads and runs its command. If it loses the lock, it
 * ends the command, becomes a candidate again, and restarts the command when it leads again.
 */

const { runUnderLock } = require('./runner.js');

/** @param {import('./arguments.js').ParsedCommand} request */
const elect = (request) => runUnderLock(request, requestLock);

/** The abort reason that ends the candidacy after the command has ended by itself. */
const ENDED = new Error('The command has ended.');

/** @type {import('./runner.js').RequestLock} */
async function requestLock(runner) {
  const { label, locks, name } = runner;
  const { priority } = runner.values;
  const over = new AbortController();
  const options = { label, priority, signal: over.signal };
  try {
    await locks.elect(name, options, async (/** @type {any} */ leader) => {
      await runner.runCommand(leader);
      if (!runner.isLost) over.abort(ENDED);
      else runner.prepareNextTerm();
    });
  } catch (error) {
    if (error !== ENDED) throw error;
  }
}

module.exports = { requestLock, elect };
