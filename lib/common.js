'use strict';

/**
 * The exports that the entries of all scopes share. Each entry adds `locks` (if its scope has a
 * default bucket) and `openBucket`, and may replace Mutex, RWLock and Semaphore (`scopedLocks`).
 */

const {
  DeadlockError,
  LockError,
  LockLostError,
  LockQueueFullError,
  LockStolenError,
  LockTimeoutError,
} = require('./extensions/errors/lock-errors.js');
const { LockHandle } = require('./extensions/request/lock-handle.js');
const { LockManager } = require('./extensions/manager/lock-manager.js');
const { Lock } = require('./extensions/objects/lock-state.js');
const { Mutex, RWLock } = require('./extensions/objects/mutex.js');
const { Semaphore } = require('./extensions/objects/semaphore.js');

module.exports = {
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
};
