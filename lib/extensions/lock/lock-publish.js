'use strict';

/** Gives locks `lock.publish(value)`. */

const { Lock, requestOf } = require('../../standard/lock.js');
const { publish } = require('../request/publish.js');

class PublishExtension {
  /**
   * Sets the data that details tell of the lock, or removes it if the value is undefined.
   * @param {unknown} value
   * @returns {Promise<boolean>} false if the lock is no longer held
   */
  async publish(value) {
    const request = /** @type {any} */ (requestOf(this, "'publish' on 'Lock'"));
    return publish(request, value, 'Lock');
  }
}

Object.defineProperty(Lock.prototype, 'publish', {
  ...Object.getOwnPropertyDescriptor(PublishExtension.prototype, 'publish'),
  enumerable: true,
});

module.exports = { Lock };
