'use strict';

const { Promise, rejected } = require('../platform/intrinsics.js');
const { argumentError, illegalInvocation, notSupportedError } = require('../platform/errors.js');
const { abortedReason, isAbortSignal, isLikeAbortSignal } = require('./abort.js');
const {
  checkName,
  defineInterface,
  requireArguments,
  toCallback,
  toDOMString,
} = require('./webidl.js');

/** @import { Backend } from '../backend/contract.js' */
/** @import { LockOptions } from './webidl.js' */
/** @typedef {InstanceType<typeof import('./lock-request.js').LockRequest>} LockRequest */

/**
 * The request class, the options and the query of a lock manager.
 * @typedef {object} Form
 * @property {(value: any, operation: string, isAbortSignal: (signal: any) => boolean) => any}
 *   toOptions
 * @property {any} defaultOptions
 * @property {(options: any) => void} check throws if the options do not fit together
 * @property {new (backend: Backend, name: string, options: any) => LockRequest} Request
 * @property {(backend: Backend, options: any) => any} query
 */

/** Proves to the constructor that this package calls it. */
const own = Symbol('own');

const REQUEST = "'request' on 'LockManager'";
const QUERY = "'query' on 'LockManager'";

/** @type {(value: any, operation: string) => Backend} throws if the value is not a lock manager */
let backendOf;

/**
 * Counts how often a lock manager is installed (lib/install.js): while it is, it accepts signals of
 * any DOM.
 * @type {(manager: LockManager, more: number) => void}
 */
let addInstallations;

/**
 * The lock manager of a storage bucket, as scripts see it (section 3.2 of the specification). By
 * the rules of WebIDL, methods that return a promise reject it for every error and do not throw.
 */
class LockManager {
  /** @type {Backend} */
  #backend;
  /** @type {Form} */
  #form;
  #installations = 0;

  constructor() {
    // Parameters would change `LockManager.length`, which must be 0.
    const [key, backend, form] = arguments;
    if (key !== own) throw argumentError('Illegal constructor');
    this.#backend = backend;
    this.#form = form;
  }

  /**
   * Section 3.2.1: https://www.w3.org/TR/2023/WD-web-locks-20230105/#dom-lockmanager-request. Takes
   * `(name, callback)` or `(name, options, callback)`.
   * @param {any} name @param {any} optionsOrCallback
   * @returns {Promise<any>} the released promise: settles like the callback, after the release
   */
  request(name, optionsOrCallback) {
    try {
      const backend = LockManager.#backendOf(this, REQUEST);
      const form = this.#form;
      // Converts the arguments in their order.
      const count = arguments.length;
      requireArguments(count, 2, REQUEST);
      const resourceName = toDOMString(name, REQUEST, 'The name');
      const isSignal = this.#installations > 0 ? isLikeAbortSignal : isAbortSignal;
      const options =
        count > 2 ? form.toOptions(optionsOrCallback, REQUEST, isSignal) : form.defaultOptions;
      const callback = toCallback(arguments[count > 2 ? 2 : 1], REQUEST, 'The callback');
      // Step 5.
      checkName(resourceName);
      // Steps 6 to 9 follow.
      if (count > 2) form.check(options);
      return new form.Request(backend, resourceName, options).start(callback);
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * Section 3.2.2: https://www.w3.org/TR/2023/WD-web-locks-20230105/#dom-lockmanager-query
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

  /** @param {any} value @param {string} operation */
  static #backendOf(value, operation) {
    if (typeof value === 'object' && value !== null && #backend in value) return value.#backend;
    throw illegalInvocation(operation, 'LockManager');
  }

  static {
    backendOf = LockManager.#backendOf;
    addInstallations = (manager, more) => {
      manager.#installations += more;
    };
  }
}

defineInterface(LockManager, ['request', 'query']);

/**
 * Section 3.2.1, steps 6 to 9 of request(). Throws if the options exclude each other, or if the
 * signal is aborted.
 * @param {LockOptions} options
 */
function checkOptions({ ifAvailable, mode, signal, steal }) {
  // Step 6.
  if (steal && ifAvailable) throw exclusionError('steal', 'ifAvailable');
  // Step 7.
  if (steal && mode !== 'exclusive') {
    throw notSupportedError("The 'steal' option needs the mode 'exclusive'.");
  }
  if (!signal) return;
  // Step 8.
  if (steal || ifAvailable) throw exclusionError('signal', steal ? 'steal' : 'ifAvailable');
  // Step 9.
  const aborted = abortedReason(signal);
  if (aborted) throw aborted.reason;
}

/** @param {string} one @param {string} other */
const exclusionError = (one, other) =>
  notSupportedError(`The '${one}' and '${other}' options cannot be used together.`);

/** @param {Backend} backend @param {Form} form */
// @ts-expect-error: the constructor reads `arguments`
const createLockManager = (backend, form) => new LockManager(own, backend, form);

module.exports = { LockManager, backendOf, checkOptions, addInstallations, createLockManager };
