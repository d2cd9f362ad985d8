/**
 * The W3C Web Locks API for all threads of a Node.js process.
 *
 * The declarations are assignable to and from those of TypeScript's DOM library, so code written
 * for browsers type-checks unchanged. References in parentheses are sections of
 * https://www.w3.org/TR/2023/WD-web-locks-20230105/.
 */

declare global {
  // The platform's, from TypeScript's DOM library or from @types/node; empty where neither is
  // loaded.
  interface AbortSignal {}
}

/**
 * How a lock is held (2.3). An `'exclusive'` lock is held alone; `'shared'` locks of a name can be
 * held together.
 */
export type LockMode = 'exclusive' | 'shared';

/** Options of {@link LockManager.request} (3.2). */
export interface LockOptions {
  /**
   * If the lock cannot be granted at once, the callback is called with `null` instead of waiting.
   * Not together with `steal` or `signal`.
   * @default false
   */
  ifAvailable?: boolean;

  /**
   * The mode of the lock.
   * @default 'exclusive'
   */
  mode?: LockMode;

  /**
   * Aborts the request while it is pending: it leaves the queue and its promise rejects with
   * `signal.reason`. Ignored once the lock is granted. Not together with `steal` or `ifAvailable`.
   */
  signal?: AbortSignal;

  /**
   * Takes the lock away from whoever holds it, in any thread, and goes ahead of the queue. The
   * promises of the robbed requests reject with an `AbortError`; their callbacks go on running
   * without the lock. For recovery only. Exclusive mode only; not together with `ifAvailable` or
   * `signal`.
   * @default false
   */
  steal?: boolean;
}

/**
 * A lock that is held (3.3). Given to the callback of {@link LockManager.request}; not
 * constructible.
 */
export declare class Lock {
  private constructor();

  /** The mode it was requested with. */
  readonly mode: LockMode;

  /** The resource name it was requested with. */
  readonly name: string;
}

/** A lock or a request in a {@link LockManagerSnapshot}. `query()` sets all members. */
export interface LockInfo {
  /**
   * Tells which thread's it is: one string per thread and load of the package, `node-<process
   * id>-<thread id>-<number>`.
   */
  clientId?: string;
  mode?: LockMode;
  name?: string;
}

/** The state of a lock manager at one moment (4.5). `query()` sets all members. */
export interface LockManagerSnapshot {
  /** The locks that are held, in no particular order. */
  held?: LockInfo[];
  /** The requests that wait. Those of one name are in the order in which they were made. */
  pending?: LockInfo[];
}

/**
 * Called when the lock is granted, or with `null` if it was requested with `ifAvailable` and is not
 * available.
 *
 * The lock is held until what it returns settles; if that is not a promise or another thenable,
 * until it returns.
 */
export type LockGrantedCallback<T> = (lock: Lock | null) => T;

/**
 * The lock manager of a storage bucket, shared by all threads of the process (3.2). Not
 * constructible: see {@link locks} and {@link openBucket}.
 */
export declare class LockManager {
  private constructor();

  /**
   * Tells which locks are held and which requests wait, of all threads.
   *
   * @example
   * const { held, pending } = await locks.query();
   */
  query(): Promise<LockManagerSnapshot>;

  /**
   * Requests a lock, calls `callback` when it is granted, and releases it when what `callback`
   * returned has settled.
   *
   * Requests of a name are granted in the order in which they were made. A pending request keeps
   * the event loop of its thread alive, a held lock does not. A lock also ends with its thread,
   * however that ends, and by a request with `steal`.
   *
   * Never throws: all errors reject the promise.
   * - `TypeError`: an argument or an option has the wrong type.
   * - `NotSupportedError`: the name starts with `-`, or the options exclude each other.
   * - the reason of `signal`, by default an `AbortError`: the request was aborted.
   * - `AbortError`: the lock was stolen.
   * - `InvalidStateError`: the thread's environment is shutting down.
   * - `RangeError` with the code `ERR_WEB_LOCKS_NO_MEMORY`: out of memory.
   *
   * @param name any string that does not start with `-`; compared by UTF-16 code units
   * @returns settles like what `callback` returned, after the lock was released
   *
   * @example
   * await locks.request('report', async (lock) => {
   *   // Nobody else holds 'report', in any thread.
   * });
   */
  request<T>(name: string, callback: LockGrantedCallback<T>): Promise<Awaited<T>>;
  request<T>(
    name: string,
    options: LockOptions,
    callback: LockGrantedCallback<T>,
  ): Promise<Awaited<T>>;
}

/** The lock manager of the default storage bucket, the same for all threads of the process. */
export declare const locks: LockManager;

/** A storage bucket (2.2, 6.1). */
export interface StorageBucket {
  readonly name: string;
  /** The bucket's lock manager. */
  readonly locks: LockManager;
}

/**
 * Opens a storage bucket: a lock manager of its own, shared by all threads that open the same name.
 * Locks of one bucket neither block those of another nor show in its `query()`.
 *
 * @param name any string; no name gives the default bucket
 *
 * @example
 * const { locks } = openBucket('tenant-7');
 */
export declare function openBucket(name: string): StorageBucket;
