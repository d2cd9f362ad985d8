'use strict';

/** `web-locks/node-cron`: runs a task of node-cron on one machine at a time (docs/RECIPES.md). */

const { describe, typeError } = require('./platform/errors.js');

const RUN_COORDINATOR = "'runCoordinator'";

/**
 * By default, a run waits this many milliseconds. After a failover, a server grants nothing for one
 * `ttl`, by default 10 seconds, which must not make all processes skip the run.
 */
const TIMEOUT = 30_000;

/**
 * Makes a `RunCoordinator` for the `distributed` tasks of node-cron: of all processes that share
 * the locks, one runs the task at each scheduled time.
 * @param {{ once: (name: string, options: any, callback: () => void) =>
 *   Promise<{ ran: boolean }> }} locks of a scope that has `once`
 * @param {{ timeout?: number }} [options] `timeout` is the longest time, in milliseconds, that a
 *   run waits for the lock; after that, this process does not run the task
 */
function runCoordinator(locks, { timeout = TIMEOUT } = {}) {
  if (typeof locks?.once !== 'function') {
    throw typeError(
      RUN_COORDINATOR,
      `'locks' is ${describe(locks)}; expected a lock manager, such as bucket.locks.`,
    );
  }
  return {
    /** @param {string} key the name of the task, and its time @param {number} ttlMs */
    async shouldRun(key, ttlMs) {
      const { ran } = await locks.once(`cron ${key}`, { keep: ttlMs, timeout }, () => {});
      return ran;
    },
  };
}

module.exports = { runCoordinator };
