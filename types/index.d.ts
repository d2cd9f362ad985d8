/**
 * The W3C Web Locks API for all threads of a Node.js process.
 */

import type { LockManager, StorageBucket } from './shared.js';

export * from './shared.js';

/** The lock manager of the default storage bucket, the same for all threads of the process. */
export declare const locks: LockManager;

/**
 * Opens a storage bucket: a lock manager of its own, shared by all threads that open the same name.
 * Locks of one bucket neither block those of another nor show in its `query()`.
 *
 * @param name any string; no string opens the default bucket, whose manager is {@link locks}
 *
 * @example
 * const { locks } = openBucket('tenant-7');
 */
export declare function openBucket(name: string): StorageBucket;
