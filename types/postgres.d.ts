import type { StorageBucket } from './shared.js';

export * from './shared.js';

/** What is used of a `Pool` of the package `pg`. */
export interface PostgresPool {
  connect(): Promise<object>;
  query(query: string): Promise<object>;
}

export interface PostgresOptions {
  /**
   * A `Pool` of `pg`, of at least two clients. One of them is kept until the bucket is closed. To
   * be ended after the bucket is closed.
   */
  pool: PostgresPool;
  /**
   * Where `pool` leads through a pooler in transaction mode: a `Pool` that does not. One client of
   * it is kept then, and none of `pool`.
   */
  listen?: PostgresPool | undefined;
  /**
   * Milliseconds, 2,000 to 3,600,000, by default 10,000. A process that is gone, or cannot reach
   * the server for so long, has lost its locks.
   */
  ttl?: number | undefined;
  /** Where the tables are; lower-case letters, digits and `_`, by default `web_locks`. */
  schema?: string | undefined;
  /** For `query({ details: true })`, of requests that have none of their own. */
  label?: string | undefined;
  /**
   * What a crash of the server does to locks: `'logged'` (the default of a schema that is made)
   * nothing, `'unlogged'` they are lost, and nobody gets one for the length of a lease.
   */
  durability?: 'logged' | 'unlogged' | undefined;
}

/** An event of a {@link ClusterBucket}. */
export interface SessionEvent {
  readonly type: 'suspect' | 'lost' | 'open';
  /** Of `lost`: see `LockLostError`. */
  readonly reason?: string | undefined;
  /** The last error there was. */
  readonly cause?: unknown;
}

type SessionListener = (event: SessionEvent) => void;

/**
 * A storage bucket on a server. It tells what becomes of its session by events, which are
 * {@link SessionEvent}s: `suspect`, the server does not answer, and locks are held until their
 * lease ends; `lost`, all locks were lost; `open`, all is well again.
 */
export interface ClusterBucket extends StorageBucket {
  readonly state: 'new' | 'opening' | 'open' | 'suspect' | 'lost' | 'closed';
  addEventListener(
    type: SessionEvent['type'],
    listener: SessionListener,
    options?: { once?: boolean },
  ): void;
  removeEventListener(type: SessionEvent['type'], listener: SessionListener): void;
}

/**
 * Opens a storage bucket in a PostgreSQL database: a lock manager shared by all who open the same
 * name with the same database and schema. Returns at once; `ready` tells when it is open.
 *
 * @throws TypeError for options that cannot be right
 *
 * @example
 * const shop = openBucket('shop', { pool });
 * await shop.locks.request('order 7', async (lock) => {});
 * await shop.close();
 */
export declare function openBucket(name: string, options: PostgresOptions): ClusterBucket;
