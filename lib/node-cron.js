'use strict';

/** `web-locks/node-cron`: runs a scheduled task in one of many processes (docs/RECIPES.md). */

const { checkTimeoutOptions } = require('./extensions/options.js');
const { requireLocks } = require('./platform/require-locks.js');

const RUN_COORDINATOR = "'runCoordinator'";

/**
 * The default of `timeout`, in milliseconds. After a failover, a server grants nothing for a `ttl`,
 * which is 10 seconds by default. If the timeout were shorter, all processes would skip the run.
 */
const TIMEOUT = 30_000;

/**
 * Makes a `RunCoordinator` for the `distributed` tasks of node-cron: of all processes that share
 * the locks, one runs the task at each scheduled time.
 * @param {{ once: (name: string, options: any, callback: () => void) =>
 *   Promise<{ ran: boolean }> }} locks
 * @param {{ timeout?: number }} [options] `timeout`: milliseconds after which a process that waits
 *   for the lock skips the run
 */
function runCoordinator(locks, options = {}) {
  requireLocks(locks, 'once', RUN_COORDINATOR);
  checkTimeoutOptions(options, RUN_COORDINATOR);
  const { timeout = TIMEOUT } = options;
  return {
    /** @param {string} key the name of the task, and its time @param {number} ttlMs */
    async shouldRun(key, ttlMs) {
      const { ran } = await locks.once(`cron ${key}`, { keep: ttlMs, timeout }, () => {});
      return ran;
    },
  };
}

module.exports = { runCoordinator };
