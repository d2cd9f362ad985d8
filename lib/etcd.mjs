// The CommonJS entry under ESM names, so that both give the same instances.
import scope from './etcd.js';

export * from './common.mjs';
export const { Mutex, RWLock, Semaphore, openBucket } = scope;
export default scope;
