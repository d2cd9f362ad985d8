// What every entry has, under ESM names, so that both give the same instances.
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
