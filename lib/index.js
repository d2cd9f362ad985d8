'use strict';

const { locks, openBucket } = require('./buckets.js');
const { DeadlockError, LockError, LockStolenError, LockTimeoutError } = require('./errors.js');
const { LockHandle } = require('./lock-handle.js');
const { Lock } = require('./lock.js');
const { LockManager } = require('./lock-manager.js');
const { Mutex, RWLock } = require('./mutex.js');

module.exports = {
  DeadlockError,
  Lock,
  LockError,
  LockHandle,
  LockManager,
  LockStolenError,
  LockTimeoutError,
  Mutex,
  RWLock,
  locks,
  openBucket,
};
