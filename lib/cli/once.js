'use strict';

/**
 * `web-locks once`: of all callers within a given time, one runs its command. The others wait until
 * that command succeeds, and run nothing; if it fails, the next caller runs its own.
 */

const { runUnderLock } = require('./runner.js');
const { quoted } = require('./format.js');
const { STATUS, say } = require('./status.js');

/** Thrown if the command failed, so that the name is not marked as done. */
const FAILED = new Error('The command failed.');

/** @param {import('./arguments.js').ParsedCommand} request */
const once = (request) => runUnderLock(request, requestLock);

/** @type {import('./runner.js').RequestLock} */
async function requestLock(runner) {
  const { keep, priority, timeout, verbose } = runner.values;
  const { label, name } = runner;
  try {
    const run = async (/** @type {any} */ lock) => {
      const ending = await runner.runCommand(lock);
      if (!ending || ending.signal || ending.status !== 0) throw FAILED;
    };
    const { ran } = await runner.locks.once(name, { keep, label, priority, timeout }, run);
    if (ran) return undefined;
    if (verbose) say(`another caller has already run ${quoted(name)}; the command is skipped.`);
    return { status: STATUS.ok };
  } catch (error) {
    if (error !== FAILED) throw error;
    return undefined;
  }
}

module.exports = { once };
