'use strict';

const { inspect } = require('node:util');
const { argumentError, illegalInvocation } = require('../platform/errors.js');
const { defineInterface } = require('./webidl.js');

/** @typedef {InstanceType<typeof import('./lock-request.js').LockRequest>} LockRequest */

/** Proves to a constructor that this package calls it. */
const own = Symbol('own');

/** @type {(lock: any, operation: string) => LockRequest} throws if the value is not a lock */
let requestOf;

/**
 * A held lock, which the callback of a request receives (section 3.3 of the specification).
 * extensions/objects/lock-state.js adds `held`, `signal`, `token` and others.
 */
class Lock {
  /** @type {LockRequest} */
  #request;

  constructor() {
    // Parameters would change `Lock.length`, which must be 0.
    if (arguments[0] !== own) throw argumentError('Illegal constructor');
    this.#request = arguments[1];
  }

  get name() {
    return Lock.#requestOf(this, "'get name' on 'Lock'").name;
  }

  /** @returns {import('../backend/contract.js').LockMode} */
  get mode() {
    return Lock.#requestOf(this, "'get mode' on 'Lock'").mode;
  }

  /** @param {any} lock @param {string} operation */
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

/** @param {LockRequest} request granted */
// @ts-expect-error: the constructor reads `arguments`
const createLock = (request) => new Lock(own, request);

module.exports = { Lock, createLock, own, requestOf };
