import lockfile from './lockfile.js';

export type CheckOptions = lockfile.CheckOptions;
export type LockOptions = lockfile.LockOptions;
export type LockfileError = lockfile.LockfileError;
export type RetryOptions = lockfile.RetryOptions;
export type UnlockOptions = lockfile.UnlockOptions;

export declare const check: typeof lockfile.check;
export declare const checkSync: typeof lockfile.checkSync;
export declare const lock: typeof lockfile.lock;
export declare const lockSync: typeof lockfile.lockSync;
export declare const unlock: typeof lockfile.unlock;
export declare const unlockSync: typeof lockfile.unlockSync;
export default lockfile;
