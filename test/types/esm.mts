// The ESM entries.

import webLocks, { locks, type LockManager } from 'web-locks';
import install from 'web-locks/install';
import 'web-locks/register';
import 'web-locks/host/register';

export const manager: LockManager = locks;
export const same: LockManager = webLocks.locks;
export const uninstall: () => void = install();
export const name: Promise<string> = locks.request('name', ({ name }) => name);

// @ts-expect-error: there is none that all who reach a server share
import { locks as none } from 'web-locks/postgres';
import postgres, { type ClusterBucket, Mutex, openBucket } from 'web-locks/postgres';

declare const pool: { connect(): Promise<object>; query(text: string): Promise<object> };
export const bucket: ClusterBucket = openBucket('shop', { pool, ttl: 5_000, durability: 'logged' });
export const mutex = new Mutex('name', { locks: bucket.locks });
export const guarded: Promise<void> = bucket.locks.request('a', async (lock) => {
  await lock.guard(await pool.connect());
});
bucket.addEventListener('lost', ({ cause, reason }) => [reason, cause]);
export const nothing = none;
export const other: LockManager = postgres.openBucket('shop', { pool, listen: pool }).locks;
// @ts-expect-error: it needs a pool
openBucket('shop', {});

// Of all processes of the machine.

import hostLocks, { openBucket as openHostBucket } from 'web-locks/host';

export const hostManager: LockManager = openHostBucket('bucket', { directory: '/dev/shm/a' }).locks;
export const hostDefault: LockManager = hostLocks.locks;
export const hostMutex: webLocks.Mutex = new hostLocks.Mutex('name', { locks: hostManager });
// @ts-expect-error: not a number
openHostBucket('bucket', { directory: 7 });

// In Redis, by each of its clients.

import { Redis } from 'ioredis';
import { createClient, createCluster } from 'redis';
import redisLocks, { openBucket as openRedisBucket } from 'web-locks/redis';

export const byIoredis: LockManager = openRedisBucket('shop', { client: new Redis() }).locks;
export const byNodeRedis: ClusterBucket = redisLocks.openBucket('shop', {
  client: createClient(),
  ttl: 5_000,
  strict: true,
});
export const inCluster: ClusterBucket = openRedisBucket('shop', {
  client: createCluster({ rootNodes: [] }),
  shards: 4,
  failover: 'ignore',
});
// @ts-expect-error: no client
openRedisBucket('shop', {});

// In etcd.

import etcdLocks, { openBucket as openEtcdBucket } from 'web-locks/etcd';

export const inEtcd: ClusterBucket = openEtcdBucket('shop', {
  endpoints: ['https://etcd-1:2379', 'https://etcd-2:2379'],
  auth: { user: 'shop', password: 'secret' },
  fetch: (url, options) => fetch(url, options),
});
export const byUrl: LockManager = etcdLocks.openBucket('shop', { endpoints: 'http://etcd' }).locks;
// @ts-expect-error: it needs endpoints
openEtcdBucket('shop', {});

// In place of proper-lockfile.

import lockfile, { check, lock, type LockOptions } from 'web-locks/lockfile';

export const releasing: Promise<() => Promise<void>> = lockfile('file', { retries: 5 });
export const releasingToo = lock('file', {
  stale: 5_000,
  update: 1_000,
  retries: { retries: 5, minTimeout: 10, randomize: true },
  realpath: false,
  onCompromised: (error) => error.code,
});
export const releaseSync: () => void = lockfile.lockSync('file');
export const isLocked: Promise<boolean> = check('file', { lockfilePath: 'a.lock' });
export const ofLock: LockOptions = { fs: {} };
// @ts-expect-error: not a list
lock('file', { retries: '5' });

// Monitoring, with the packages of others.
import * as opentelemetry from '@opentelemetry/api';
import type { RunCoordinator } from 'node-cron';
import prometheusClient from 'prom-client';
import nodeCron, { runCoordinator } from 'web-locks/node-cron';
import otel, { instrument } from 'web-locks/otel';
import prometheus, { collectMetrics } from 'web-locks/prometheus';

const stop: () => void = collectMetrics(prometheusClient, {
  register: new prometheusClient.Registry(),
});
instrument(opentelemetry)();
void [stop, otel.instrument === instrument, prometheus.collectMetrics === collectMetrics];
const coordinator: RunCoordinator = runCoordinator(locks, { timeout: 1000 });
void [coordinator, nodeCron.runCoordinator === runCoordinator];

// Jobs of cron and methods of NestJS.
import { type DynamicModule, Injectable, Module } from '@nestjs/common';
import { CronJob } from 'cron';
import cron, { oncePerTick } from 'web-locks/cron';
import nest, { currentLock, Elected, Locked, LOCKS, LocksModule, Once } from 'web-locks/nest';

export const job = CronJob.from({
  cronTime: '0 3 * * *',
  onTick: oncePerTick(
    locks,
    'nightly',
    async function (this: CronJob) {
      this.lastDate();
    },
    { timeout: 1000 },
  ),
});
CronJob.from({ cronTime: '0 3 * * *', onTick: oncePerTick(locks, 'nightly', async () => {}) });
// @ts-expect-error: not a function
oncePerTick(locks, 'nightly', 'ls');

export class Jobs {
  @Locked((id: string) => `order ${id}`, { timeout: 5000 })
  async pay(id: string, note?: string): Promise<string> {
    currentLock().signal.throwIfAborted();
    return `${id} ${note} ${currentLock().token}`;
  }
  @Once('report', { keep: 20 * 3_600_000 })
  async report() {}
  @Elected('scheduler', { label: 'here' })
  protected async lead() {}
  // @ts-expect-error: it returns no promise
  @Locked('count')
  count() {
    return 1;
  }
}
// As TypeScript calls decorators with `experimentalDecorators`.
const descriptor = Object.getOwnPropertyDescriptor(Jobs.prototype, 'pay');
Locked('order')(Jobs.prototype, 'pay', descriptor as TypedPropertyDescriptor<Jobs['pay']>);
// @ts-expect-error: it needs `keep`
Once('report', {});

Injectable()(Jobs);
export class AppModule {}
Module({ imports: [LocksModule.forRoot({ locks })], providers: [Jobs] })(AppModule);
export const bucketModule: DynamicModule = LocksModule.forRootAsync({
  imports: [AppModule],
  inject: [LOCKS],
  useFactory: (endpoints: string) => openEtcdBucket('shop', { endpoints }),
});
void [cron.oncePerTick === oncePerTick, nest.Locked === Locked];
