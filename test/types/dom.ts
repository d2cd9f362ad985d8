// The declarations are assignable to those of TypeScript's DOM library, and the reverse for what
// users pass in. dom-options.ts tests options.

import webLocks = require('web-locks');

declare const domOptions: LockOptions;
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
  info: LockInfo;
  snapshot: LockManagerSnapshot;
  mode: LockMode;
} = ours;

export const fromDom: Pick<typeof ours, 'options' | 'mode'> = {
  options: domOptions,
  mode: domMode,
};

/** A library that was written for browsers. */
async function library(manager: LockManager): Promise<number> {
  return manager.request('name', { mode: 'shared' }, async (lock: Lock | null) => (lock ? 1 : 0));
}

export const used: Promise<number> = library(webLocks.locks);
