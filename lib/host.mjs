// The CommonJS entry under ESM names, so that both give the same instances.
import scope from './host.js';

export * from './common.mjs';
export const { Mutex, RWLock, Semaphore, locks, openBucket } = scope;
export default scope;
