'use strict';

/**
 * What guards a store behind a lock, attached to the locks of the specification: `lock.token`,
 * `lock.held`, `lock.remaining`, `lock.guard`; and what JSON has of a lock.
 */

const { Lock, requestOf } = require('../standard/lock.js');
const { guard } = require('./reentrant-parent.js');

/**
 * @param {any} lock
 * @param {string} what for the message
 * @returns {InstanceType<typeof import('./request.js').Request>}
 */
const of = (lock, what) => /** @type {any} */ (requestOf(lock, `'${what}' on 'Lock'`));

class TokenExtension {
  /**
   * @returns {bigint} greater than the token of any lock that was granted on the name before, for
   *   as long as the lock manager's scope remembers
   */
  get token() {
    return of(this, 'get token').token;
  }

  /** @returns {boolean} whether it is held at this moment */
  get held() {
    return of(this, 'get held').holds;
  }

  /**
   * @returns {number} milliseconds that it is held at least, if nobody renews it; Infinity where
   *   locks have no lease, 0 if it is not held
   */
  get remaining() {
    return of(this, 'get remaining').remaining;
  }

  /**
   * Sees to it that the lock is still held when a transaction of the user's commits, where the lock
   * manager can: in PostgreSQL.
   * @param {any} client in whose transaction
   * @returns {Promise<void>} rejects if the lock is no longer held
   */
  async guard(client) {
    const request = of(this, 'guard');
    await guard(request.backend, request, client);
  }

  /** For JSON.stringify, which does not take a bigint. */
  toJSON() {
    const { name, mode, token, holds: held } = of(this, 'toJSON');
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
