'use strict';

/** What locks as objects have in common: a lock of a manager, or a private one. */

const { NativeBackend, agent } = require('../backend/native.js');
const { notSupportedError, typeError } = require('../platform/errors.js');
const { rejected } = require('../platform/intrinsics.js');
const { privateName, theLock } = require('../platform/names.js');
const { asyncDispose, dispose } = require('../platform/realm.js');
const { backendOf } = require('../standard/lock-manager.js');
const { checkName, describe, takeOnly, toCallback, toDOMString } = require('../standard/webidl.js');
const { bucketBackend } = require('./buckets.js');
const { LockError, capitalized } = require('./lock-errors.js');
const { HandleRequest } = require('./lock-handle.js');
const { TAKEN, checkRequest, refuseOthers, toOptions } = require('./options.js');
const { Request } = require('./request.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('./options.js').RequestOptions} RequestOptions */
/** @typedef {InstanceType<typeof import('./lock-handle.js').LockHandle>} LockHandle */

/**
 * What a method says of its requests.
 * @typedef {object} Call
 * @property {string} operation for messages
 * @property {import('./options.js').Kind} kind
 * @property {Partial<RequestOptions>} fixed options that are not the caller's
 */

/** Options of constructors. */
const OF_NAMED = ['bucket', 'label', 'locks'];
const OF_PRIVATE = ['label'];

/** @type {Backend | undefined} */
let privateBackend;

class NamedLock {
  #backend;
  #name;
  /** Of requests that have none. @type {string | undefined} */
  #label;

  /**
   * @param {string} kind what it is, for messages
   * @param {any} name undefined for a lock that only those have who have the object
   * @param {any} options `label`; `bucket`: a bucket's name, or what `openBucket` returned; or
   *   `locks`, a lock manager
   * @param {string} operation for messages
   * @param {readonly string[]} [more] options that the caller looks at
   */
  constructor(kind, name, options, operation, more = []) {
    const isPrivate = name === undefined;
    if (typeof name === 'object') {
      throw typeError(operation, `The name is ${describe(name)}, not a string.`);
    }
    if (options !== undefined && options !== null && typeof options !== 'object') {
      throw typeError(operation, `The options are ${describe(options)}, not an object.`);
    }
    takeOnly(options, isPrivate ? OF_PRIVATE : OF_NAMED, operation, more);
    const { bucket, label, locks } = options ?? {};
    if (label !== undefined) this.#label = toDOMString(label, operation, "The 'label' option");
    if (isPrivate) {
      privateBackend ??= new NativeBackend('mutex');
      this.#backend = privateBackend;
      this.#name = privateName(kind, agent.uniqueName(), this.#label ?? '');
      return;
    }
    if (locks !== undefined && bucket !== undefined) {
      throw notSupportedError("The 'locks' and 'bucket' options cannot be used together.");
    }
    this.#backend =
      locks === undefined ? bucketBackend(bucket, operation) : backendOf(locks, operation);
    this.#name = toDOMString(name, operation, 'The name');
    checkName(this.#name);
  }

  /**
   * @param {string} asking what for, for the message
   * @returns {import('../backend/contract.js').LockDetails[]} who holds it now
   */
  holders(asking) {
    const holders = this.#backend.holders?.(this.#name);
    if (holders) return holders;
    throw notSupportedError(`${asking} is not known at once with this lock manager: see query().`);
  }

  /**
   * @param {any} options
   * @param {Call} call
   * @returns {Promise<Release>} the function that releases it
   */
  async acquire(options, call) {
    const given = this.#toOptions(options, call);
    const handle = await new HandleRequest(this.#backend, this.#name, given).acquire();
    return releaser(handle ?? this.#refuse());
  }

  /**
   * @param {any} options
   * @param {Call} call
   * @returns {Promise<Release | null>} null if it is not available without waiting
   */
  async tryAcquire(options, call) {
    const given = this.#toOptions(options, call, false);
    const handle = await new HandleRequest(this.#backend, this.#name, given).acquire();
    return handle && releaser(handle);
  }

  /**
   * @param {any} callback
   * @param {any} options
   * @param {Call} call
   * @returns {Promise<any>} what the callback returned
   */
  run(callback, options, call) {
    try {
      const run = toCallback(callback, call.operation, 'The callback');
      const given = this.#toOptions(options, call);
      const request = new Request(this.#backend, this.#name, given);
      return request.start((lock) => (lock ? run(lock) : this.#refuse()));
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * @param {any} value
   * @param {Call} call
   * @param {boolean} [blocking]
   * @returns {Readonly<RequestOptions>}
   */
  #toOptions(value, { operation, kind, fixed }, blocking) {
    const given = toOptions(value, operation);
    takeOnly(value, TAKEN[kind], operation);
    // Those that are inherited.
    refuseOthers(given, kind, operation);
    const ifAvailable = !(blocking ?? given.blocking ?? true);
    const { label = this.#label } = given;
    const options = { ...given, ...fixed, label, ifAvailable };
    if (ifAvailable) refuseToWait(options);
    checkRequest(options);
    return options;
  }

  /** @returns {never} */
  #refuse() {
    throw new LockError(`${capitalized(theLock(this.#name))} is not available.`, this.#name);
  }
}

/**
 * @param {Readonly<RequestOptions>} options of a request that does not wait
 */
function refuseToWait({ signal, timeout }) {
  if (!signal && timeout === undefined) return;
  throw notSupportedError(
    `The '${signal ? 'signal' : 'timeout'}' option cannot be used without blocking.`,
  );
}

/**
 * @callback ReleaseCall
 * @returns {void | Promise<void>} see LockHandle
 */
/**
 * @typedef {ReleaseCall & { [dispose](): void, [asyncDispose](): Promise<void> }} Release releases;
 *   harmless to call twice
 */

/**
 * @param {LockHandle} handle
 * @returns {Release}
 */
function releaser(handle) {
  const release = /** @type {Release} */ (() => handle.release());
  release[dispose] = release;
  release[asyncDispose] = async () => await release();
  return release;
}

module.exports = { NamedLock };
