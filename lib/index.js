'use strict';

const { locks, openBucket } = require('./extensions/buckets.js');
const {
  DeadlockError,
  LockError,
  LockStolenError,
  LockTimeoutError,
} = require('./platform/errors.js');
const { LockHandle } = require('./extensions/lock-handle.js');
const { Lock } = require('./standard/lock.js');
const { LockManager } = require('./standard/lock-manager.js');
const { Mutex, RWLock } = require('./extensions/mutex.js');

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
