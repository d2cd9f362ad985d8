'use strict';

/** The lock behind a Mutex, RWLock or Semaphore: a lock of a lock manager, or a private lock. */

const { DEFAULT_BUCKET, idOfBucket } = require('../../backend/bucket-ids.js');
const { NativeBackend, agent } = require('../../backend/native.js');
const { notSupportedError, typeError } = require('../../platform/errors.js');
const { rejected } = require('../../platform/intrinsics.js');
const { privateName, describeLock } = require('../../platform/names.js');
const { asyncDispose, dispose } = require('../../platform/realm.js');
const { backendOf } = require('../../standard/lock-manager.js');
const {
  checkName,
  describe,
  rejectUnknownOptions,
  toCallback,
  toDOMString,
} = require('../../standard/webidl.js');
const { LockError, LockQueueFullError } = require('../errors/lock-errors.js');
const { declareEnclosed, reentrantBackend } = require('../reentrancy/enclosing-locks.js');
const { HandleRequest, HeldRequest } = require('../request/lock-handle.js');
const {
  LEAST_PRIORITY,
  TAKEN,
  checkRequest,
  defaultOptions,
  refuseOthers,
  toOptions,
} = require('../options.js');
const { Request } = require('../request/request.js');
const { Waiting } = require('../request/waiters.js');

/** @import { Backend } from '../../backend/contract.js' */
/** @import { RequestOptions } from '../options.js' */
/** @typedef {InstanceType<typeof import('../request/lock-handle.js').LockHandle>} LockHandle */

/**
 * A method of an object: its name for messages (`operation`), the `kind` that decides which options
 * it accepts, and the options that it sets itself (`fixed`).
 * @typedef {{ operation: string, kind: import('../options.js').Kind,
 *   fixed: Partial<RequestOptions> }} Call
 */

const OF_NAMED = ['bucket', 'label', 'locks'];
const OF_PRIVATE = ['label'];

/** The options of the request that holds the new name while requests still use the former name. */
const RESIZING = Object.freeze({ ...defaultOptions, label: 'resize: former permits are in use' });
/** The options of the request that waits behind all other requests of the former name. */
const BEHIND_ALL = Object.freeze({ ...defaultOptions, priority: LEAST_PRIORITY });

/** @type {Backend | undefined} */
let privateBackend;

/** A request that ends when it would be granted, and takes no lock. */
class PassRequest extends Request {
  /**
   * @override @returns {import('../../backend/contract.js').Disposition}
   */
  get disposition() {
    return super.disposition === 'ifAvailable' ? 'passIfAvailable' : 'pass';
  }
}

class NamedLock {
  #backend;
  #name;
  /** The units of a semaphore. @type {number | undefined} */
  #limit;
  /**
   * For each former name in use, oldest first, the request that `resize` queued behind all others.
   * @type {InstanceType<typeof HeldRequest>[]}
   */
  #former = [];
  /** The label of requests that have none. @type {string | undefined} */
  #label;
  #waiting = new Waiting();
  /** Part of the names of a private lock; undefined for a named lock. @type {string | undefined} */
  #kind;

  /**
   * @param {string} kind @param {any} name undefined for a private lock
   * @param {any} options `label`, and either `bucket` (a name, or a result of `openBucket`) or
   *   `locks` (a lock manager)
   * @param {string} operation @param {string[]} [more] options that the caller reads
   * @param {number} [limit] of units
   */
  constructor(kind, name, options, operation, more = [], limit = undefined) {
    const isPrivate = name === undefined;
    if (typeof name === 'object') {
      throw typeError(operation, `The name is ${describe(name)}; expected a string.`);
    }
    if (options !== undefined && options !== null && typeof options !== 'object') {
      throw typeError(operation, `The options are ${describe(options)}; expected an object.`);
    }
    rejectUnknownOptions(options, isPrivate ? OF_PRIVATE : OF_NAMED, operation, more);
    this.#limit = limit;
    const { bucket, label, locks } = options ?? {};
    if (label !== undefined) this.#label = toDOMString(label, operation, "The 'label' option");
    if (isPrivate) {
      privateBackend ??= new NativeBackend('mutex');
      this.#backend = privateBackend;
      this.#name = this.#makePrivateName(kind);
      this.#kind = kind;
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

  /** @param {string} kind */
  #makePrivateName(kind) {
    return privateName(kind, agent.makeUniqueName(), this.#label ?? '');
  }

  get limit() {
    return this.#limit;
  }

  /**
   * A name keeps its limit, so a new limit needs a new name. The request `next` holds the new name
   * until `last`, the last request for the former name, is granted.
   * @param {number} limit @param {string} operation
   * @throws {unknown} if the semaphore could not be resized; it is unchanged then
   */
  async resize(limit, operation) {
    if (!this.#kind)
      throw notSupportedError(
        `Failed to execute ${operation}: a semaphore with a name cannot be resized.`,
      );
    const next = new HeldRequest(this.#backend, this.#makePrivateName(this.#kind), RESIZING);
    const last = new HeldRequest(this.#backend, this.#name, BEHIND_ALL);
    const granted = last.makePromise();
    try {
      declareEnclosed(next, last);
      next.requestUnobserved();
      last.requestUnobserved();
    } catch (error) {
      // Continues on an empty stack, because a stack overflow would prevent the release of the new
      // name.
      await undefined;
      next.giveBack();
      this.#backend.announce();
      throw error;
    }
    // The name changes in the same step as the two requests, before users are notified.
    this.#former[this.#former.length] = last;
    this.#name = next.name;
    this.#limit = limit;
    await undefined;
    last.resolveIfAnswered();
    this.#backend.announce();
    await granted;
    this.#removeFormer(last);
    last.giveBack();
    next.giveBack();
  }

  /** @param {InstanceType<typeof HeldRequest>} last */
  #removeFormer(last) {
    let count = 0;
    for (let i = 0; i < this.#former.length; i++) {
      if (this.#former[i] !== last) this.#former[count++] = this.#former[i];
    }
    this.#former.length = count;
  }

  /**
   * A reentrant request uses the name of its enclosing lock, which may be a former name.
   * @param {RequestOptions} options
   */
  #nameFor({ reentrant }) {
    for (let i = 0; reentrant && i < this.#former.length; i++) {
      const { name } = this.#former[i];
      if (reentrantBackend(this.#backend, name) !== this.#backend) return name;
    }
    return this.#name;
  }

  /** Throws if they cannot be read at once. @param {string} asking the property, for the message */
  holders(asking) {
    const holders = this.#backend.holders?.(this.#name);
    if (holders) return holders;
    if (this.#backend.closed) throw this.#backend.closed;
    throw notSupportedError(
      `${asking} would have to wait for a server or another process. Use query() or isBusy().`,
    );
  }

  /**
   * Counts the waiting requests, also those on former names; throws like `holders`.
   * @param {string} asking the property, for the message
   */
  pending(asking) {
    this.holders(asking);
    let count = this.#countPending(this.#name);
    // On each former name, one request was made by `resize` and does not count.
    for (let i = 0; i < this.#former.length; i++)
      count += Math.max(this.#countPending(this.#former[i].name) - 1, 0);
    return count;
  }

  /** @param {string} name */
  #countPending(name) {
    const state = /** @type {any} */ (this.#backend.query(name));
    return state.pending.length;
  }

  /** @param {any} options @param {Call} call @returns {Promise<Release | null>} see Mutex */
  async acquire(options, call) {
    const given = this.#toOptions(options, call);
    const request = new HandleRequest(this.#backend, this.#nameFor(given), given);
    const answer = request.acquire();
    this.#waiting.add(request);
    const handle = await answer;
    return handle && toRelease(handle);
  }

  /** @param {any} callback @param {any} options @param {Call} call @returns {Promise<any>} */
  run(callback, options, call) {
    try {
      const run = toCallback(callback, call.operation, 'The callback');
      const given = this.#toOptions(options, call);
      const request = new Request(this.#backend, this.#nameFor(given), given);
      const released = request.start(run);
      this.#waiting.add(request);
      return released;
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * Waits until the lock would be granted, but takes none.
   * @param {any} options @param {Call} call
   */
  async waitForTurn(options, call) {
    const given = this.#toOptions(options, call);
    const request = new PassRequest(this.#backend, this.#nameFor(given), given);
    const passed = request.start(() => {});
    this.#waiting.add(request);
    await passed;
  }

  /** @param {unknown} [reason] */
  cancel(reason) {
    this.#waiting.abort(reason === undefined ? canceledError(this.#name) : reason);
  }

  /** @param {any} value @param {Call} call @returns {RequestOptions} */
  #toOptions(value, { operation, kind, fixed }) {
    const given = toOptions(value, operation);
    rejectUnknownOptions(value, TAKEN[kind], operation);
    // `rejectUnknownOptions` does not see inherited options.
    refuseOthers(given, kind, operation);
    const { label = this.#label } = given;
    // The limit is read last, because reading the options can change it.
    const options = { ...given, ...fixed, label, limit: this.#limit };
    checkRequest(options);
    this.#checkMaxPending(options);
    return options;
  }

  /**
   * Checks `maxPending` if there are former names. The requests on them count, because the new name
   * becomes free only after them, but the backend counts only the requests on one name.
   * @param {RequestOptions} options
   */
  #checkMaxPending(options) {
    const { blocking, ifAvailable, maxPending, timeout } = options;
    if (ifAvailable || blocking === false || timeout === 0) return;
    if (maxPending === undefined || this.#former.length === 0) return;
    const isOfFormer = this.#nameFor(options) !== this.#name;
    if (isOfFormer || this.pending("'maxPending'") < maxPending) return;
    throw new LockQueueFullError(this.#name, maxPending);
  }
}

/** @param {any} bucket see NamedLock @param {string} operation @returns {Backend} */
function bucketBackend(bucket, operation) {
  if (bucket === undefined) return new NativeBackend(DEFAULT_BUCKET);
  // A bucket object is used as it is, because it may belong to another scope, or be closed.
  if (typeof bucket === 'object' && bucket !== null) return backendOf(bucket.locks, operation);
  return new NativeBackend(idOfBucket(toDOMString(bucket, operation, 'The bucket')));
}

/** @param {string} name */
const canceledError = (name) =>
  new LockError(
    `The request for ${describeLock(name)} was canceled.`,
    name,
    'AbortError',
    'ERR_WEB_LOCKS_CANCELED',
  );

/** @callback ReleaseCall @returns {void | Promise<void>} see LockHandle */
/** @typedef {ReleaseCall & { [dispose](): void, [asyncDispose](): Promise<void> }} Release */

/** @param {LockHandle} handle */
function toRelease(handle) {
  const release = /** @type {Release} */ (() => handle.release());
  release[dispose] = release;
  release[asyncDispose] = async () => await release();
  return release;
}

module.exports = { NamedLock };
