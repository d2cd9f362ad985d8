// The ESM entries: their exports, and what the compiler must refuse. The programs of the documents,
// which test/types/documents checks, show their use.

import * as opentelemetry from '@opentelemetry/api';
import { type DynamicModule, Injectable, Module } from '@nestjs/common';
import { CronJob } from 'cron';
import { Redis } from 'ioredis';
import type { RunCoordinator } from 'node-cron';
import prometheusClient from 'prom-client';
import { createClient, createCluster } from 'redis';
import webLocks, { locks, type LockManager } from 'web-locks';
import cron, { oncePerTick } from 'web-locks/cron';
import etcd, { openBucket as openEtcd } from 'web-locks/etcd';
import host, { openBucket as openHost } from 'web-locks/host';
import 'web-locks/host/register';
import install from 'web-locks/install';
import lockfile, { check, lock, type LockOptions } from 'web-locks/lockfile';
import nest, { currentLock, Elected, Locked, LOCKS, LocksModule, Once } from 'web-locks/nest';
import nodeCron, { runCoordinator } from 'web-locks/node-cron';
import otel, { instrument } from 'web-locks/otel';
import postgres, { type ClusterBucket, Mutex, openBucket } from 'web-locks/postgres';
import prometheus, { collectMetrics } from 'web-locks/prometheus';
import redis, { openBucket as openRedis } from 'web-locks/redis';
import 'web-locks/register';
// @ts-expect-error: a server has no default lock manager
import { locks as none } from 'web-locks/postgres';

export const nothing = none;
export const managers: LockManager[] = [locks, webLocks.locks, host.locks];
export const uninstall: () => void = install();
export const name: Promise<string> = locks.request('name', ({ name }) => name);

declare const pool: { connect(): Promise<object>; query(text: string): Promise<object> };
export const bucket: ClusterBucket = openBucket('shop', { pool, ttl: 5_000, durability: 'logged' });
export const guarded: Promise<void> = bucket.locks.request('a', async (lock) => {
  await lock.guard(await pool.connect());
});
bucket.addEventListener('lost', ({ cause, reason }) => [reason, cause]);
postgres.openBucket('shop', { pool, listen: pool });
export const mutexes = [
  new Mutex('name', { locks: bucket.locks }),
  new host.Mutex('name', { locks: openHost('bucket', { directory: '/dev/shm/a' }).locks }),
];
openRedis('shop', { client: new Redis() });
redis.openBucket('shop', { client: createClient(), ttl: 5_000, strict: true });
openRedis('shop', { client: createCluster({ rootNodes: [] }), shards: 4, failover: 'ignore' });
openEtcd('shop', {
  endpoints: ['https://etcd-1:2379', 'https://etcd-2:2379'],
  auth: { user: 'shop', password: 'secret' },
  fetch: (url, options) => fetch(url, options),
});
export const byUrl: ClusterBucket = etcd.openBucket('shop', { endpoints: 'http://etcd' });
// @ts-expect-error: it needs a pool
openBucket('shop', {});
// @ts-expect-error: not a number
openHost('bucket', { directory: 7 });
// @ts-expect-error: no client
openRedis('shop', {});
// @ts-expect-error: it needs endpoints
openEtcd('shop', {});

// An import replaces proper-lockfile.

export const releasing: Promise<() => Promise<void>> = lockfile('file', { retries: 5 });
lock('file', {
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

// Monitoring, jobs of cron and methods of NestJS, with other packages.

const register = new prometheusClient.Registry();
export const stop: () => void = collectMetrics(prometheusClient, { register });
instrument(opentelemetry)();
export const coordinator: RunCoordinator = runCoordinator(locks, { timeout: 1000 });
void [otel.instrument === instrument, prometheus.collectMetrics === collectMetrics];
void [nodeCron.runCoordinator === runCoordinator, cron.oncePerTick === oncePerTick];
void (nest.Locked === Locked);

async function onTick(this: CronJob) {
  this.lastDate();
}
CronJob.from({
  cronTime: '0 3 * * *',
  onTick: oncePerTick(locks, 'nightly', onTick, { timeout: 1000 }),
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
// With `experimentalDecorators`, TypeScript calls decorators like this.
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
  useFactory: (endpoints: string) => openEtcd('shop', { endpoints }),
});
