'use strict';

/** `web-locks/node-cron`: runs a task of node-cron on one machine at a time (docs/RECIPES.md). */

const { describe, typeError } = require('./platform/errors.js');

const RUN_COORDINATOR = "'runCoordinator'";

/** Longer than a server can be silent after a failover: one `ttl`, by default 10 seconds. */
const TIMEOUT = 30_000;

/**
 * A `RunCoordinator` for tasks of node-cron that are `distributed`: of all who share the locks, one
 * runs the task at each of its times.
 * @param {{ once: (name: string, options: any, callback: () => void) => Promise<{ ran: boolean }> }}
 *   locks of a scope that has `once`
 * @param {{ timeout?: number }} [options] `timeout` is how many milliseconds a run waits at most for
 *   the answer of the server; after that, the task is not run here
 */
function runCoordinator(locks, { timeout = TIMEOUT } = {}) {
  if (typeof locks?.once !== 'function') {
    throw typeError(
      RUN_COORDINATOR,
      `The locks are ${describe(locks)}; expected a lock manager. Pass bucket.locks.`,
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
