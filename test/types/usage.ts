// What users write, and what the compiler has to refuse.

import { Lock, LockManager, locks, openBucket, type LockInfo } from 'web-locks';
import install = require('web-locks/install');

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
  await locks.request('name', { ifAvailable: true, steal: false }, (lock) => {
    same<typeof lock, Lock | null>(true);
    return lock?.name;
  });
  const { held = [], pending } = await locks.query();
  same<typeof held, LockInfo[]>(true);
  same<typeof pending, LockInfo[] | undefined>(true);
  const bucket = openBucket('bucket');
  same<typeof bucket.locks, LockManager>(true);
  const uninstall = install();
  same<typeof uninstall, () => void>(true);
  install({});
}

export function refused(lock: Lock): void {
  // @ts-expect-error: no callback
  locks.request('name');
  // @ts-expect-error: the callback is last
  locks.request('name', () => {}, {});
  // @ts-expect-error: not a mode
  locks.request('name', { mode: 'upgradable' }, () => {});
  // @ts-expect-error: not an option
  locks.request('name', { ifavailable: true }, () => {});
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
