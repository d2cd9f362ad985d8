// The CommonJS entry under ESM names, so that both give the same instances.
import webLocks from './index.js';

export const { Lock, LockManager, locks, openBucket } = webLocks;
export default webLocks;
