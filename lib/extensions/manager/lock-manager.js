'use strict';

/** Gives lock managers the methods and options that the specification lacks. */

const { isMainThread } = require('node:worker_threads');
const { notSupportedError, typeError } = require('../../platform/errors.js');
const { rejected } = require('../../platform/intrinsics.js');
const standard = require('../../standard/lock-manager.js');
const { LockManager, backendOf } = standard;
const {
  checkName,
  requireArguments,
  toCallback,
  toDOMString,
} = require('../../standard/webidl.js');
const { elect, leaderOf } = require('./election.js');
const { HandleRequest } = require('../request/lock-handle.js');
const { Once } = require('./once.js');
const {
  checkRequest,
  defaultOptions,
  operationName,
  refuseOthers,
  requireKeep,
  toOptions,
} = require('../options.js');
const { Request } = require('../request/request.js');
const { acquireSeveral, toSeveral, runWithSeveral } = require('./request-all.js');
const { withSites } = require('../sites/sites.js');

/** @import { Backend, LockDetails } from '../../backend/contract.js' */
/** @typedef {InstanceType<typeof import('../request/lock-handle.js').LockHandle>} LockHandle */

const REQUEST = operationName('request');
const ACQUIRE = operationName('acquire');
const REQUEST_ALL = operationName('requestAll');
const ACQUIRE_ALL = operationName('acquireAll');
const ACQUIRE_SYNC = operationName('acquireSync');
const TRY_ACQUIRE_SYNC = operationName('tryAcquireSync');
const QUERY = operationName('query');
const ELECT = operationName('elect');
const IS_BUSY = operationName('isBusy');
const LEADER = operationName('leader');
const ONCE = operationName('once');

/** The methods of this class are copied to LockManager.prototype below. */
class Extensions {
  /**
   * @param {any} name @param {any} [options]
   * @returns {Promise<LockHandle | null>} null if `ifAvailable` is true and the lock is unavailable
   */
  acquire(name, options) {
    try {
      const backend = backendOf(this, ACQUIRE);
      requireArguments(arguments.length, 1, ACQUIRE);
      const resourceName = toName(name, ACQUIRE);
      const given = toOptions(options, ACQUIRE);
      checkName(resourceName);
      refuseOthers(given, 'request', ACQUIRE);
      checkRequest(given);
      return new HandleRequest(backend, resourceName, given).acquire();
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * Takes `(names, callback)` or `(names, options, callback)`.
   * @param {any} names an iterable of names or `{ name, mode }` @param {any} optionsOrCallback
   * @returns {Promise<any>} settles like the callback, after the locks are released
   */
  async requestAll(names, optionsOrCallback) {
    const backend = backendOf(this, REQUEST_ALL);
    const count = arguments.length;
    requireArguments(count, 2, REQUEST_ALL);
    const several = toSeveral(names, count > 2 ? optionsOrCallback : undefined, REQUEST_ALL);
    const callback = toCallback(arguments[count > 2 ? 2 : 1], REQUEST_ALL, 'The callback');
    // Without `await`, JavaScript would call `then` of the promise, which user code may replace.
    const callee = Extensions.prototype.requestAll;
    return await runWithSeveral(backend, several, callback, callee);
  }

  /**
   * @param {any} names an iterable of names or `{ name, mode }` @param {any} [options]
   * @returns {Promise<InstanceType<typeof import('./request-all.js').SeveralLocks> | null>}
   */
  acquireAll(names, options) {
    try {
      const backend = backendOf(this, ACQUIRE_ALL);
      requireArguments(arguments.length, 1, ACQUIRE_ALL);
      const several = toSeveral(names, options, ACQUIRE_ALL);
      return acquireSeveral(backend, several, Extensions.prototype.acquireAll);
    } catch (error) {
      return rejected(error);
    }
  }

  /** @param {any} name @param {any} [options] @returns {LockHandle | null} null if unavailable */
  tryAcquireSync(name, options) {
    const backend = blockingBackendOf(this, TRY_ACQUIRE_SYNC);
    requireArguments(arguments.length, 1, TRY_ACQUIRE_SYNC);
    const resourceName = toName(name, TRY_ACQUIRE_SYNC);
    const given = toSyncOptions(options, 'tryAcquireSync', TRY_ACQUIRE_SYNC);
    const tried = { ...given, ifAvailable: true };
    checkName(resourceName);
    checkRequest(tried);
    return new HandleRequest(backend, resourceName, tried).acquireSync(0);
  }

  /**
   * @param {any} name @param {any} [options] must have a `timeout` on the main thread
   * @returns {LockHandle}
   */
  acquireSync(name, options) {
    const backend = blockingBackendOf(this, ACQUIRE_SYNC);
    requireArguments(arguments.length, 1, ACQUIRE_SYNC);
    const resourceName = toName(name, ACQUIRE_SYNC);
    const given = toSyncOptions(options, 'acquireSync', ACQUIRE_SYNC);
    checkName(resourceName);
    checkRequest(given);
    const { timeout = Number.POSITIVE_INFINITY, maxTotal = Number.POSITIVE_INFINITY } = given;
    const limit = Math.min(timeout, maxTotal);
    if (isMainThread && limit === Number.POSITIVE_INFINITY) {
      throw typeError(ACQUIRE_SYNC, "A call on the main thread needs the option 'timeout'.");
    }
    return new HandleRequest(backend, resourceName, given).acquireSync(limit);
  }

  /**
   * Takes `(name, callback)` or `(name, options, callback)`.
   * @param {any} name @param {any} optionsOrCallback
   * @returns {Promise<any>} settles like the first callback that ends before its lock is lost
   */
  elect(name, optionsOrCallback) {
    try {
      const backend = backendOf(this, ELECT);
      const count = arguments.length;
      requireArguments(count, 2, ELECT);
      const resourceName = toName(name, ELECT);
      const given = toOptions(count > 2 ? optionsOrCallback : undefined, ELECT);
      const callback = toCallback(arguments[count > 2 ? 2 : 1], ELECT, 'The callback');
      checkName(resourceName);
      refuseOthers(given, 'elect', ELECT);
      checkRequest(given);
      return elect(backend, resourceName, given, callback, Extensions.prototype.elect);
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * Runs a callback, unless an earlier call has run its callback for this name and its `keep` time
   * is not over.
   * @param {any} name @param {any} options must have `keep` @param {any} callback receives the lock
   * @returns {Promise<{ ran: boolean, value: any }>} the result of the callback, if it ran
   */
  once(name, options, callback) {
    try {
      const backend = backendOf(this, ONCE);
      requireArguments(arguments.length, 3, ONCE);
      const resourceName = toName(name, ONCE);
      const given = toOptions(options, ONCE);
      const run = toCallback(callback, ONCE, 'The callback');
      checkName(resourceName);
      refuseOthers(given, 'once', ONCE);
      requireKeep(given, ONCE);
      checkRequest(given);
      if (!backend.marked) {
        throw notSupportedError(
          `Failed to execute ${ONCE}: this lock manager does not support 'once'. Use the locks ` +
            'of web-locks or web-locks/host, or a bucket on a server (web-locks/postgres, ' +
            '/redis, /etcd).',
        );
      }
      return new Once(backend, resourceName, given).start(run);
    } catch (error) {
      return rejected(error);
    }
  }

  /** Whether anybody holds the lock or waits for it. @param {any} name */
  async isBusy(name) {
    const backend = backendOf(this, IS_BUSY);
    requireArguments(arguments.length, 1, IS_BUSY);
    const { held, pending } = await backend.query(toName(name, IS_BUSY));
    return held.length + pending.length > 0;
  }

  /** @param {any} name @returns {Promise<LockDetails | null>} */
  leader(name) {
    try {
      const backend = backendOf(this, LEADER);
      requireArguments(arguments.length, 1, LEADER);
      return leaderOf(backend, toName(name, LEADER));
    } catch (error) {
      return rejected(error);
    }
  }
}

/** @param {any} value @param {string} operation */
function blockingBackendOf(value, operation) {
  const backend = backendOf(value, operation);
  if (backend.wait) return backend;
  throw notSupportedError(
    `Failed to execute ${operation}: locks on a server are acquired asynchronously. Use 'acquire'.`,
  );
}

/** @param {any} name @param {string} operation */
const toName = (name, operation) => toDOMString(name, operation, 'The name');

/** @param {any} options @param {import('../options.js').Kind} kind @param {string} operation */
function toSyncOptions(options, kind, operation) {
  const given = toOptions(options, operation);
  refuseOthers(given, kind, operation);
  return given;
}

const methods = Object.getOwnPropertyNames(Extensions.prototype).slice(1);
for (const method of methods) {
  const attributes = Object.getOwnPropertyDescriptor(Extensions.prototype, method);
  Object.defineProperty(LockManager.prototype, method, { ...attributes, enumerable: true });
}

/** @type {import('../../standard/lock-manager.js').Form} */
const form = {
  toOptions,
  defaultOptions,
  /** Throws if `request` does not take the options, or if they do not fit together. */
  check(options) {
    // Tests the refused options one by one: a loop over the list costs 5 % of a request.
    if (options.keep !== undefined || options.blocking !== undefined)
      refuseOthers(options, 'request', REQUEST);
    checkRequest(options);
  },
  Request,
  /** The option `name` limits the snapshot; `details: true` makes it a DetailedSnapshot. */
  query(backend, options) {
    const details = options?.details;
    const given = options?.name;
    const name = given === undefined ? undefined : toDOMString(given, QUERY, "The 'name' option");
    return details ? withSites(backend, backend.details(name)) : backend.query(name);
  },
};

/** @param {Backend} backend */
const createLockManager = (backend) => standard.createLockManager(backend, form);

module.exports = { LockManager, createLockManager };
