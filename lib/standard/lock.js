'use strict';

const { inspect } = require('node:util');
const { argumentError, illegalInvocation } = require('../platform/errors.js');
const { defineInterface } = require('./webidl.js');

/** @typedef {InstanceType<typeof import('./lock-request.js').LockRequest>} LockRequest */

/** What shows a constructor that it is called from this package. */
const own = Symbol('own');

/** @type {(lock: any, operation: string) => LockRequest} throws if it is no lock */
let requestOf;

/**
 * A lock that is held, given to the callback of `LockManager.request` (3.3). Not constructible.
 */
class Lock {
  /** @type {LockRequest} */
  #request;

  constructor() {
    // Not parameters: `Lock.length` is 0.
    if (arguments[0] !== own) throw argumentError('Illegal constructor');
    this.#request = arguments[1];
  }

  /** @returns {string} the resource name */
  get name() {
    return Lock.#requestOf(this, "'get name' on 'Lock'").name;
  }

  /** @returns {import('../backend/contract.js').LockMode} */
  get mode() {
    return Lock.#requestOf(this, "'get mode' on 'Lock'").mode;
  }

  /**
   * @param {any} lock
   * @param {string} operation for the message
   * @returns {LockRequest}
   */
  static #requestOf(lock, operation) {
    if (typeof lock === 'object' && lock !== null && #request in lock) return lock.#request;
    throw illegalInvocation(operation, 'Lock');
  }

  static {
    requestOf = Lock.#requestOf;
  }

  [inspect.custom](/** @type {number} */ _depth, /** @type {any} */ options) {
    if (!(#request in this)) return this;
    const { name, mode } = this.#request;
    return `${this.constructor.name} ${inspect({ name, mode }, options)}`;
  }
}

defineInterface(Lock, ['name', 'mode']);

/**
 * @param {LockRequest} request granted
 * @returns {Lock}
 */
// @ts-expect-error: the constructor reads its arguments itself
const createLock = (request) => new Lock(own, request);

module.exports = { Lock, createLock, own, requestOf };
