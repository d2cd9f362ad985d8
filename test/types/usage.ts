// Programs of users, and what the compiler must refuse.

import {
  DeadlockError,
  Lock,
  LockHandle,
  LockManager,
  LockQueueFullError,
  LockStolenError,
  LockTimeoutError,
  Mutex,
  RWLock,
  Semaphore,
  locks,
  openBucket,
  type DetailedSnapshot,
  type LockGrantedCallback,
  type LockInfo,
  type LockMode,
  type LockOptions,
  type Release,
  type OnceResult,
  type SeveralLocks,
  type SeveralOptions,
} from 'web-locks';
import install = require('web-locks/install');
import lockfile = require('web-locks/lockfile');

/** Compiles only if both types are the same. */
type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_same: Same<A, B>): void => {};

export async function accepted(signal: AbortSignal): Promise<void> {
  const value = await locks.request('name', () => 7);
  same<typeof value, number>(true);
  const awaited = await locks.request('name', { mode: 'exclusive' }, async () => 'text');
  same<typeof awaited, string>(true);
  const nothing = await locks.request('name', { signal }, () => {});
  same<typeof nothing, void>(true);
  const { held, pending } = await locks.query();
  same<typeof held, LockInfo[]>(true);
  same<typeof pending, LockInfo[]>(true);
  same<LockInfo['mode'], LockMode>(true);
  const bucket = openBucket('bucket');
  same<typeof bucket.locks, LockManager>(true);
  const uninstall = install();
  same<typeof uninstall, () => void>(true);
  install({});
  const release = await lockfile.lock('file', {} satisfies lockfile.LockOptions);
  same<typeof release, () => Promise<void>>(true);
  install({ locks: bucket.locks, target: {} });
  // @ts-expect-error: not a lock manager
  install({ locks: 'mine' } satisfies install.InstallOptions);
}

/** A callback gets `null` where that is possible, and nowhere else. */
export function nullOrNot(options: LockOptions, several: SeveralOptions, mode: LockMode): void {
  const lock = (got: Lock) => got.name;
  locks.request('name', (got) => {
    const published = got.publish({ at: 1 });
    same<typeof published, Promise<boolean>>(true);
  });
  locks.elect('name', (leader) => {
    const published = leader.publish(undefined);
    same<typeof published, Promise<boolean>>(true);
  });
  const lockOrNull = (got: Lock | null) => got?.name;
  locks.request('name', (got) => same<typeof got, Lock>(true));
  locks.request('name', { mode }, (got) => same<typeof got, Lock>(true));
  locks.request('name', { ifAvailable: false }, (got) => same<typeof got, Lock>(true));
  locks.request('name', { ifAvailable: undefined }, (got) => same<typeof got, Lock>(true));
  locks.request('name', { steal: true }, lock);
  locks.request('name', { steal: true }, lockOrNull);
  locks.request('name', { ifAvailable: true }, (got) => same<typeof got, Lock | null>(true));
  locks.request('name', options, (got) => same<typeof got, Lock | null>(true));
  locks.request('name', { ...options, ifAvailable: false }, lock);
  // @ts-expect-error: not available
  locks.request('name', { ifAvailable: true }, lock);
  // @ts-expect-error: perhaps not available
  locks.request('name', options, lock);
  const kept: LockGrantedCallback<string | undefined> = lockOrNull;
  locks.request('name', kept);
  locks.requestAll(['name'], (got) => same<typeof got, readonly LockHandle[]>(true));
  locks.requestAll(['name'], { mode }, (got) => same<typeof got, readonly LockHandle[]>(true));
  locks.requestAll(['name'], several, (got) =>
    same<typeof got, readonly LockHandle[] | null>(true),
  );
}

/** Omitted options may be `undefined`, even with exactOptionalPropertyTypes. */
export async function notGiven(given: { signal: AbortSignal | undefined }): Promise<void> {
  const mode = undefined;
  const common = { mode, timeout: undefined, label: undefined, warnAfter: undefined };
  const request = { ...common, ...given, steal: undefined, deadlock: undefined };
  await locks.request('name', request, (lock) => same<typeof lock, Lock>(true));
  await locks.requestAll([{ name: 'name', mode }], { ...common, ...given }, () => {});
  locks.acquireSync('name', common).release();
  await locks.query({ details: undefined });
  const mutex = new Mutex('name', { bucket: undefined, locks: undefined, label: undefined });
  const limits = { holdTimeout: undefined, reentrant: undefined };
  await mutex.runExclusive(() => {}, { ifAvailable: undefined, ...given, ...limits });
}

export async function extensions(error: unknown): Promise<void> {
  const handle = await locks.acquire('name', { timeout: 5, label: 'mine', warnAfter: 10 });
  same<typeof handle, LockHandle>(true);
  handle[Symbol.dispose]();
  await handle[Symbol.asyncDispose]();
  const maybe = await locks.acquire('name', { ifAvailable: true });
  same<typeof maybe, LockHandle | null>(true);
  const total = await locks.requestAll(['a', { name: 'b', mode: 'shared' }], (held) => held.length);
  same<typeof total, number>(true);
  await locks.requestAll(new Set(['a']), { ifAvailable: true }, (held) => held?.length);
  const several = await locks.acquireAll(['a'], { deadlock: 'reject' });
  same<typeof several, SeveralLocks>(true);
  const once = await locks.once('name', { keep: 5, timeout: 5 }, async (lock) => lock.token);
  same<typeof once, OnceResult<bigint>>(true);
  if (once.ran) same<typeof once.value, bigint>(true);
  else same<typeof once.value, undefined>(true);
  const now = locks.tryAcquireSync('name', { mode: 'shared' });
  same<typeof now, LockHandle | null>(true);
  locks.acquireSync('name', { timeout: 100 }).release();
  const details = await locks.query({ details: true });
  same<typeof details, DetailedSnapshot>(true);
  const ofName = await locks.query({ name: 'name' });
  same<typeof ofName.held, LockInfo[]>(true);
  const release = await new Mutex('name', { bucket: openBucket('bucket') }).acquire();
  release();
  release[Symbol.dispose]();
  await new Mutex('name', { locks, label: 'mine' }).acquire({ holdTimeout: 5, reentrant: true });
  const { signal } = new AbortController();
  await new RWLock(undefined, { label: 'mine' }).acquireShared({ signal, deadlock: 'reject' });
  await locks.request('name', { holdTimeout: 5, reentrant: true }, () => {});
  locks.tryAcquireSync('name', { holdTimeout: 5, reentrant: true })?.release();
  const value = await new RWLock().runShared(async () => 7, { ifAvailable: true });
  same<typeof value, number>(true);
  const tried = await new Mutex().tryAcquire({ label: 'mine' });
  same<typeof tried, Release | null>(true);
  const asked = await new Semaphore(2).acquire({ ifAvailable: true, weight: 2 });
  same<typeof asked, Release | null>(true);
  const waited = await new Semaphore(2).acquire({ weight: 2, maxTotal: 5 });
  same<typeof waited, Release>(true);
  await new Mutex().runExclusive((lock) => same<typeof lock, Lock | null>(true), {
    ifAvailable: true,
  });
  await new Mutex().waitForUnlock({ timeout: 5 });
  new Mutex().cancel();
  const semaphore = new Semaphore('name', { permits: 2, bucket: 'bucket' });
  await semaphore.resize(semaphore.pending + semaphore.available);
  const ran = await semaphore.run((lock) => lock.name, { label: 'label' });
  same<typeof ran, string>(true);
  const units = { mode: 'shared', limit: 4, weight: 2, maxPending: 0, priority: -1 } as const;
  const token = await locks.request('name', units, (lock) => lock.token);
  same<typeof token, bigint>(true);
  const busy = await locks.isBusy('name');
  same<typeof busy, boolean>(true);
  await new Mutex().runExclusive(({ signal }) => same<typeof signal, AbortSignal>(true));
  await new RWLock().runShared((lock) => same<typeof lock, Lock>(true));
  if (error instanceof LockTimeoutError) same<typeof error.waited, number>(true);
  if (error instanceof LockTimeoutError) same<typeof error.held, number>(true);
  if (error instanceof LockStolenError) same<typeof error.clientId, string>(true);
  if (error instanceof LockQueueFullError) same<typeof error.maxPending, number>(true);
  if (error instanceof DeadlockError) error.cycle.map(({ threadId }) => threadId);
}

export function refused(lock: Lock): void {
  // @ts-expect-error: the number of permits is missing
  new Semaphore('name');
  // @ts-expect-error: the constructor has set it
  new Semaphore(2).acquire({ limit: 2 });
  // @ts-expect-error: no callback
  locks.request('name');
  // @ts-expect-error: the callback is last
  locks.request('name', () => {}, {});
  // @ts-expect-error: not a mode
  locks.request('name', { mode: 'upgradable' }, () => {});
  // @ts-expect-error: not an option
  locks.request('name', { ifavailable: true }, () => {});
  // @ts-expect-error: the only value
  locks.request('name', { deadlock: 'wait' }, () => {});
  // @ts-expect-error: `keep` is missing
  locks.once('name', {}, () => {});
  // @ts-expect-error: once is exclusive
  locks.once('name', { keep: 5, mode: 'shared' }, () => {});
  // @ts-expect-error: several names cannot be stolen
  locks.requestAll(['name'], { steal: true }, () => {});
  // @ts-expect-error: nothing to wait for
  locks.tryAcquireSync('name', { timeout: 5 });
  // @ts-expect-error: the method is the mode
  new Mutex().acquire({ mode: 'shared' });
  // @ts-expect-error: a private lock belongs to no bucket
  new Mutex(undefined, { bucket: openBucket('bucket'), locks });
  // @ts-expect-error: not constructible
  new LockHandle();
  // @ts-expect-error: a name is a string
  locks.request(7, () => {});
  // @ts-expect-error: not constructible
  new Lock();
  // @ts-expect-error: not constructible
  new LockManager();
  // @ts-expect-error: read-only
  lock.name = 'other';
  // @ts-expect-error: read-only
  openBucket('bucket').name = 'other';
  // @ts-expect-error: a bucket has a name
  openBucket();
}
