// The CommonJS entry under ESM names, so that both give the same instances: what every entry
// has, but for what is of this scope.
import scope from './etcd.js';

export * from './common.mjs';
export const { Mutex, RWLock, Semaphore, openBucket } = scope;
export default scope;
