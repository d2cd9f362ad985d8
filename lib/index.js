'use strict';

const { locks, openBucket } = require('./extensions/buckets.js');
const {
  DeadlockError,
  LockError,
  LockQueueFullError,
  LockStolenError,
  LockTimeoutError,
} = require('./extensions/lock-errors.js');
const { LockHandle } = require('./extensions/lock-handle.js');
const { LockManager } = require('./extensions/lock-manager.js');
const { Lock } = require('./extensions/losing.js');
const { Mutex, RWLock } = require('./extensions/mutex.js');
const { Semaphore } = require('./extensions/semaphore.js');
require('./extensions/fencing.js');

module.exports = {
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
};
