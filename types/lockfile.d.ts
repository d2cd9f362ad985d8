/**
 * A drop-in for the package proper-lockfile, for the processes of one machine. It makes no lock
 * files: a lock ends with the process that holds it, however that ends, and never goes stale.
 *
 * @example
 * const release = await lock('shop.json', { retries: 5 });
 * try {
 *   // Nobody else has locked 'shop.json'.
 * } finally {
 *   await release();
 * }
 */
declare namespace lock {
  /** Options of {@link lock.unlock}. */
  interface UnlockOptions {
    /**
     * Whether the file is found by its real path. If so, it has to exist.
     * @default true
     */
    realpath?: boolean | undefined;
    /** Its `realpath` and `realpathSync` are used, and nothing else. By default `node:fs`. */
    fs?: object | undefined;
    /**
     * The name of the lock: callers that give the same path exclude each other. No file is made.
     * @default the path of the file, and `.lock`
     */
    lockfilePath?: string | undefined;
  }

  /** Options of {@link lock.check}. */
  interface CheckOptions extends UnlockOptions {
    /** Without effect: nothing goes stale. */
    stale?: number | undefined;
  }

  /** Options of {@link lock.lock}. */
  interface LockOptions extends CheckOptions {
    /** Without effect: there is nothing to update. */
    update?: number | null | undefined;
    /**
     * For how long to wait: for as long as so many retries would take. It waits in a queue, first
     * come, first served. `factor` is 2, `minTimeout` 1000 and `maxTimeout` unlimited if they are
     * not given; `randomize` and `unref` are without effect.
     * @default 0
     */
    retries?: number | RetryOptions | undefined;
    /**
     * Called if the lock is lost, with an error with the code `ECOMPROMISED`. By default that error
     * is thrown as an uncaught exception.
     */
    onCompromised?: ((error: LockfileError) => unknown) | undefined;
  }

  /** Those of the package retry. Times are in milliseconds. */
  interface RetryOptions {
    /** @default 10 */
    retries?: number | undefined;
    factor?: number | undefined;
    minTimeout?: number | undefined;
    maxTimeout?: number | undefined;
    maxRetryTime?: number | undefined;
    forever?: boolean | undefined;
    randomize?: boolean | undefined;
    unref?: boolean | undefined;
  }

  /** What the functions reject with or throw. */
  interface LockfileError extends Error {
    /**
     * - `'ELOCKED'`: it is locked;
     * - `'ENOTACQUIRED'`: this thread has not locked it;
     * - `'ERELEASED'`: it was released, or lost, before;
     * - `'ECOMPROMISED'`: the lock was lost;
     * - `'ESYNC'`: `retries` were given to a function that cannot wait;
     * - others: of `fs.realpath`, and those of `web-locks/host`.
     */
    code: string;
    /** The path of the file. */
    file: string;
  }

  /**
   * Locks a file.
   * @returns the function that releases it. It rejects with the code `ERELEASED` if it was called
   *   before, or the lock was lost
   */
  function lock(file: string, options?: LockOptions): Promise<() => Promise<void>>;
  /** As `lock`, without `retries`. */
  function lockSync(file: string, options?: LockOptions): () => void;
  /** Releases a file that this thread has locked. */
  function unlock(file: string, options?: UnlockOptions): Promise<void>;
  /** Releases a file that this thread has locked. */
  function unlockSync(file: string, options?: UnlockOptions): void;
  /** Whether a file is locked, by anybody. */
  function check(file: string, options?: CheckOptions): Promise<boolean>;
  /** Whether a file is locked, by anybody. */
  function checkSync(file: string, options?: CheckOptions): boolean;
}

/** Locks a file: {@link lock.lock}. */
declare function lock(file: string, options?: lock.LockOptions): Promise<() => Promise<void>>;
export = lock;
