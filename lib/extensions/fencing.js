'use strict';

/** `lock.token`, attached to the locks of the specification. */

const { Lock, requestOf } = require('../standard/lock.js');

class Extension {
  /**
   * @returns {bigint} greater than the token of any lock that was granted on the name before, for
   *   as long as the process lives
   */
  get token() {
    return /** @type {any} */ (requestOf(this, "'get token' on 'Lock'")).token;
  }
}

Object.defineProperty(Lock.prototype, 'token', {
  ...Object.getOwnPropertyDescriptor(Extension.prototype, 'token'),
  enumerable: true,
});

module.exports = { Lock };
