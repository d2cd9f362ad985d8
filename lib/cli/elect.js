'use strict';

/**
 * `web-locks elect`: one of all candidates leads, and runs the command. If it loses the lock, it
 * ends the command, stands again, and starts it again when it leads again.
 */

const { doJob } = require('./job.js');

/**
 * @param {import('./arguments.js').Request} request
 * @returns {Promise<import('./status.js').Ending>}
 */
const elect = (request) => doJob(request, ask);

/** Why it does not stand again: the command has ended by itself. */
const ENDED = new Error('The command has ended.');

/** @type {import('./job.js').Ask} */
async function ask(job) {
  const { label, locks, name } = job;
  const { priority } = job.values;
  const over = new AbortController();
  const options = { label, priority, signal: over.signal };
  try {
    await locks.elect(name, options, async (/** @type {any} */ leader) => {
      await job.hold(leader);
      if (!job.isLost) over.abort(ENDED);
      else job.standAgain();
    });
  } catch (error) {
    if (error !== ENDED) throw error;
  }
}

module.exports = { ask, elect };
