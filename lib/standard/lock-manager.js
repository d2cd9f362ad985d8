'use strict';

const { isMainThread } = require('node:worker_threads');
const { illegalInvocation, notSupportedError, typeError } = require('../platform/errors.js');
const { HandleRequest } = require('../extensions/lock-handle.js');
const { LockRequest } = require('./lock-request.js');
const { acquireSeveral, toSeveral, useSeveral } = require('../extensions/several.js');
const {
  checkName,
  defaultOptions,
  defineInterface,
  toCallback,
  toDOMString,
  toLockOptions,
  toSyncOptions,
} = require('./webidl.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('./webidl.js').LockOptions} LockOptions */
/** @typedef {InstanceType<typeof import('../extensions/lock-handle.js').LockHandle>} LockHandle */

/** What shows the constructor that it is called from here. */
const own = Symbol('own');

const on = (/** @type {string} */ method) => `'${method}' on 'LockManager'`;
const REQUEST = on('request');
const QUERY = on('query');
const ACQUIRE = on('acquire');
const REQUEST_ALL = on('requestAll');
const ACQUIRE_ALL = on('acquireAll');
const ACQUIRE_SYNC = on('acquireSync');
const TRY_ACQUIRE_SYNC = on('tryAcquireSync');

/**
 * The lock manager of a storage bucket, as script sees it (3.2). Not constructible: `locks` is one,
 * `openBucket` makes others. `request` and `query` are the specification's, the rest is not.
 *
 * Methods that return a promise report every error by its rejection and never throw, as WebIDL has
 * it for such operations.
 */
class LockManager {
  /** @type {Backend} */
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
      const backend = LockManager.#backendOf(this, REQUEST);
      // Conversions, in the order of the arguments. With two of them there are no options.
      const count = arguments.length;
      needArguments(count, 2, REQUEST);
      const resourceName = toDOMString(name, REQUEST, 'The name');
      const options = count > 2 ? toLockOptions(optionsOrCallback, REQUEST) : defaultOptions;
      const callback = toCallback(arguments[count > 2 ? 2 : 1], REQUEST, 'The callback');
      checkRequest(resourceName, options);
      return new LockRequest(backend, resourceName, options).startCallback(callback);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Tells which locks are held and which requests are pending, of all threads (3.2.2).
   * @returns {Promise<any>} a LockManagerSnapshot; with `{ details: true }` a DetailedSnapshot
   */
  query() {
    try {
      const backend = LockManager.#backendOf(this, QUERY);
      const details = Boolean(arguments[0]?.details);
      return Promise.resolve(details ? backend.details() : backend.query());
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Requests a lock that is held until its handle is released.
   * @param {any} name the resource name
   * @param {any} [options] as for `request`
   * @returns {Promise<LockHandle | null>} null if it said `ifAvailable` and it is not
   */
  acquire(name, options) {
    try {
      const backend = LockManager.#backendOf(this, ACQUIRE);
      needArguments(arguments.length, 1, ACQUIRE);
      const resourceName = toDOMString(name, ACQUIRE, 'The name');
      const lockOptions = toLockOptions(options, ACQUIRE);
      checkRequest(resourceName, lockOptions);
      return new HandleRequest(backend, resourceName, lockOptions).start();
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Requests several locks together: `requestAll(names, callback)` or `requestAll(names, options,
   * callback)`. They are taken one after the other in the order of their names' code units, so two
   * callers cannot wait for each other.
   * @param {any} names an iterable of names or `{ name, mode }`
   * @param {any} optionsOrCallback
   * @returns {Promise<any>} settles like what the callback returned, after the locks were released
   */
  async requestAll(names, optionsOrCallback) {
    const backend = LockManager.#backendOf(this, REQUEST_ALL);
    const count = arguments.length;
    needArguments(count, 2, REQUEST_ALL);
    const several = toSeveral(
      names,
      count > 2 ? optionsOrCallback : undefined,
      checkRequest,
      REQUEST_ALL,
    );
    const callback = toCallback(arguments[count > 2 ? 2 : 1], REQUEST_ALL, 'The callback');
    return useSeveral(backend, several, callback);
  }

  /**
   * Requests several locks that are held until their handle is released.
   * @param {any} names an iterable of names or `{ name, mode }`
   * @param {any} [options]
   * @returns {Promise<InstanceType<typeof import('../extensions/several.js').SeveralLocks> | null>}
   */
  async acquireAll(names, options) {
    const backend = LockManager.#backendOf(this, ACQUIRE_ALL);
    needArguments(arguments.length, 1, ACQUIRE_ALL);
    return acquireSeveral(backend, toSeveral(names, options, checkRequest, ACQUIRE_ALL));
  }

  /**
   * Takes a lock if it is available now.
   * @param {any} name the resource name
   * @param {any} [options] `mode` and `label`
   * @returns {LockHandle | null} null if it is not available
   */
  tryAcquireSync(name, options) {
    const backend = LockManager.#backendOf(this, TRY_ACQUIRE_SYNC);
    needArguments(arguments.length, 1, TRY_ACQUIRE_SYNC);
    const resourceName = toDOMString(name, TRY_ACQUIRE_SYNC, 'The name');
    const lockOptions = { ...toSyncOptions(options, TRY_ACQUIRE_SYNC), ifAvailable: true };
    checkRequest(resourceName, lockOptions);
    return new HandleRequest(backend, resourceName, lockOptions).startSync(0);
  }

  /**
   * Takes a lock, and blocks the calling thread until it is available.
   * @param {any} name the resource name
   * @param {any} [options] `mode`, `label` and `timeout`, which the main thread must give
   * @returns {LockHandle}
   */
  acquireSync(name, options) {
    const backend = LockManager.#backendOf(this, ACQUIRE_SYNC);
    needArguments(arguments.length, 1, ACQUIRE_SYNC);
    const resourceName = toDOMString(name, ACQUIRE_SYNC, 'The name');
    const lockOptions = toSyncOptions(options, ACQUIRE_SYNC);
    checkRequest(resourceName, lockOptions);
    if (isMainThread && lockOptions.timeout === undefined) {
      throw typeError(ACQUIRE_SYNC, "The main thread must give a 'timeout'.");
    }
    const { timeout = Number.POSITIVE_INFINITY } = lockOptions;
    const request = new HandleRequest(backend, resourceName, lockOptions);
    return /** @type {LockHandle} */ (request.startSync(timeout));
  }

  /**
   * @param {any} value
   * @param {string} operation for the message
   * @returns {Backend}
   */
  static #backendOf(value, operation) {
    if (typeof value === 'object' && value !== null && #backend in value) return value.#backend;
    throw illegalInvocation(operation, 'LockManager');
  }
}

defineInterface(LockManager, [
  'request',
  'query',
  'acquire',
  'requestAll',
  'acquireAll',
  'tryAcquireSync',
  'acquireSync',
]);

/**
 * @param {number} count
 * @param {number} needed
 * @param {string} operation for the message
 */
function needArguments(count, needed, operation) {
  if (count >= needed) return;
  const arguments_ = needed === 1 ? '1 argument' : `${needed} arguments`;
  throw typeError(operation, `${arguments_} required, but only ${count} present.`);
}

/**
 * The steps of request() (3.2.1) between the conversions and the request.
 * @param {string} name
 * @param {LockOptions} options
 */
function checkRequest(name, { ifAvailable, mode, signal, steal, timeout }) {
  // Step 5.
  checkName(name);
  // Step 6.
  if (steal && ifAvailable) throw exclude('steal', 'ifAvailable');
  // Step 7.
  if (steal && mode !== 'exclusive') {
    throw notSupportedError("The 'steal' option needs the mode 'exclusive'.");
  }
  // Step 8.
  if (signal && (steal || ifAvailable)) throw exclude('signal', steal ? 'steal' : 'ifAvailable');
  // Step 9.
  if (signal?.aborted) throw signal.reason;
  if (timeout !== undefined && (steal || ifAvailable)) {
    throw exclude('timeout', steal ? 'steal' : 'ifAvailable');
  }
}

/**
 * @param {string} one
 * @param {string} other
 */
const exclude = (one, other) =>
  notSupportedError(`The '${one}' and '${other}' options cannot be used together.`);

/**
 * @param {Backend} backend
 * @returns {LockManager}
 */
// @ts-expect-error: the constructor reads its arguments itself
const createLockManager = (backend) => new LockManager(own, backend);

module.exports = { LockManager, createLockManager };
