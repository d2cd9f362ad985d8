'use strict';

/** What lock managers can do beyond the specification, attached to those of the specification. */

const { isMainThread } = require('node:worker_threads');
const { notSupportedError, typeError } = require('../platform/errors.js');
const { rejected } = require('../platform/intrinsics.js');
const standard = require('../standard/lock-manager.js');
const { LockManager, backendOf } = standard;
const { checkName, needArguments, toCallback, toDOMString } = require('../standard/webidl.js');
const { elect, leaderOf } = require('./election.js');
const { HandleRequest } = require('./lock-handle.js');
const { Once } = require('./once.js');
const { checkRequest, defaultOptions, on, refuseOthers, toOptions } = require('./options.js');
const { Request } = require('./request.js');
const { acquireSeveral, toSeveral, useSeveral } = require('./request-all.js');
const { withSites } = require('./sites.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {InstanceType<typeof import('./lock-handle.js').LockHandle>} LockHandle */

const REQUEST = on('request');
const ACQUIRE = on('acquire');
const REQUEST_ALL = on('requestAll');
const ACQUIRE_ALL = on('acquireAll');
const ACQUIRE_SYNC = on('acquireSync');
const TRY_ACQUIRE_SYNC = on('tryAcquireSync');
const QUERY = on('query');
const ELECT = on('elect');
const IS_BUSY = on('isBusy');
const LEADER = on('leader');
const ONCE = on('once');

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
      refuseOthers(given, 'request', ACQUIRE);
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
   * @returns {Promise<InstanceType<typeof import('./request-all.js').SeveralLocks> | null>}
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
   * @param {any} [options] as OPTIONS says, as for all methods
   * @returns {LockHandle | null} null if it is not available
   */
  tryAcquireSync(name, options) {
    const backend = blockingBackendOf(this, TRY_ACQUIRE_SYNC);
    needArguments(arguments.length, 1, TRY_ACQUIRE_SYNC);
    const resourceName = toName(name, TRY_ACQUIRE_SYNC);
    const given = toSyncOptions(options, 'tryAcquireSync', TRY_ACQUIRE_SYNC);
    const tried = { ...given, ifAvailable: true };
    checkName(resourceName);
    checkRequest(tried);
    return new HandleRequest(backend, resourceName, tried).acquireSync(0);
  }

  /**
   * Takes a lock, and blocks the calling thread until it is available.
   * @param {any} name the resource name
   * @param {any} [options] `timeout` is required on the main thread
   * @returns {LockHandle}
   */
  acquireSync(name, options) {
    const backend = blockingBackendOf(this, ACQUIRE_SYNC);
    needArguments(arguments.length, 1, ACQUIRE_SYNC);
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
   * Stands for the leadership of a name, and leads until the callback returns: `elect(name,
   * callback)` or `elect(name, options, callback)`. A leader that loses it stands again.
   * @param {any} name the resource name
   * @param {any} optionsOrCallback
   * @returns {Promise<any>} settles like what the callback returned while it led
   */
  elect(name, optionsOrCallback) {
    try {
      const backend = backendOf(this, ELECT);
      const count = arguments.length;
      needArguments(count, 2, ELECT);
      const resourceName = toName(name, ELECT);
      const given = toOptions(count > 2 ? optionsOrCallback : undefined, ELECT);
      const callback = toCallback(arguments[count > 2 ? 2 : 1], ELECT, 'The callback');
      checkName(resourceName);
      refuseOthers(given, 'elect', ELECT);
      checkRequest(given);
      return elect(backend, resourceName, given, callback);
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * Runs a function, unless somebody has for this name, not longer ago than that one's `keep`.
   * @param {any} name the resource name
   * @param {any} options with `keep`
   * @param {any} callback called with the lock
   * @returns {Promise<{ ran: boolean, value: any }>} what it returned, if it ran
   */
  once(name, options, callback) {
    try {
      const backend = backendOf(this, ONCE);
      needArguments(arguments.length, 3, ONCE);
      const resourceName = toName(name, ONCE);
      const given = toOptions(options, ONCE);
      const run = toCallback(callback, ONCE, 'The callback');
      checkName(resourceName);
      refuseOthers(given, 'once', ONCE);
      if (given.keep === undefined)
        throw typeError(ONCE, "'keep' is missing; expected a number of milliseconds, or Infinity.");
      checkRequest(given);
      if (!backend.marked) {
        throw notSupportedError(
          `Failed to execute ${ONCE}: this lock manager cannot record that a name was run. ` +
            'Use the locks of a process or of a server.',
        );
      }
      return new Once(backend, resourceName, given).start(run);
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * @param {any} name the resource name
   * @returns {Promise<boolean>} whether it is held or waited for
   */
  async isBusy(name) {
    const backend = backendOf(this, IS_BUSY);
    needArguments(arguments.length, 1, IS_BUSY);
    const { held, pending } = await backend.query(toName(name, IS_BUSY));
    return held.length + pending.length > 0;
  }

  /**
   * @param {any} name the resource name
   * @returns {Promise<import('../backend/contract.js').LockDetails | null>} who leads
   */
  leader(name) {
    try {
      const backend = backendOf(this, LEADER);
      needArguments(arguments.length, 1, LEADER);
      return leaderOf(backend, toName(name, LEADER));
    } catch (error) {
      return rejected(error);
    }
  }
}

/**
 * @param {any} value
 * @param {string} operation for the messages
 * @returns {Backend} one that can do something without returning to the event loop
 */
function blockingBackendOf(value, operation) {
  const backend = backendOf(value, operation);
  if (backend.wait) return backend;
  throw notSupportedError(
    `Failed to execute ${operation}: locks on a server cannot block a thread. Use 'acquire'.`,
  );
}

/**
 * @param {any} name
 * @param {string} operation for the message
 */
const toName = (name, operation) => toDOMString(name, operation, 'The name');

/**
 * @param {any} options
 * @param {import('./options.js').Kind} kind of the call
 * @param {string} operation for the messages
 */
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

/** @type {import('../standard/lock-manager.js').Form} */
const form = {
  toOptions,
  defaultOptions,
  check(options) {
    // What it does not take, written out: the list would be a twentieth of a request.
    if (options.keep !== undefined || options.blocking !== undefined)
      refuseOthers(options, 'request', REQUEST);
    checkRequest(options);
  },
  Request,
  /** With `{ details: true }` a DetailedSnapshot; with a `name`, of what is on that. */
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
