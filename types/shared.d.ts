/**
 * What is the same whatever shares the locks: all of web-locks but `locks` and `openBucket`.
 *
 * The declarations are assignable to those of TypeScript's DOM library, and options also from them,
 * so code written for browsers type-checks unchanged. (With `exactOptionalPropertyTypes`, where the
 * DOM library's options do not take `undefined`, ours are not assignable to them.) What is not of
 * the specification says so. References in parentheses are sections of
 * https://www.w3.org/TR/2023/WD-web-locks-20230105/.
 */

declare global {
  // The platform's, from TypeScript's DOM library or from @types/node; empty where neither is
  // loaded.
  interface AbortSignal {}

  // Of TypeScript's library from "ESNext.Disposable" on, and of @types/node.
  interface SymbolConstructor {
    readonly dispose: unique symbol;
    readonly asyncDispose: unique symbol;
  }
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
  ifAvailable?: boolean | undefined;

  /**
   * The mode of the lock.
   * @default 'exclusive'
   */
  mode?: LockMode | undefined;

  /**
   * Aborts the request while it is pending: it leaves the queue and its promise rejects with
   * `signal.reason`. Ignored once the lock is granted. Not together with `steal` or `ifAvailable`.
   */
  signal?: AbortSignal | undefined;

  /**
   * Takes the lock away from its holders, in any thread, and goes ahead of the queue. The promises
   * of the robbed requests reject with an `AbortError`; their callbacks keep running without the
   * lock. For recovery only. Exclusive mode only; not together with `ifAvailable` or `signal`.
   * @default false
   */
  steal?: boolean | undefined;

  /**
   * Extension. Limits the wait, in milliseconds. After that time the promise rejects with a
   * {@link LockTimeoutError}. 0: fails at once unless the lock can be granted now. Not together
   * with `steal` or `ifAvailable`.
   */
  timeout?: number | undefined;

  /** Extension. What it is for: in `query({ details: true })`, in errors and in warnings. */
  label?: string | undefined;

  /**
   * Extension. If the request waits, or its lock is held, for more milliseconds than this, one
   * process warning says so, and names the holders or the waiters, and where a lock that is held
   * was requested.
   */
  warnAfter?: number | undefined;

  /**
   * Extension. `'reject'` declares that the callbacks in which this request is made wait for it:
   * their locks are not released before it has ended. If such requests, of any threads, wait for
   * each other in a cycle, the one that closes the cycle rejects with a {@link DeadlockError}.
   */
  deadlock?: 'reject' | undefined;

  /**
   * Extension. Limits how long the lock is held, in milliseconds, more than 0. After that time it
   * is released, its `signal` is aborted and the promise rejects with a {@link LockTimeoutError};
   * the callback keeps running without the lock. Takes effect when the thread reaches its timers.
   */
  holdTimeout?: number | undefined;

  /**
   * Extension. If the request is made inside the callback of a request for the same name, and both
   * have this option, the lock of the outer one serves it at once. The lock is not released before
   * both have ended.
   * An exclusive request inside a shared lock rejects with a {@link DeadlockError}.
   * @default false
   */
  reentrant?: boolean | undefined;

  /**
   * Extension. How many units of the name are held at a time, by shared locks with this limit: a
   * semaphore. A whole number from 1 to 2^31 - 1. All holders and waiters of the name have the same
   * limit: a shared request with another one, or with none, rejects with a `TypeError`. Needs the
   * mode `'shared'`.
   */
  limit?: number | undefined;

  /**
   * Extension. How many units of the `limit` it takes.
   * @default 1
   */
  weight?: number | undefined;

  /**
   * Extension. Limits the queue: if the request has to wait and so many requests of the name wait
   * already, it rejects with a {@link LockQueueFullError} instead.
   */
  maxPending?: number | undefined;

  /**
   * Extension. Milliseconds, more than 0, to wait for the lock and hold it, together. While the
   * request waits this is a `timeout`, and then what is left of it is a `holdTimeout`.
   */
  maxTotal?: number | undefined;

  /**
   * Extension. The place in the queue: the request waits behind all that have the same priority or
   * more, and ahead of all that have less. A whole number from -2^31 to 2^31 - 1. It takes the lock
   * away from nobody. A request of low priority can wait for ever. Not together with `steal`.
   * @default 0
   */
  priority?: number | undefined;
}

/** Options with which the result is a lock, and never `null`. */
export type Waiting = { ifAvailable?: false | undefined };

/**
 * A lock that is held (3.3). Given to the callback of {@link LockManager.request}; not
 * constructible.
 */
export declare class Lock {
  protected constructor();

  /** The mode it was requested with. */
  readonly mode: LockMode;

  /** The resource name it was requested with. */
  readonly name: string;

  /**
   * Extension. Aborted when the lock is lost. Its reason is a {@link LockStolenError} if it was
   * stolen, a {@link LockTimeoutError} if the `holdTimeout` is over, otherwise a
   * {@link LockLostError}.
   */
  readonly signal: AbortSignal;

  /**
   * Extension. Whether it is held, as far as this thread knows: a theft by another thread or
   * process counts when this thread returns to its event loop.
   */
  readonly held: boolean;

  /**
   * Extension. For how many milliseconds it is held at least, if its lease is not renewed;
   * `Infinity` if locks have no lease, 0 if it is not held.
   */
  readonly remaining: number;

  /**
   * Extension, for lock managers of a database. Ensures that the lock is still held when the
   * transaction of `client` commits; rejects with a {@link LockLostError} if it is no longer held,
   * and with a `NotSupportedError` if the lock manager cannot do this.
   */
  guard(client: unknown): Promise<void>;

  /**
   * Extension. Greater than the token of every lock that was granted on the name before, to any
   * thread, for as long as the process lives. With it a store can refuse a writer that has lost
   * its lock and does not know it (fencing).
   */
  readonly token: bigint;

  /**
   * Extension. Tells everybody who queries something about the lock while it is held, such as the
   * address at which its holder can be reached or how far it is: {@link LockDetails.data}. Replaces
   * what was published before; `undefined` removes it, as the end of the lock does.
   *
   * @param value anything that JSON can express; its JSON text has at most 4,096 bytes of UTF-8
   * @returns `true` once everybody who queries afterwards sees it; `false` if the lock is no longer
   *   held. Rejects with a `TypeError` if JSON cannot express the value, with a `RangeError` if it
   *   is too long, and with a `NotSupportedError` if the lock manager cannot publish
   *
   * @example
   * await locks.request('import', async (lock) => {
   *   for (const [done, file] of files.entries()) {
   *     await lock.publish({ done, of: files.length });
   *     await load(file);
   *   }
   * });
   */
  publish(value: unknown): Promise<boolean>;

  /** Extension. For `JSON.stringify`. */
  toJSON(): { name: string; mode: LockMode; held: boolean; token: string };
}

/**
 * A lock that is held until it is released: what {@link LockManager.acquire} resolves to. Not
 * constructible. If it is garbage-collected without release, the lock is released with a process
 * warning, which says where it was acquired if `warnAfter` was given or there was such a warning
 * before.
 */
export declare class LockHandle extends Lock {
  private constructor();

  /** Whether the lock is no longer held: released, or lost. */
  readonly released: boolean;

  /**
   * Releases the lock at once. Calls after the first do nothing. If it takes longer than the call,
   * returns a promise that resolves when it is done.
   */
  release(): void | Promise<void>;

  [Symbol.dispose](): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Several locks that are held until they are released together. */
export interface SeveralLocks {
  /** In the order of the request. A name that was given twice is the same lock twice. */
  readonly locks: readonly LockHandle[];
  /** Releases all of them, at once, as {@link LockHandle.release}. */
  release(): void | Promise<void>;
  [Symbol.dispose](): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A resource name, or one with its mode; the mode of the options if it has none. */
export type LockName = string | { name: string; mode?: LockMode | undefined };

/** Options of {@link LockManager.requestAll}. */
export type SeveralOptions = Omit<LockOptions, 'steal'>;

/** Options of {@link LockManager.tryAcquireSync} and {@link LockManager.acquireSync}. */
export type SyncOptions = Pick<
  LockOptions,
  | 'mode'
  | 'label'
  | 'timeout'
  | 'warnAfter'
  | 'holdTimeout'
  | 'reentrant'
  | 'limit'
  | 'weight'
  | 'maxPending'
  | 'maxTotal'
  | 'priority'
>;

/** A lock or a request in a {@link LockManagerSnapshot}. */
export interface LockInfo {
  /**
   * The thread that holds or waits: one string per thread and load of the package,
   * `node-<process id>-<thread id>-<number>`.
   */
  clientId: string;
  mode: LockMode;
  name: string;
}

/** The state of a lock manager at one moment (4.5). */
export interface LockManagerSnapshot {
  /** The locks that are held, in no particular order. */
  held: LockInfo[];
  /** The requests that wait. Those of one name are in the order of the queue. */
  pending: LockInfo[];
}

/** A lock or a request in a {@link DetailedSnapshot}. */
export interface LockDetails {
  clientId: string;
  mode: LockMode;
  name: string;
  /**
   * That of the request. If it has none: the name of the program in the host scope and in clusters,
   * such as `import.mjs`, and `''` within a process.
   */
  label: string;
  /** The machine's name. */
  host: string;
  pid: number;
  threadId: number;
  /** The worker's name; `''` for none, and on versions of Node.js that do not tell it. */
  threadName: string;
  /** Milliseconds that a pending request has waited; 0 for a lock. */
  waited: number;
  /**
   * Milliseconds that a lock has been held; 0 for a pending request. `NaN` (null in JSON) if that
   * is not known: see etcd in the documentation of clusters.
   */
  held: number;
  /** Units of the name that shared locks may hold at a time; 0 for no limit, and if exclusive. */
  limit: number;
  /** Units that it takes; 0 where there is no limit. */
  weight: number;
  /** That of the request, also of a lock; 0 for none. */
  priority: number;
  /** Of a lock; `0n` for a pending request. A string of digits in JSON. */
  token: bigint;
  /**
   * Where a lock was requested: the first frames of the call, one a line. `''` if that is not
   * known: a thread knows it of its own locks, if it noted it (see "Who holds what" in the
   * documentation).
   */
  site: string;
  /** What the holder has published last ({@link Lock.publish}). Missing if there is nothing. */
  readonly data?: unknown;
}

export interface PendingDetails extends LockDetails {
  /** The locks that are held on its name. */
  blockedBy: LockDetails[];
  /** How many requests are ahead of it in the queue. */
  ahead: number;
}

/** What `query({ details: true })` resolves to. */
export interface DetailedSnapshot {
  held: LockDetails[];
  pending: PendingDetails[];
  /**
   * Of a bucket in a cluster: milliseconds for which its server grants nothing to anybody, because
   * it may have forgotten what others hold (a quarantine). Missing when it grants.
   */
  grantsIn?: number;
}

/** Extension. Options of {@link LockManager.query}. */
export interface QueryOptions {
  /** `true`: entries are {@link LockDetails}. */
  details?: boolean | undefined;
  /** Shows this name only; all names if not given. */
  name?: string | undefined;
}

/** A lock could not be acquired, or was lost. A DOMException. */
export declare class LockError extends Error {
  protected constructor();
  /** The number that a DOMException has for its `name`, 0 for most: see `errorCode`. */
  readonly code: number;
  /** `'ERR_WEB_LOCKS_…'`, as all errors of this package have it. */
  readonly errorCode: string;
  readonly lockName: string;
  /** For `JSON.stringify`: its fields, `name` and `message`; a token is a string of digits. */
  toJSON(): Record<string, unknown>;
}

/** The lock was stolen. Its `name` is `'AbortError'`. */
export declare class LockStolenError extends LockError {
  private constructor();
  /** Of the thief. */
  readonly clientId: string;
}

/** The lock was lost, but not to a thief. Its `name` is `'AbortError'`. */
export declare class LockLostError extends LockError {
  private constructor();
  /**
   * - `'closed'`: its bucket was closed;
   * - `'destroyed'`: its state, a file, was deleted or damaged;
   * - `'expired'`: its lease was not renewed in time;
   * - `'unreachable'`: the server did not answer in time, until its lease expired; or it did not
   *   mark the name, or refused to;
   * - `'failover'`: the server that took over does not know it;
   * - `'released'`: it was not lost, but is no longer held: of {@link Lock.guard}.
   */
  readonly reason: 'closed' | 'destroyed' | 'expired' | 'unreachable' | 'failover' | 'released';
  /** That of the lock. */
  readonly token: bigint;
}

/**
 * The lock was not granted within the `timeout`, or was held longer than the `holdTimeout`. Its
 * `name` is `'TimeoutError'`.
 */
export declare class LockTimeoutError extends LockError {
  private constructor();
  /** Milliseconds. */
  readonly waited: number;
  /** Milliseconds that it was held; 0 if it was not granted. */
  readonly held: number;
  /**
   * The holders, if it was not granted: the first ten of them. Frozen, since errors of requests
   * that time out together share it.
   */
  readonly holders: readonly Readonly<LockDetails>[];
  /** How many holders there are; 0, too, if that is not known. */
  readonly holderCount: number;
  /**
   * Of a bucket in a cluster: milliseconds, from the error on, for which its server grants nothing
   * to anybody (see {@link DetailedSnapshot.grantsIn}). Missing when it grants.
   */
  readonly grantsIn?: number;
  /**
   * Of a bucket in a cluster: why nobody knows who holds the lock. The server does not answer, or
   * refuses. Missing if the lock was busy.
   */
  readonly cause?: unknown;
}

/** As many requests wait as `maxPending` allows. Its `name` is `'QuotaExceededError'`. */
export declare class LockQueueFullError extends LockError {
  private constructor();
  /** That of the request. */
  readonly maxPending: number;
}

/** The request would wait for itself. Its `name` is `'DeadlockError'`. */
export declare class DeadlockError extends LockError {
  private constructor();
  /**
   * Requests and locks alternate. After each request comes a lock that it waits for; after each
   * lock, a request that was made inside of it. The first request was made inside of the last lock.
   */
  readonly cycle: LockDetails[];
}

/**
 * Called when the lock is granted, or with `null` if it was requested with `ifAvailable` and is not
 * available. Without `ifAvailable`, {@link LockManager.request} also takes callbacks of a
 * {@link Lock}.
 *
 * The lock is held until the promise that it returns settles; if it does not return a promise or
 * another thenable, until it returns.
 */
export type LockGrantedCallback<T> = (lock: Lock | null) => T;

/**
 * The lock manager of a storage bucket, shared by all threads of the process (3.2). Not
 * constructible: see {@link locks} and {@link openBucket}.
 */
export declare class LockManager {
  private constructor();

  /**
   * Resolves to the held locks and the pending requests of all threads.
   *
   * @example
   * const { held, pending } = await locks.query();
   */
  query(): Promise<LockManagerSnapshot>;
  /**
   * Extension: the same with threads, times, labels and blockers; or for one name only, in time
   * proportional to its locks and requests.
   */
  query(options: { details: true; name?: string | undefined }): Promise<DetailedSnapshot>;
  query(options?: QueryOptions): Promise<LockManagerSnapshot>;

  /**
   * Requests a lock, calls `callback` when it is granted, and releases it when the promise of
   * `callback` settles.
   *
   * Requests of a name are granted in the order in which they were made, but for those with a
   * `priority`. A pending request keeps
   * the event loop of its thread alive, a held lock does not. A lock also ends with its thread,
   * however that ends, and by a request with `steal`.
   *
   * Never throws: all errors reject the promise.
   * - `TypeError`: an argument or an option has the wrong type.
   * - `NotSupportedError`: the name starts with `-`, or options cannot be used together.
   * - the reason of `signal`, by default an `AbortError`: the request was aborted.
   * - `AbortError`: the lock was stolen.
   * - `InvalidStateError`: the thread's environment is shutting down.
   * - `RangeError` with the code `ERR_WEB_LOCKS_NO_MEMORY`: out of memory.
   *
   * @param name any string that does not start with `-`; compared by UTF-16 code units
   * @returns resolves to the result of `callback`, after the lock was released
   *
   * @example
   * await locks.request('report', async (lock) => {
   *   // Nobody else holds 'report', in any thread.
   * });
   */
  request<T>(name: string, callback: (lock: Lock) => T): Promise<Awaited<T>>;
  request<T>(
    name: string,
    options: LockOptions & Waiting,
    callback: (lock: Lock) => T,
  ): Promise<Awaited<T>>;
  request<T>(
    name: string,
    options: LockOptions,
    callback: LockGrantedCallback<T>,
  ): Promise<Awaited<T>>;

  /**
   * Extension. Requests a lock that is held until its handle is released. Queue, options and errors
   * are those of `request()`.
   *
   * @returns `null` if `ifAvailable` was given and the lock is not available
   *
   * @example
   * await using lock = await locks.acquire('report');
   */
  acquire(name: string, options?: LockOptions & Waiting): Promise<LockHandle>;
  acquire(name: string, options: LockOptions): Promise<LockHandle | null>;

  /**
   * Extension. Requests several locks and calls `callback` when it holds all of them. All callers
   * take them in one order, so that two of them cannot wait for each other. `signal` and `timeout`
   * cover the whole call, `ifAvailable` is all or nothing.
   *
   * @param names a name that occurs twice is locked once, in the stronger mode
   * @param callback gets the locks in the order of `names`
   *
   * @example
   * await locks.requestAll(['from', 'to'], async ([from, to]) => transfer());
   */
  requestAll<T>(
    names: Iterable<LockName>,
    callback: (locks: readonly LockHandle[]) => T,
  ): Promise<Awaited<T>>;
  requestAll<T>(
    names: Iterable<LockName>,
    options: SeveralOptions & Waiting,
    callback: (locks: readonly LockHandle[]) => T,
  ): Promise<Awaited<T>>;
  requestAll<T>(
    names: Iterable<LockName>,
    options: SeveralOptions,
    callback: (locks: readonly LockHandle[] | null) => T,
  ): Promise<Awaited<T>>;

  /** Extension. Like `requestAll`; the locks are held until they are released. */
  acquireAll(names: Iterable<LockName>, options?: SeveralOptions & Waiting): Promise<SeveralLocks>;
  acquireAll(names: Iterable<LockName>, options: SeveralOptions): Promise<SeveralLocks | null>;

  /**
   * Extension. Acquires a lock if it is available now. Throws what `request()` rejects with.
   *
   * @returns `null` if it is not available
   */
  tryAcquireSync(
    name: string,
    options?: Omit<SyncOptions, 'timeout' | 'maxTotal'>,
  ): LockHandle | null;

  /**
   * Extension. Acquires a lock, and blocks the calling thread until it is granted: nothing else
   * runs in the thread meanwhile. `timeout` is required on the main thread. Throws a
   * {@link DeadlockError} at once if the thread itself holds the lock or waits for it.
   */
  acquireSync(name: string, options?: SyncOptions): LockHandle;

  /**
   * Extension. Leader election: waits until it holds the lock `name`, calls `callback`, and resigns
   * when the promise of `callback` settles. If it loses the lock before, `leader.signal` is
   * aborted; when the callback has ended, it stands again after a pause of 50 to 100 ms, which
   * doubles with each loss up to 10 s. `signal` ends the wait, and also aborts `leader.signal`.
   *
   * @returns settles like the promise of `callback` of the term in which it led until the end
   *
   * @example
   * await locks.elect('scheduler', async (leader) => schedule({ signal: leader.signal }));
   */
  elect<T>(name: string, callback: (leader: Leader) => T): Promise<Awaited<T>>;
  elect<T>(
    name: string,
    options: ElectOptions,
    callback: (leader: Leader) => T,
  ): Promise<Awaited<T>>;

  /**
   * Extension. Run once: one caller runs `callback`. Others wait for it, and skip theirs for `keep`
   * milliseconds after it has succeeded. The mark is written in the step that releases the lock,
   * and only if `callback` has succeeded. So it runs at least once, and again if the process dies
   * after its end and before the release. Rejects with the error of `callback`, or with the loss of
   * the lock.
   *
   * @example
   * await locks.once('report 2026-11', { keep: 86_400_000 }, (lock) => send(lock.signal));
   */
  once<T>(
    name: string,
    options: OnceOptions,
    callback: (lock: Lock) => T,
  ): Promise<OnceResult<Awaited<T>>>;

  /** Extension. Whether the lock `name` is held or waited for. */
  isBusy(name: string): Promise<boolean>;

  /** Extension. The leader: the holder of the lock `name`, `null` if there is none. */
  leader(name: string): Promise<LockDetails | null>;
}

/** Extension. Options of {@link LockManager.elect}. */
export type ElectOptions = Pick<
  LockOptions,
  'signal' | 'label' | 'warnAfter' | 'deadlock' | 'maxPending' | 'priority'
>;

/** Extension. Options of {@link LockManager.once}. */
export interface OnceOptions
  extends Pick<
    LockOptions,
    'signal' | 'label' | 'timeout' | 'warnAfter' | 'deadlock' | 'maxPending' | 'priority'
  > {
  /** For how many milliseconds nobody runs again: more than 0, at most 100 years, or `Infinity`. */
  keep: number;
}

/** Extension. What {@link LockManager.once} resolves to: whether the callback ran, its result. */
export type OnceResult<T> = { ran: true; value: T } | { ran: false; value: undefined };

/** Extension. A term of office: what the callback of {@link LockManager.elect} gets. */
export interface Leader {
  readonly name: string;
  /** Greater than that of any leader before. */
  readonly token: bigint;
  /** Aborted when leadership is lost, or when the signal of the election is aborted. */
  readonly signal: AbortSignal;
  /** Whether it leads at this moment. */
  readonly held: boolean;
  /** See {@link Lock.publish}. {@link LockManager.leader} tells it. */
  publish(value: unknown): Promise<boolean>;
  /** For `JSON.stringify`. */
  toJSON(): { name: string; held: boolean; token: string };
}

/**
 * Extension. Options of {@link Mutex} and {@link RWLock}: those of requests but `mode` and `steal`.
 * Others are refused.
 */
export type AcquireOptions = Pick<
  LockOptions,
  | 'ifAvailable'
  | 'signal'
  | 'label'
  | 'timeout'
  | 'warnAfter'
  | 'holdTimeout'
  | 'deadlock'
  | 'reentrant'
  | 'maxPending'
  | 'maxTotal'
  | 'priority'
> & {
  /**
   * `false`: the call does not wait, and rejects with a {@link LockError} if the lock is not free.
   * Not together with `ifAvailable`, with which the answer is `null`.
   * @default true
   */
  blocking?: boolean | undefined;
};

/** Options that say how to wait. */
type OfTheWait = 'ifAvailable' | 'blocking' | 'signal' | 'timeout' | 'maxTotal';

/** Extension. Options of {@link Mutex.waitForUnlock}. */
export type WaitOptions = Pick<
  LockOptions,
  'signal' | 'label' | 'timeout' | 'warnAfter' | 'deadlock' | 'maxPending' | 'priority'
>;

/** Extension. Releases a lock. Calls after the first do nothing. */
export interface Release {
  (): void | Promise<void>;
  [Symbol.dispose](): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Extension. Options of a {@link Mutex} or {@link RWLock} without a name. */
export interface PrivateOptions {
  /** What it is for: the label of requests that have none. */
  label?: string | undefined;
}

/** Extension. What a named {@link Mutex} or {@link RWLock} is a lock of. */
export interface NamedOptions extends PrivateOptions {
  /**
   * The name of a bucket of this process, or what any `openBucket` returned; the default bucket of
   * this process if not given.
   */
  bucket?: string | StorageBucket | undefined;
  /** A lock manager. Not together with `bucket`. */
  locks?: LockManager | undefined;
}

/**
 * Extension. A mutual exclusion lock. Without a name it is private to the code that has the object,
 * in one thread; with a name it is the exclusive lock of that name, shared by all threads.
 *
 * @example
 * const mutex = new Mutex();
 * await mutex.runExclusive(async () => {});
 */
export declare class Mutex {
  constructor(name?: undefined, options?: PrivateOptions);
  constructor(name: string, options?: NamedOptions);
  /**
   * Whether it is held.
   * @throws a `NotSupportedError` where only a server or another process could answer
   */
  readonly locked: boolean;
  /**
   * Resolves to the function that releases it, which may be called more than once; to `null` if it
   * said `ifAvailable`, and somebody holds the lock or waits for it.
   */
  acquire(options?: AcquireOptions & Waiting): Promise<Release>;
  acquire(options: AcquireOptions): Promise<Release | null>;
  /** As `acquire` with `ifAvailable`: `null` if somebody holds the lock or waits for it. */
  tryAcquire(options?: Omit<AcquireOptions, OfTheWait>): Promise<Release | null>;
  /**
   * Rejects with a {@link LockStolenError} or a {@link LockTimeoutError} as soon as the lock is
   * lost; `lock.signal` tells the callback.
   */
  runExclusive<T>(
    callback: (lock: Lock) => T,
    options?: AcquireOptions & Waiting,
  ): Promise<Awaited<T>>;
  runExclusive<T>(callback: LockGrantedCallback<T>, options: AcquireOptions): Promise<Awaited<T>>;
  /**
   * Resolves when all who hold the lock or wait for it now are done, but for those who wait with
   * less `priority`. It waits in the queue, and never holds the lock.
   */
  waitForUnlock(options?: WaitOptions): Promise<void>;
  /**
   * Rejects the requests of this object that wait. Who holds the lock goes on, and so do the
   * requests of others.
   * @param reason by default a {@link LockError} whose `name` is `'AbortError'`
   */
  cancel(reason?: unknown): void;
}

/** Extension. A lock that readers share and writers do not. */
export declare class RWLock {
  constructor(name?: undefined, options?: PrivateOptions);
  constructor(name: string, options?: NamedOptions);
  /**
   * In which mode it is held; `null` if it is free.
   * @throws a `NotSupportedError` where only a server or another process could answer
   */
  readonly locked: LockMode | null;
  acquireShared(options?: AcquireOptions & Waiting): Promise<Release>;
  acquireShared(options: AcquireOptions): Promise<Release | null>;
  acquireExclusive(options?: AcquireOptions & Waiting): Promise<Release>;
  acquireExclusive(options: AcquireOptions): Promise<Release | null>;
  runShared<T>(
    callback: (lock: Lock) => T,
    options?: AcquireOptions & Waiting,
  ): Promise<Awaited<T>>;
  runShared<T>(callback: LockGrantedCallback<T>, options: AcquireOptions): Promise<Awaited<T>>;
  runExclusive<T>(
    callback: (lock: Lock) => T,
    options?: AcquireOptions & Waiting,
  ): Promise<Awaited<T>>;
  runExclusive<T>(callback: LockGrantedCallback<T>, options: AcquireOptions): Promise<Awaited<T>>;
  /** Rejects the requests of this object that wait: as {@link Mutex.cancel}. */
  cancel(reason?: unknown): void;
}

/** Extension. Options of a {@link Semaphore}'s requests. */
export type SemaphoreOptions = AcquireOptions & Pick<LockOptions, 'weight'>;

/**
 * Extension. A number of units, of which each holder takes some. With a number it is private to the
 * code that has the object, in one thread; with a name it uses shared locks of that name with the
 * limit `permits`, shared by all threads. First come, first served: a small request does not
 * overtake a larger one, unless it has more `priority`.
 *
 * @example
 * const connections = new Semaphore(4);
 * await connections.run(async () => {});
 */
export declare class Semaphore {
  constructor(permits: number, options?: PrivateOptions);
  constructor(name: string, options: NamedOptions & { permits: number });
  /**
   * Units that nobody holds.
   * @throws a `NotSupportedError` where only a server or another process could answer
   */
  readonly available: number;
  /**
   * How many requests wait for units, of all threads.
   * @throws a `NotSupportedError` where only a server or another process could answer
   */
  readonly pending: number;
  /**
   * Waits for `weight` units, by default 1. Resolves to `null` if it said `ifAvailable`, and
   * there are not enough units, or others wait.
   */
  acquire(options?: SemaphoreOptions & Waiting): Promise<Release>;
  acquire(options: SemaphoreOptions): Promise<Release | null>;
  /** As `acquire` with `ifAvailable`: `null` if there are not enough units, or others wait. */
  tryAcquire(options?: Omit<SemaphoreOptions, OfTheWait>): Promise<Release | null>;
  /** Calls `callback` when it holds the units, and releases them when its promise settles. */
  run<T>(callback: (lock: Lock) => T, options?: SemaphoreOptions & Waiting): Promise<Awaited<T>>;
  run<T>(callback: LockGrantedCallback<T>, options: SemaphoreOptions): Promise<Awaited<T>>;
  /**
   * Changes the number of units; only of a semaphore without a name. Requests made before are
   * served with the old number. Those made after wait for them, and have the new one.
   * @returns resolves when the new number is in effect; if it rejects, nothing has changed
   */
  resize(permits: number): Promise<void>;
  /** Rejects the requests of this object that wait: as {@link Mutex.cancel}. */
  cancel(reason?: unknown): void;
}

/** A storage bucket (2.2, 6.1). */
export interface StorageBucket {
  readonly name: string;
  /** The bucket's lock manager. */
  readonly locks: LockManager;
  /**
   * Resolves when the bucket is open, rejects with the reason why it cannot be opened. Reading it
   * again then starts another attempt, and returns another promise. Rejects with an
   * `InvalidStateError` once the bucket is closed. Requests wait by themselves.
   */
  readonly ready: Promise<void>;
  /**
   * Gives back what is held through this bucket: those locks are lost, with a
   * {@link LockLostError}. Pending and later requests reject with an `InvalidStateError`. Others
   * who opened the same bucket are not affected.
   */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
