'use strict';

const { inspect } = require('node:util');
const { typeError } = require('./errors.js');
const { defineInterface } = require('./webidl.js');

/** What shows the constructor that it is called from here. */
const own = Symbol('own');

/**
 * A lock that is held, given to the callback of `LockManager.request` (3.3). Not constructible.
 */
class Lock {
  #name;
  #mode;

  constructor() {
    // Not parameters: `Lock.length` is 0.
    if (arguments[0] !== own) throw new TypeError('Illegal constructor');
    this.#name = arguments[1];
    this.#mode = arguments[2];
  }

  /** @returns {string} the resource name */
  get name() {
    if (!(#name in this)) throw illegalInvocation('name');
    return this.#name;
  }

  /** @returns {import('./backend.js').LockMode} */
  get mode() {
    if (!(#name in this)) throw illegalInvocation('mode');
    return this.#mode;
  }

  [inspect.custom](/** @type {number} */ _depth, /** @type {any} */ options) {
    if (!(#name in this)) return this;
    return `Lock ${inspect({ name: this.#name, mode: this.#mode }, options)}`;
  }
}

defineInterface(Lock, ['name', 'mode']);

/** @param {string} member */
function illegalInvocation(member) {
  return typeError(`'get ${member}' on 'Lock'`, 'Illegal invocation, this is not a Lock.');
}

/**
 * @param {string} name the resource name
 * @param {import('./backend.js').LockMode} mode
 * @returns {Lock}
 */
// @ts-expect-error: the constructor reads its arguments itself
const createLock = (name, mode) => new Lock(own, name, mode);

module.exports = { Lock, createLock };
