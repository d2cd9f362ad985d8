'use strict';

/**
 * `web-locks elect`: one of all candidates leads, and runs the command. If it loses the lock, it
 * ends the command, stands again, and starts it again when it leads again.
 */

const { runUnderLock } = require('./runner.js');

/**
 * @param {import('./arguments.js').ParsedCommand} request
 * @returns {Promise<import('./status.js').Ending>}
 */
const elect = (request) => runUnderLock(request, requestLock);

/** Why it does not stand again: the command has ended by itself. */
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
