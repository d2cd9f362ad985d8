'use strict';

const { locks, openBucket } = require('./buckets.js');
const { Lock } = require('./lock.js');
const { LockManager } = require('./lock-manager.js');

module.exports = { Lock, LockManager, locks, openBucket };
