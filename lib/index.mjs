// The CommonJS entry under ESM names, so that both give the same instances.
import webLocks from './index.js';

export const {
  DeadlockError,
  Lock,
  LockError,
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
} = webLocks;
export default webLocks;
