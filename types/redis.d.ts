import type { ClusterBucket, KeeperOptions } from './postgres.js';

export * from './shared.js';
export type { ClusterBucket, KeeperOptions, SessionEvent } from './postgres.js';

/**
 * A client of `redis` (node-redis: `createClient`, `createCluster`) or `ioredis` (`Redis`,
 * `Cluster`), of which only `duplicate` is used.
 */
export interface RedisClient {
  duplicate(...options: never[]): object;
}

export interface RedisOptions {
  /**
   * The bucket only duplicates it, twice for a server and once for a cluster. It need not be
   * connected, and may be closed at any time.
   */
  client: RedisClient;
  /**
   * The lease, in milliseconds: 2,000 to 3,600,000, by default 10,000. A process that is killed, or
   * cannot reach the server for so long, loses its locks. The same for all who open the bucket.
   */
  ttl?: number | undefined;
  /**
   * Over how many slots of a cluster the names are spread, 1 to 64, by default 1. The same for all
   * who open the bucket. With several, `requestAll` asks for one name after the other.
   */
  shards?: number | undefined;
  /** Refuses a primary that would keep granting after it was split off. Not for clusters. */
  strict?: boolean | undefined;
  /** `'ignore'` accepts a server that does not tell its `run_id`. */
  failover?: 'ignore' | undefined;
  /**
   * What all keys and channels of the bucket begin with; by default the `keyPrefix` of the client.
   * Without `{` and `}`. The same for all who open the bucket: others are other buckets.
   */
  prefix?: string | undefined;
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
}

/**
 * Opens a storage bucket in Redis or Valkey: a lock manager shared by all who open the same name at
 * the same server. Returns at once; `ready` resolves when it is open.
 *
 * @throws TypeError for invalid options
 *
 * @example
 * const shop = openBucket('shop', { client });
 * await shop.locks.request('order 7', async (lock) => {});
 * await shop.close();
 */
export declare function openBucket(name: string, options: RedisOptions): ClusterBucket;
