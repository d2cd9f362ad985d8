'use strict';

const { notSupportedError, quote, typeError } = require('./errors.js');
const { LockRequest } = require('./lock-request.js');
const { defineInterface, toCallback, toDOMString, toLockOptions } = require('./webidl.js');

/** What shows the constructor that it is called from here. */
const own = Symbol('own');

const REQUEST = "'request' on 'LockManager'";
const QUERY = "'query' on 'LockManager'";

/**
 * The lock manager of a storage bucket, as script sees it (3.2). Not constructible: `locks` is one,
 * `openBucket` makes others.
 *
 * Both methods report every error by a rejected promise and never throw, as WebIDL has it for
 * operations that return a promise.
 */
class LockManager {
  /** @type {import('./backend.js').Backend} */
  #backend;

  constructor() {
    // Not parameters: `LockManager.length` is 0.
    const [key, backend] = arguments;
    if (key !== own) throw new TypeError('Illegal constructor');
    this.#backend = backend;
  }

  /**
   * Requests a lock (3.2.1): `request(name, callback)` or `request(name, options, callback)`.
   * @param {any} name the resource name
   * @param {any} optionsOrCallback
   * @returns {Promise<any>} the released promise: settles like what the callback returned, after
   *   the lock was released
   */
  request(name, optionsOrCallback) {
    try {
      if (!LockManager.#isLockManager(this)) throw illegalInvocation(REQUEST);
      // Conversions, in the order of the arguments. With two of them there are no options.
      const count = arguments.length;
      if (count < 2) throw typeError(REQUEST, `2 arguments required, but only ${count} present.`);
      const resourceName = toDOMString(name, REQUEST, 'The name');
      const options = toLockOptions(count > 2 ? optionsOrCallback : undefined, REQUEST);
      const callback = toCallback(arguments[count > 2 ? 2 : 1], REQUEST, 'The callback');
      return LockManager.#request(this.#backend, resourceName, options, callback);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Tells which locks are held and which requests are pending, of all threads (3.2.2).
   * @returns {Promise<import('./backend.js').LockManagerSnapshot>}
   */
  query() {
    try {
      if (!LockManager.#isLockManager(this)) throw illegalInvocation(QUERY);
      return Promise.resolve(this.#backend.query());
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** @param {any} value */
  static #isLockManager(value) {
    return typeof value === 'object' && value !== null && #backend in value;
  }

  /**
   * The steps of request() (3.2.1) after the conversions.
   * @param {import('./backend.js').Backend} backend
   * @param {string} name
   * @param {import('./webidl.js').LockOptions} options
   * @param {(lock: any) => any} callback
   * @returns {Promise<any>}
   */
  static #request(backend, name, options, callback) {
    const { ifAvailable, mode, signal, steal } = options;
    // Step 5.
    if (name[0] === '-') {
      throw notSupportedError(`Names that start with '-' are reserved, ${quote(name)} does.`);
    }
    // Step 6.
    if (steal && ifAvailable) {
      throw notSupportedError("The 'steal' and 'ifAvailable' options cannot be used together.");
    }
    // Step 7.
    if (steal && mode !== 'exclusive') {
      throw notSupportedError("The 'steal' option needs the mode 'exclusive'.");
    }
    // Step 8.
    if (signal && (steal || ifAvailable)) {
      const other = steal ? 'steal' : 'ifAvailable';
      throw notSupportedError(`The 'signal' and '${other}' options cannot be used together.`);
    }
    // Step 9.
    if (signal?.aborted) throw signal.reason;
    // Steps 10 to 12.
    return new LockRequest(backend, name, options, callback).start();
  }
}

defineInterface(LockManager, ['request', 'query']);

/** @param {string} operation */
function illegalInvocation(operation) {
  return typeError(operation, 'Illegal invocation, this is not a LockManager.');
}

/**
 * @param {import('./backend.js').Backend} backend
 * @returns {LockManager}
 */
// @ts-expect-error: the constructor reads its arguments itself
const createLockManager = (backend) => new LockManager(own, backend);

module.exports = { LockManager, createLockManager };
