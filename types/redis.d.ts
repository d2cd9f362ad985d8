import type { ClusterBucket } from './postgres.js';

export * from './shared.js';
export type { ClusterBucket, SessionEvent } from './postgres.js';

/**
 * A client of `redis` (node-redis: `createClient`, `createCluster`) or `ioredis` (`Redis`,
 * `Cluster`), of which only `duplicate` is used.
 */
export interface RedisClient {
  duplicate(...options: never[]): object;
}

export interface RedisOptions {
  /**
   * Is duplicated, twice for a server and once for a cluster, and not used otherwise: it need not
   * be connected, and may be closed at any time.
   */
  client: RedisClient;
  /**
   * Milliseconds, 2,000 to 3,600,000, by default 10,000. A process that is gone, or cannot reach
   * the server for so long, has lost its locks. The same for all who open the bucket.
   */
  ttl?: number | undefined;
  /**
   * In how many slots of a cluster the names are, 1 to 64, by default 1. The same for all who open
   * the bucket. With several, `requestAll` asks for one name after the other.
   */
  shards?: number | undefined;
  /** Refuses a primary that would go on granting after it was split off. Not for clusters. */
  strict?: boolean | undefined;
  /** `'ignore'` takes a server that does not tell its `run_id`. */
  failover?: 'ignore' | undefined;
  /** For `query({ details: true })`, of requests that have none of their own. */
  label?: string | undefined;
}

/**
 * Opens a storage bucket in Redis or Valkey: a lock manager shared by all who open the same name at
 * the same server. Returns at once; `ready` tells when it is open.
 *
 * @throws TypeError for options that cannot be right
 *
 * @example
 * const shop = openBucket('shop', { client });
 * await shop.locks.request('order 7', async (lock) => {});
 * await shop.close();
 */
export declare function openBucket(name: string, options: RedisOptions): ClusterBucket;
