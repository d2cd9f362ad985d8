import type { LockManager } from './shared.js';

export interface RunCoordinatorOptions {
  /**
   * How many milliseconds a run waits at most for the answer of the server, by default 30,000.
   * After that, the task is not run here.
   */
  timeout?: number | undefined;
}

/** A `RunCoordinator` of node-cron 4. */
export interface RunCoordinator {
  shouldRun(key: string, ttlMs: number): Promise<boolean>;
}

/**
 * For tasks of node-cron that are `distributed`: of all who share the locks, one runs the task at
 * each of its times.
 *
 * @example
 * cron.schedule('0 3 * * *', nightly, {
 *   name: 'nightly',
 *   distributed: true,
 *   runCoordinator: runCoordinator(bucket.locks),
 * });
 */
export declare function runCoordinator(
  locks: Pick<LockManager, 'once'>,
  options?: RunCoordinatorOptions,
): RunCoordinator;
