// The declarations are assignable to those of TypeScript's DOM library, and what users pass in also
// from them.

import webLocks = require('web-locks');

declare const domOptions: LockOptions;
declare const domInfo: LockInfo;
declare const domSnapshot: LockManagerSnapshot;
declare const domMode: LockMode;
declare const ours: {
  manager: webLocks.LockManager;
  lock: webLocks.Lock;
  options: webLocks.LockOptions;
  info: webLocks.LockInfo;
  snapshot: webLocks.LockManagerSnapshot;
  mode: webLocks.LockMode;
};

export const toDom: {
  manager: LockManager;
  lock: Lock;
  options: LockOptions;
  info: LockInfo;
  snapshot: LockManagerSnapshot;
  mode: LockMode;
} = ours;

export const fromDom: Omit<typeof ours, 'manager' | 'lock'> = {
  options: domOptions,
  info: domInfo,
  snapshot: domSnapshot,
  mode: domMode,
};

/** A library written for browsers. */
async function library(manager: LockManager): Promise<number> {
  return manager.request('name', { mode: 'shared' }, async (lock: Lock | null) => (lock ? 1 : 0));
}

export const used: Promise<number> = library(webLocks.locks);
