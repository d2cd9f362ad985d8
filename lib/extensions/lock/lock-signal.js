'use strict';

/** Gives locks `lock.signal`. */

const { Lock, requestOf } = require('../../standard/lock.js');

class SignalExtension {
  /** Aborts with a LockStolenError when the lock is stolen. */
  get signal() {
    return requestOf(this, "'get signal' on 'Lock'").lossSignal;
  }
}

Object.defineProperty(Lock.prototype, 'signal', {
  ...Object.getOwnPropertyDescriptor(SignalExtension.prototype, 'signal'),
  enumerable: true,
});

module.exports = { Lock };
