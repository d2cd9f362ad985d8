import type { ClusterBucket, KeeperOptions } from './postgres.js';

export * from './shared.js';
export type { ClusterBucket, KeeperOptions, SessionEvent } from './postgres.js';

/** What is used of a `fetch`. */
export type EtcdFetch = (url: string, options: object) => Promise<object>;

export interface EtcdOptions {
  /**
   * The client URLs of the members of one etcd, such as `'http://host:2379'`. Each new connection
   * goes to the next one.
   */
  endpoints: string | readonly string[];
  /**
   * The lease, in milliseconds: 2,000 to 3,600,000, by default 10,000; rounded up to whole seconds,
   * as etcd counts them. A process that is killed, or cannot reach etcd for so long, loses its
   * locks.
   */
  ttl?: number | undefined;
  /** If etcd requires a user. */
  auth?: { user: string; password: string } | undefined;
  /**
   * Used instead of Node's client for HTTP, for client certificates or a proxy. It must pass on
   * each part of a response as it arrives.
   */
  fetch?: EtcdFetch | undefined;
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
 * Opens a storage bucket in etcd: a lock manager shared by all who open the same name in the same
 * etcd. Returns at once; `ready` resolves when it is open.
 *
 * @throws TypeError for invalid options
 *
 * @example
 * const shop = openBucket('shop', { endpoints: ['http://etcd-1:2379', 'http://etcd-2:2379'] });
 * await shop.locks.request('order 7', async (lock) => {});
 * await shop.close();
 */
export declare function openBucket(name: string, options: EtcdOptions): ClusterBucket;
