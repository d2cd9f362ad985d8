'use strict';

/** Gives locks what the specification lacks: their state, the guard of a data store, and data. */

const { Lock, requestOf } = require('../../standard/lock.js');
const { guard } = require('../reentrancy/reentrant-parent.js');
const { publish } = require('../request/publish.js');

/**
 * Throws if `lock` is not a lock.
 * @param {any} lock @param {string} what the member of the lock, for the message
 * @returns {InstanceType<typeof import('../request/request.js').Request>}
 */
const requestOfLock = (lock, what) => /** @type {any} */ (requestOf(lock, `'${what}' on 'Lock'`));

class StateExtension {
  /** Aborts when the lock is stolen or lost in another way; the reason is the error of the loss. */
  get signal() {
    return requestOfLock(this, 'get signal').lossSignal;
  }

  /** @returns {bigint} greater than any earlier token of the name, as far as the scope remembers */
  get token() {
    return requestOfLock(this, 'get token').token;
  }

  get held() {
    return requestOfLock(this, 'get held').checkHeld();
  }

  /** @returns {number} milliseconds that the lock is surely held; Infinity without a lease */
  get remaining() {
    return requestOfLock(this, 'get remaining').remaining;
  }

  /**
   * Keeps the lock held until the transaction of the client ends; only for PostgreSQL.
   * @param {any} client a database client that is in a transaction
   * @throws {unknown} if the lock is no longer held
   */
  async guard(client) {
    const request = requestOfLock(this, 'guard');
    await guard(request.backend, request, client);
  }

  /**
   * Sets the data that details tell of the lock, or removes it if the value is undefined.
   * @param {unknown} value
   * @returns {Promise<boolean>} false if the lock is no longer held
   */
  async publish(value) {
    return publish(requestOfLock(this, 'publish'), value, 'Lock');
  }

  /** JSON.stringify does not accept a bigint. */
  toJSON() {
    const request = requestOfLock(this, 'toJSON');
    const { name, mode, token } = request;
    return { name, mode, held: request.checkHeld(), token: `${token}` };
  }
}

for (const name of ['signal', 'token', 'held', 'remaining', 'guard', 'publish', 'toJSON']) {
  const attributes = Object.getOwnPropertyDescriptor(StateExtension.prototype, name);
  Object.defineProperty(Lock.prototype, name, { ...attributes, enumerable: name !== 'toJSON' });
}

module.exports = { Lock };
