'use strict';

/** What lock managers can do beyond the specification, attached to those of the specification. */

const { isMainThread } = require('node:worker_threads');
const { typeError } = require('../platform/errors.js');
const { rejected } = require('../platform/intrinsics.js');
const standard = require('../standard/lock-manager.js');
const { LockManager, backendOf } = standard;
const { checkName, needArguments, toCallback, toDOMString } = require('../standard/webidl.js');
const { HandleRequest } = require('./lock-handle.js');
const { checkRequest, refuse, toOptions } = require('./options.js');
const { Request } = require('./request.js');
const { acquireSeveral, toSeveral, useSeveral } = require('./several.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {InstanceType<typeof import('./lock-handle.js').LockHandle>} LockHandle */

const on = (/** @type {string} */ method) => `'${method}' on 'LockManager'`;
const ACQUIRE = on('acquire');
const REQUEST_ALL = on('requestAll');
const ACQUIRE_ALL = on('acquireAll');
const ACQUIRE_SYNC = on('acquireSync');
const TRY_ACQUIRE_SYNC = on('tryAcquireSync');
const QUERY = on('query');

/** Options that make no sense for a call that does not return before it has the lock. */
const NOT_SYNC = /** @type {const} */ (['ifAvailable', 'steal', 'signal', 'deadlock']);

/** The methods, for LockManager.prototype. */
class Extensions {
  /**
   * Requests a lock that is held until its handle is released.
   * @param {any} name the resource name
   * @param {any} [options] as for `request`
   * @returns {Promise<LockHandle | null>} null if it said `ifAvailable` and it is not
   */
  acquire(name, options) {
    try {
      const backend = backendOf(this, ACQUIRE);
      needArguments(arguments.length, 1, ACQUIRE);
      const resourceName = toName(name, ACQUIRE);
      const given = toOptions(options, ACQUIRE);
      checkName(resourceName);
      checkRequest(given);
      return new HandleRequest(backend, resourceName, given).acquire();
    } catch (error) {
      return rejected(error);
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
    const backend = backendOf(this, REQUEST_ALL);
    const count = arguments.length;
    needArguments(count, 2, REQUEST_ALL);
    const several = toSeveral(names, count > 2 ? optionsOrCallback : undefined, REQUEST_ALL);
    const callback = toCallback(arguments[count > 2 ? 2 : 1], REQUEST_ALL, 'The callback');
    // `await`: a promise that is returned has its `then` called, which may be anybody's.
    return await useSeveral(backend, several, callback);
  }

  /**
   * Requests several locks that are held until their handle is released.
   * @param {any} names an iterable of names or `{ name, mode }`
   * @param {any} [options]
   * @returns {Promise<InstanceType<typeof import('./several.js').SeveralLocks> | null>}
   */
  acquireAll(names, options) {
    try {
      const backend = backendOf(this, ACQUIRE_ALL);
      needArguments(arguments.length, 1, ACQUIRE_ALL);
      const several = toSeveral(names, options, ACQUIRE_ALL);
      return acquireSeveral(backend, several, Extensions.prototype.acquireAll);
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * Takes a lock if it is available now.
   * @param {any} name the resource name
   * @param {any} [options] `mode` and `label`
   * @returns {LockHandle | null} null if it is not available
   */
  tryAcquireSync(name, options) {
    const backend = backendOf(this, TRY_ACQUIRE_SYNC);
    needArguments(arguments.length, 1, TRY_ACQUIRE_SYNC);
    const resourceName = toName(name, TRY_ACQUIRE_SYNC);
    const given = toSyncOptions(options, TRY_ACQUIRE_SYNC);
    const tried = { ...given, ifAvailable: true };
    checkName(resourceName);
    checkRequest(tried);
    return new HandleRequest(backend, resourceName, tried).acquireSync(0);
  }

  /**
   * Takes a lock, and blocks the calling thread until it is available.
   * @param {any} name the resource name
   * @param {any} [options] `mode`, `label`, `warnAfter` and `timeout`, which the main thread must
   *   give
   * @returns {LockHandle}
   */
  acquireSync(name, options) {
    const backend = backendOf(this, ACQUIRE_SYNC);
    needArguments(arguments.length, 1, ACQUIRE_SYNC);
    const resourceName = toName(name, ACQUIRE_SYNC);
    const given = toSyncOptions(options, ACQUIRE_SYNC);
    checkName(resourceName);
    checkRequest(given);
    if (isMainThread && given.timeout === undefined) {
      throw typeError(ACQUIRE_SYNC, "The main thread must give a 'timeout'.");
    }
    const { timeout = Number.POSITIVE_INFINITY } = given;
    return new HandleRequest(backend, resourceName, given).acquireSync(timeout);
  }
}

/**
 * @param {any} name
 * @param {string} operation for the message
 */
const toName = (name, operation) => toDOMString(name, operation, 'The name');

/**
 * @param {any} options
 * @param {string} operation for the messages
 */
function toSyncOptions(options, operation) {
  const given = toOptions(options, operation);
  refuse(given, NOT_SYNC, operation);
  return given;
}

const methods = Object.getOwnPropertyNames(Extensions.prototype).slice(1);
for (const method of methods) {
  const attributes = Object.getOwnPropertyDescriptor(Extensions.prototype, method);
  Object.defineProperty(LockManager.prototype, method, { ...attributes, enumerable: true });
}

/** @type {import('../standard/lock-manager.js').Form} */
const form = {
  toOptions,
  check: checkRequest,
  Request,
  /** With `{ details: true }` a DetailedSnapshot; with a `name`, of what is on that. */
  query(backend, options) {
    const details = options?.details;
    const given = options?.name;
    const name = given === undefined ? undefined : toDOMString(given, QUERY, "The 'name' option");
    return details ? backend.details(name) : backend.query(name);
  },
};

/** @param {Backend} backend */
const createLockManager = (backend) => standard.createLockManager(backend, form);

module.exports = { LockManager, createLockManager };
