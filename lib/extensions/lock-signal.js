'use strict';

/** `lock.signal`, attached to the locks of the specification. */

const { Lock, requestOf } = require('../standard/lock.js');

class SignalExtension {
  /**
   * @returns {AbortSignal} aborted, with a LockStolenError as its reason, when the lock is stolen
   */
  get signal() {
    return requestOf(this, "'get signal' on 'Lock'").lossSignal;
  }
}

Object.defineProperty(Lock.prototype, 'signal', {
  ...Object.getOwnPropertyDescriptor(SignalExtension.prototype, 'signal'),
  enumerable: true,
});

module.exports = { Lock };
