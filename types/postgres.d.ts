import type { StorageBucket } from './shared.js';

export * from './shared.js';

/** What is used of a `Pool` of the package `pg`. */
export interface PostgresPool {
  connect(): Promise<object>;
  query(query: string): Promise<object>;
}

/** What is used of a `sql` of the package `postgres` (postgres.js). */
export interface PostgresSql {
  listen(channel: string, onnotify: (payload: string) => void): unknown;
  unsafe(query: string): unknown;
  readonly options: object;
}

/** The option `keeper` of a bucket. */
export interface KeeperOptions {
  /**
   * For how many milliseconds the event loop may be blocked, 1,000 to 3,600,000, by default 60,000.
   * If it is blocked for longer, the lease is not extended any more.
   */
  maxBlocked?: number | undefined;
  /**
   * An absolute path or a `file:` URL of a module whose default export is a function that returns
   * what the keeper connects by, or a promise of it: a client of Redis, a `Pool` of `pg`, a `sql`
   * of postgres.js, or a `fetch` for etcd. Without it, the keeper makes one like yours, from its
   * options.
   */
  module?: string | URL | undefined;
}

interface Settings {
  /**
   * If `pool` or `sql` connects through a pooler in transaction mode: a second one that does not.
   * The bucket then uses only this one.
   */
  listen?: PostgresPool | PostgresSql | undefined;
  /**
   * The lease, in milliseconds: 2,000 to 3,600,000, by default 10,000. A process that is killed, or
   * cannot reach the server for so long, loses its locks.
   */
  ttl?: number | undefined;
  /** Where the tables are; lower-case letters, digits and `_`, by default `web_locks`. */
  schema?: string | undefined;
  /**
   * What `query({ details: true })` shows for requests without a label of their own; by default the
   * name of the program.
   */
  label?: string | undefined;
  /**
   * Signals that release the locks before they end the process; `true` for SIGINT and SIGTERM. Then
   * others are granted at once what they would wait a lease for. Only for the main thread.
   */
  releaseOnSignal?: boolean | readonly string[] | undefined;
  /**
   * Extends the lease from a thread of its own while the event loop is blocked, so that locks
   * survive a block that is longer than the lease.
   */
  keeper?: boolean | KeeperOptions | undefined;
  /**
   * What a crash of the server does to locks. `'logged'` (the default for a new schema): nothing.
   * `'unlogged'`: they are lost, and nobody is granted one for the length of a lease.
   */
  durability?: 'logged' | 'unlogged' | undefined;
}

interface OptionsOfPg extends Settings {
  /**
   * A `Pool` of `pg`, whose `max` is at least 2: the bucket keeps one client until it is closed.
   * End the pool after the bucket.
   */
  pool: PostgresPool;
  sql?: undefined;
}

interface OptionsOfPostgresJs extends Settings {
  /**
   * What `postgres()` of postgres.js returns. The bucket makes one more connection with its
   * options, which `max` does not count.
   */
  sql: PostgresSql;
  pool?: undefined;
}

export type PostgresOptions = OptionsOfPg | OptionsOfPostgresJs;

/** An event of a {@link ClusterBucket}. */
export interface SessionEvent {
  readonly type: 'suspect' | 'refused' | 'lost' | 'open';
  /** Of `lost`, a word: see `reason` of `LockLostError`. */
  readonly reason?: 'expired' | 'unreachable' | 'failover' | undefined;
  /** The last error there was. */
  readonly cause?: unknown;
}

type SessionListener = (event: SessionEvent) => void;

/**
 * A storage bucket on a server. Its events are {@link SessionEvent}s: `suspect`, the server does
 * not answer, and locks are held until their lease expires; `refused`, the server refuses to serve
 * (a login, a database, a version), and requests reject with its error until it serves again;
 * `lost`, all locks were lost; `open`, the bucket works again.
 */
export interface ClusterBucket extends StorageBucket {
  /** `closed`: by `close()`, or because the bucket cannot work at all, as with an ended pool. */
  readonly state: 'new' | 'opening' | 'open' | 'suspect' | 'refused' | 'lost' | 'closed';
  addEventListener(
    type: SessionEvent['type'],
    listener: SessionListener,
    options?: { once?: boolean },
  ): void;
  removeEventListener(type: SessionEvent['type'], listener: SessionListener): void;
}

/**
 * Opens a storage bucket in a PostgreSQL database: a lock manager shared by all who open the same
 * name with the same database and schema. Returns at once; `ready` resolves when it is open.
 *
 * @throws TypeError for invalid options
 *
 * @example
 * const shop = openBucket('shop', { pool }); // or { sql } of postgres.js
 * await shop.locks.request('order 7', async (lock) => {});
 * await shop.close();
 */
export declare function openBucket(name: string, options: PostgresOptions): ClusterBucket;
