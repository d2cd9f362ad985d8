import type { LockManager, StorageBucket } from './shared.js';

export * from './shared.js';

/**
 * The lock manager of the default bucket, shared by all processes of the machine and their threads.
 */
export declare const locks: LockManager;

/** Options of {@link openBucket}. */
export interface BucketOptions {
  /**
   * Where the files of the locks are: a directory on a local file system; created if it does not
   * exist. All who share the bucket must give the same one. By default the one in the environment
   * variable `WEB_LOCKS_DIRECTORY`, or one of the user's own.
   */
  directory?: string | undefined;
}

/**
 * Opens a storage bucket: a lock manager of its own, shared by all processes of the machine that
 * open the same name in the same directory, and all their threads. Returns at once. If it cannot be
 * opened, `ready` and the requests reject with an `Error` whose `code` is
 * `ERR_WEB_LOCKS_SCOPE_UNSUPPORTED`, `_VERSION`, `_FULL` or `_LOST`.
 *
 * @param name any string; no string opens the default bucket, whose manager is {@link locks}
 *
 * @example
 * const shop = openBucket('shop');
 * await shop.locks.request('order 7', (lock) => console.log(lock.token));
 * await shop.close();
 */
export declare function openBucket(name: string, options?: BucketOptions): StorageBucket;
