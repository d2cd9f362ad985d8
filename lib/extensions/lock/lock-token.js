'use strict';

/** Gives locks the members that help to guard a data store, and a form for JSON. */

const { Lock, requestOf } = require('../../standard/lock.js');
const { guard } = require('../reentrancy/reentrant-parent.js');

/**
 * Throws if `lock` is not a lock.
 * @param {any} lock @param {string} what the member of the lock, for the message
 * @returns {InstanceType<typeof import('../request/request.js').Request>}
 */
const requestOfLock = (lock, what) => /** @type {any} */ (requestOf(lock, `'${what}' on 'Lock'`));

class TokenExtension {
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

  /** JSON.stringify does not accept a bigint. */
  toJSON() {
    const request = requestOfLock(this, 'toJSON');
    const { name, mode, token } = request;
    return { name, mode, held: request.checkHeld(), token: `${token}` };
  }
}

const { toJSON } = Object.getOwnPropertyDescriptors(TokenExtension.prototype);
Object.defineProperty(Lock.prototype, 'toJSON', toJSON);

for (const name of ['token', 'held', 'remaining', 'guard']) {
  const attributes = Object.getOwnPropertyDescriptor(TokenExtension.prototype, name);
  Object.defineProperty(Lock.prototype, name, { ...attributes, enumerable: true });
}

module.exports = { Lock };
