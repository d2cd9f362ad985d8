'use strict';

/**
 * Gives locks the members that help to guard a data store: `token`, `held`, `remaining` and
 * `guard`; and a form for JSON.
 */

const { Lock, requestOf } = require('../../standard/lock.js');
const { guard } = require('../reentrancy/reentrant-parent.js');

/**
 * @param {any} lock @param {string} what
 * @returns {InstanceType<typeof import('../request/request.js').Request>}
 */
const requestOfLock = (lock, what) => /** @type {any} */ (requestOf(lock, `'${what}' on 'Lock'`));

class TokenExtension {
  /**
   * @returns {bigint} greater than the token of any earlier lock on the name, as far as the scope
   *   of the lock manager remembers
   */
  get token() {
    return requestOfLock(this, 'get token').token;
  }

  /** Whether the lock is held at this moment. */
  get held() {
    return requestOfLock(this, 'get held').holds;
  }

  /**
   * @returns {number} milliseconds during which the lock is certainly held, even if its lease is
   *   not renewed; Infinity without a lease, 0 if the lock is not held
   */
  get remaining() {
    return requestOfLock(this, 'get remaining').remaining;
  }

  /**
   * Makes a transaction fail if the lock is not held when the transaction commits. Only the lock
   * managers of PostgreSQL can do that.
   * @param {any} client a database client that is in a transaction
   * @returns {Promise<void>} rejects if the lock is no longer held
   */
  async guard(client) {
    const request = requestOfLock(this, 'guard');
    await guard(request.backend, request, client);
  }

  /** Makes an object without a bigint, because JSON.stringify does not accept a bigint. */
  toJSON() {
    const { name, mode, token, holds: held } = requestOfLock(this, 'toJSON');
    return { name, mode, held, token: `${token}` };
  }
}

const { toJSON } = Object.getOwnPropertyDescriptors(TokenExtension.prototype);
Object.defineProperty(Lock.prototype, 'toJSON', toJSON);

for (const name of ['token', 'held', 'remaining', 'guard']) {
  const attributes = Object.getOwnPropertyDescriptor(TokenExtension.prototype, name);
  Object.defineProperty(Lock.prototype, name, { ...attributes, enumerable: true });
}

module.exports = { Lock };
