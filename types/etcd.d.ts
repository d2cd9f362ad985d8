import type { ClusterBucket } from './postgres.js';

export * from './shared.js';
export type { ClusterBucket, SessionEvent } from './postgres.js';

/** What is used of a `fetch`. */
export type EtcdFetch = (url: string, options: object) => Promise<object>;

export interface EtcdOptions {
  /**
   * URLs for clients, such as `'http://host:2379'`, of members of one etcd. Each connection is to
   * the next one.
   */
  endpoints: string | readonly string[];
  /**
   * Milliseconds, 2,000 to 3,600,000, by default 10,000. A process that is gone, or cannot reach
   * etcd for so long, has lost its locks. etcd counts whole seconds: the next greater one is taken.
   */
  ttl?: number | undefined;
  /** Where etcd wants a user. */
  auth?: { user: string; password: string } | undefined;
  /**
   * Used instead of Node's own `fetch`: where certificates, client certificates or a proxy are
   * needed. It must pass on each part of a response as it comes.
   */
  fetch?: EtcdFetch | undefined;
  /** For `query({ details: true })`, of requests that have none of their own. */
  label?: string | undefined;
}

/**
 * Opens a storage bucket in etcd: a lock manager shared by all who open the same name in the same
 * etcd. Returns at once; `ready` tells when it is open.
 *
 * @throws TypeError for options that cannot be right
 *
 * @example
 * const shop = openBucket('shop', { endpoints: ['http://etcd-1:2379', 'http://etcd-2:2379'] });
 * await shop.locks.request('order 7', async (lock) => {});
 * await shop.close();
 */
export declare function openBucket(name: string, options: EtcdOptions): ClusterBucket;
