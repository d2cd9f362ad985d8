// The exports of common.js under ESM names, so that CommonJS and ESM give the same instances.
import shared from './common.js';

export const {
  DeadlockError,
  Lock,
  LockError,
  LockHandle,
  LockLostError,
  LockManager,
  LockQueueFullError,
  LockStolenError,
  LockTimeoutError,
  Mutex,
  RWLock,
  Semaphore,
} = shared;
