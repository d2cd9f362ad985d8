'use strict';

const { inspect } = require('node:util');
const { illegalInvocation } = require('../platform/errors.js');
const { defineInterface } = require('./webidl.js');

/** @typedef {InstanceType<typeof import('./lock-request.js').LockRequest>} LockRequest */

/** What shows a constructor that it is called from this package. */
const own = Symbol('own');

/**
 * A lock that is held, given to the callback of `LockManager.request` (3.3). Not constructible.
 */
class Lock {
  /** @type {LockRequest} */
  #request;

  constructor() {
    // Not parameters: `Lock.length` is 0.
    if (arguments[0] !== own) throw new TypeError('Illegal constructor');
    this.#request = arguments[1];
  }

  /** @returns {string} the resource name */
  get name() {
    if (!(#request in this)) throw illegalInvocation("'get name' on 'Lock'", 'Lock');
    return this.#request.name;
  }

  /** @returns {import('../backend/contract.js').LockMode} */
  get mode() {
    if (!(#request in this)) throw illegalInvocation("'get mode' on 'Lock'", 'Lock');
    return this.#request.mode;
  }

  /**
   * Not of the specification.
   * @returns {AbortSignal} aborted, with a LockStolenError as its reason, when the lock is stolen
   */
  get signal() {
    if (!(#request in this)) throw illegalInvocation("'get signal' on 'Lock'", 'Lock');
    return this.#request.lossSignal;
  }

  [inspect.custom](/** @type {number} */ _depth, /** @type {any} */ options) {
    if (!(#request in this)) return this;
    const { name, mode } = this.#request;
    return `${this.constructor.name} ${inspect({ name, mode }, options)}`;
  }
}

defineInterface(Lock, ['name', 'mode', 'signal']);

/**
 * @param {LockRequest} request granted
 * @returns {Lock}
 */
// @ts-expect-error: the constructor reads its arguments itself
const createLock = (request) => new Lock(own, request);

module.exports = { Lock, createLock, own };
