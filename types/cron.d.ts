import type { RunCoordinatorOptions } from './node-cron.js';
import type { LockManager } from './shared.js';

export type OncePerTickOptions = RunCoordinatorOptions;

/**
 * Wraps the `onTick` of a CronJob: of all who share the locks, one calls it at each tick. `this` of
 * `onTick` is the job: create it without `context`.
 *
 * @param name of the job, the same in all processes
 *
 * @example
 * CronJob.from({
 *   cronTime: '0 3 * * *',
 *   onTick: oncePerTick(bucket.locks, 'nightly', nightly),
 *   start: true,
 * });
 */
// biome-ignore lint/suspicious/noExplicitAny: its types are those of cron
export declare function oncePerTick<Tick extends (this: any, ...rest: any[]) => unknown>(
  locks: Pick<LockManager, 'once'>,
  name: string,
  onTick: Tick,
  options?: OncePerTickOptions,
): (this: ThisParameterType<Tick>, ...rest: Parameters<Tick>) => Promise<void>;
