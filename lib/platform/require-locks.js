'use strict';

const { describe, typeError } = require('./errors.js');

/**
 * Throws a TypeError if `locks` lacks the method. It does not check the class: the lock manager may
 * be a test double, or come from another copy of this package.
 * @param {any} locks @param {string} method @param {string} operation
 */
function requireLocks(locks, method, operation) {
  if (typeof locks?.[method] === 'function') return;
  throw typeError(
    operation,
    `'locks' is ${describe(locks)}; expected a lock manager, such as bucket.locks.`,
  );
}

module.exports = { requireLocks };
