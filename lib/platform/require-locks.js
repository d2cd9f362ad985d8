'use strict';

const { describe, typeError } = require('./errors.js');

/**
 * Throws a TypeError if what was given as `locks` has not got the method. It takes lock managers
 * of any load of this package, and stand-ins of tests.
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
