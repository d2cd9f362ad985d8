'use strict';

/** Gives locks `lock.signal`. */

const { Lock, requestOf } = require('../../standard/lock.js');

class SignalExtension {
  /** Aborts when the lock is stolen or lost in another way; the reason is the error of the loss. */
  get signal() {
    return requestOf(this, "'get signal' on 'Lock'").lossSignal;
  }
}

Object.defineProperty(Lock.prototype, 'signal', {
  ...Object.getOwnPropertyDescriptor(SignalExtension.prototype, 'signal'),
  enumerable: true,
});

module.exports = { Lock };
