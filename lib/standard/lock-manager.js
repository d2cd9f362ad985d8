'use strict';

const { Promise, rejected } = require('../platform/intrinsics.js');
const { argumentError, illegalInvocation, notSupportedError } = require('../platform/errors.js');
const { abortedReason, isAbortSignal, isLikeAbortSignal } = require('./abort.js');
const {
  checkName,
  defineInterface,
  needArguments,
  toCallback,
  toDOMString,
} = require('./webidl.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('./webidl.js').LockOptions} LockOptions */
/** @typedef {InstanceType<typeof import('./lock-request.js').LockRequest>} LockRequest */

/**
 * What requests are here: the specification's, or those that can do more.
 * @typedef {object} Form
 * @property {(value: any, operation: string, isAbortSignal: (signal: any) => boolean) => any}
 *   toOptions converts a LockOptions dictionary
 * @property {any} defaultOptions what it makes of undefined
 * @property {(options: any) => void} check throws where options do not fit together
 * @property {new (backend: Backend, name: string, options: any) => LockRequest} Request
 * @property {(backend: Backend, options: any) => any} query
 */

/** What shows the constructor that it is called from here. */
const own = Symbol('own');

const REQUEST = "'request' on 'LockManager'";
const QUERY = "'query' on 'LockManager'";

/** @type {(value: any, operation: string) => Backend} throws if the value is no LockManager */
let backendOf;

/**
 * A manager that is installed takes signals of any DOM.
 * @type {(manager: LockManager, more: number) => void}
 */
let countInstallations;

/**
 * The lock manager of a storage bucket, as script sees it (3.2). Not constructible.
 *
 * Methods that return a promise report every error by its rejection and do not throw, as WebIDL has
 * it for such operations.
 */
class LockManager {
  /** @type {Backend} */
  #backend;
  /** @type {Form} */
  #form;
  /** How often it is installed where libraries for browsers look. */
  #installations = 0;

  constructor() {
    // Not parameters: `LockManager.length` is 0.
    const [key, backend, form] = arguments;
    if (key !== own) throw argumentError('Illegal constructor');
    this.#backend = backend;
    this.#form = form;
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
      const form = this.#form;
      // Conversions, in the order of the arguments. With two of them there are no options.
      const count = arguments.length;
      needArguments(count, 2, REQUEST);
      const resourceName = toDOMString(name, REQUEST, 'The name');
      const isSignal = this.#installations > 0 ? isLikeAbortSignal : isAbortSignal;
      const options =
        count > 2 ? form.toOptions(optionsOrCallback, REQUEST, isSignal) : form.defaultOptions;
      const callback = toCallback(arguments[count > 2 ? 2 : 1], REQUEST, 'The callback');
      // Step 5.
      checkName(resourceName);
      // Steps 6 to 9.
      if (count > 2) form.check(options);
      return new form.Request(backend, resourceName, options).start(callback);
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * Tells which locks are held and which requests are pending, of all threads (3.2.2).
   * @returns {Promise<any>} a LockManagerSnapshot
   */
  query() {
    try {
      const backend = LockManager.#backendOf(this, QUERY);
      const snapshot = this.#form.query(backend, arguments[0]);
      return new Promise((resolve) => resolve(snapshot));
    } catch (error) {
      return rejected(error);
    }
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

  static {
    backendOf = LockManager.#backendOf;
    countInstallations = (manager, more) => {
      manager.#installations += more;
    };
  }
}

defineInterface(LockManager, ['request', 'query']);

/**
 * Steps 6 to 9 of request() (3.2.1), between the conversions and the request.
 * @param {LockOptions} options
 */
function checkOptions({ ifAvailable, mode, signal, steal }) {
  // Step 6.
  if (steal && ifAvailable) throw exclude('steal', 'ifAvailable');
  // Step 7.
  if (steal && mode !== 'exclusive') {
    throw notSupportedError("The 'steal' option needs the mode 'exclusive'.");
  }
  if (!signal) return;
  // Step 8.
  if (steal || ifAvailable) throw exclude('signal', steal ? 'steal' : 'ifAvailable');
  // Step 9.
  const aborted = abortedReason(signal);
  if (aborted) throw aborted.reason;
}

/**
 * @param {string} one
 * @param {string} other
 */
const exclude = (one, other) =>
  notSupportedError(`The '${one}' and '${other}' options cannot be used together.`);

/**
 * @param {Backend} backend
 * @param {Form} form
 * @returns {LockManager}
 */
// @ts-expect-error: the constructor reads its arguments itself
const createLockManager = (backend, form) => new LockManager(own, backend, form);

module.exports = { LockManager, backendOf, checkOptions, countInstallations, createLockManager };
