// The ESM entries.

import webLocks, { locks, type LockManager } from 'web-locks';
import install from 'web-locks/install';
import 'web-locks/register';

export const manager: LockManager = locks;
export const same: LockManager = webLocks.locks;
export const uninstall: () => void = install();
export const name: Promise<string> = locks.request('name', ({ name }) => name);
