'use strict';

/** `web-locks/cron`: runs each tick of a CronJob in one of many processes (docs/RECIPES.md). */

const { runCoordinator } = require('./node-cron.js');
const { describe, typeError } = require('./platform/errors.js');
const { checkTimeoutOptions } = require('./extensions/options.js');
const { requireLocks } = require('./platform/require-locks.js');

const ONCE_PER_TICK = "'oncePerTick'";

/**
 * A mark is kept for this many milliseconds beyond the time in its key (`nextTickOf`), because the
 * clocks of other processes may be late.
 */
const LATE = 600_000;

/**
 * Wraps the `onTick` of a CronJob: at each tick, one of the processes that share the locks runs it.
 * @param {Parameters<typeof runCoordinator>[0]} locks of a scope that has `once`
 * @param {string} name of the job, the same in all processes
 * @param {(this: any, ...args: any[]) => any} onTick
 * @param {{ timeout?: number }} [options] those of `runCoordinator`
 */
function oncePerTick(locks, name, onTick, options) {
  requireLocks(locks, 'once', ONCE_PER_TICK);
  if (typeof name !== 'string') {
    throw typeError(ONCE_PER_TICK, `'name' is ${describe(name)}; expected a string.`);
  }
  if (typeof onTick !== 'function') {
    throw typeError(ONCE_PER_TICK, `'onTick' is ${describe(onTick)}; expected a function.`);
  }
  checkTimeoutOptions(options, ONCE_PER_TICK);
  const coordinator = runCoordinator(locks, options);
  /** @this {any} the job @param {any[]} args */
  return async function tick(...args) {
    const next = nextTickOf(this);
    const keep = Math.max(next - Date.now(), 0) + LATE;
    if (await coordinator.shouldRun(`${name}:${next}`, keep)) await onTick.apply(this, args);
  };
}

/**
 * Identifies the present tick by the time of the next one: even a process that is late computes the
 * same time.
 * @param {any} job @throws {TypeError} if it is not a CronJob
 */
function nextTickOf(job) {
  if (typeof job?.nextDate !== 'function') {
    throw typeError(
      ONCE_PER_TICK,
      `'this' of 'onTick' is ${describe(job)}; expected the CronJob. Create the job without ` +
        "'context'.",
    );
  }
  // A job for one date has no next tick, so its date identifies the tick.
  return Number(job.runOnce ? job.cronTime.source : job.nextDate());
}

module.exports = { oncePerTick };
