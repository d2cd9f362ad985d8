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
const { LockError, LockQueueFullError } = require('./lock-errors.js');
const { declareEnclosed, reentrantBackend } = require('./enclosing-locks.js');
const { HandleRequest, HeldRequest } = require('./lock-handle.js');
const {
  LEAST_PRIORITY,
  TAKEN,
  checkRequest,
  defaultOptions,
  refuseOthers,
  toOptions,
} = require('./options.js');
const { Request } = require('./request.js');
const { Waiting } = require('./waiters.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('./options.js').RequestOptions} RequestOptions */
/** @typedef {InstanceType<typeof import('./lock-handle.js').LockHandle>} LockHandle */

/**
 * The options that a method adds to its requests.
 * @typedef {object} Call
 * @property {string} operation for messages
 * @property {import('./options.js').Kind} kind
 * @property {Partial<RequestOptions>} fixed options that are not the caller's
 */

/** Options of constructors. */
const OF_NAMED = ['bucket', 'label', 'locks'];
const OF_PRIVATE = ['label'];

/** Of the one that has a new name while the others use the former: errors name it as the holder. */
const RESIZING = Object.freeze({ ...defaultOptions, label: 'resize: former permits are in use' });
/** Of a request that waits for all others. */
const BEHIND_ALL = Object.freeze({ ...defaultOptions, priority: LEAST_PRIORITY });

/** @type {Backend | undefined} */
let privateBackend;

/** Waits for its turn, and wants nothing then. */
class Passing extends Request {
  /** @override @returns {import('../backend/contract.js').Disposition} */
  get disposition() {
    return super.disposition === 'ifAvailable' ? 'passIfAvailable' : 'pass';
  }
}

class NamedLock {
  #backend;
  #name;
  /** Of units, if it is that of a semaphore. @type {number | undefined} */
  #limit;
  /**
   * Requests on names that it had before, oldest first. Each waits for all who still use its name.
   * @type {InstanceType<typeof HeldRequest>[]}
   */
  #former = [];
  /** Of requests that have none. @type {string | undefined} */
  #label;
  #waiting = new Waiting();
  /** What it is, if it is private. @type {string | undefined} */
  #kind;

  /**
   * @param {string} kind what it is, for messages
   * @param {any} name undefined for a lock that only those have who have the object
   * @param {any} options `label`; `bucket`: a bucket's name, or what `openBucket` returned; or
   *   `locks`, a lock manager
   * @param {string} operation for messages
   * @param {readonly string[]} [more] options that the caller looks at
   * @param {number} [limit] of units
   */
  constructor(kind, name, options, operation, more = [], limit = undefined) {
    const isPrivate = name === undefined;
    if (typeof name === 'object') {
      throw typeError(operation, `The name is ${describe(name)}, not a string.`);
    }
    if (options !== undefined && options !== null && typeof options !== 'object') {
      throw typeError(operation, `The options are ${describe(options)}, not an object.`);
    }
    takeOnly(options, isPrivate ? OF_PRIVATE : OF_NAMED, operation, more);
    this.#limit = limit;
    const { bucket, label, locks } = options ?? {};
    if (label !== undefined) this.#label = toDOMString(label, operation, "The 'label' option");
    if (isPrivate) {
      privateBackend ??= new NativeBackend('mutex');
      this.#backend = privateBackend;
      this.#name = this.#newName(kind);
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

  /**
   * @param {string} kind
   * @returns {string} one that nobody else has
   */
  #newName(kind) {
    return privateName(kind, agent.uniqueName(), this.#label ?? '');
  }

  get limit() {
    return this.#limit;
  }

  /**
   * Changes the limit, and with it the name, since a name keeps the limit that it has: what is
   * asked for from now on is for a new one, which is free when nobody holds the one before, or
   * waits for it.
   * @param {number} limit
   * @param {string} operation for the message
   * @returns {Promise<void>} when it is free
   * @throws {unknown} nothing is changed
   */
  async resize(limit, operation) {
    if (!this.#kind)
      throw notSupportedError(
        `Failed to execute ${operation}: a semaphore with a name cannot be resized.`,
      );
    const next = new HeldRequest(this.#backend, this.#newName(this.#kind), RESIZING);
    const last = new HeldRequest(this.#backend, this.#name, BEHIND_ALL);
    const granted = last.promise();
    try {
      declareEnclosed(next, last);
      next.enter();
      last.enter();
    } catch (error) {
      // With an empty stack: without one it would not be given back.
      await undefined;
      next.giveBack();
      this.#backend.announce();
      throw error;
    }
    // One step with the two requests: users are told nothing before.
    this.#former[this.#former.length] = last;
    this.#name = next.name;
    this.#limit = limit;
    await undefined;
    last.answerNow();
    this.#backend.announce();
    await granted;
    this.#forget(last);
    last.giveBack();
    next.giveBack();
  }

  /** @param {InstanceType<typeof HeldRequest>} last the only one that has its name */
  #forget(last) {
    let count = 0;
    for (let i = 0; i < this.#former.length; i++) {
      if (this.#former[i] !== last) this.#former[count++] = this.#former[i];
    }
    this.#former.length = count;
  }

  /**
   * @param {Readonly<RequestOptions>} options
   * @returns {string} the name to ask for. A reentrant request has that of the lock it is inside of
   */
  #nameFor({ reentrant }) {
    for (let i = 0; reentrant && i < this.#former.length; i++) {
      const { name } = this.#former[i];
      if (reentrantBackend(this.#backend, name) !== this.#backend) return name;
    }
    return this.#name;
  }

  /**
   * @param {string} asking what for, for the message
   * @returns {import('../backend/contract.js').LockDetails[]} who holds it now
   */
  holders(asking) {
    const holders = this.#backend.holders?.(this.#name);
    if (holders) return holders;
    throw notSupportedError(
      `${asking} cannot be read from a server or another process at once. Use query() or isBusy().`,
    );
  }

  /**
   * @param {string} asking what for, for the message
   * @returns {number} how many requests wait for it now
   */
  pending(asking) {
    this.holders(asking);
    let count = this.#pendingOn(this.#name);
    // The last one there is ours, which waits for the others.
    for (let i = 0; i < this.#former.length; i++)
      count += Math.max(this.#pendingOn(this.#former[i].name) - 1, 0);
    return count;
  }

  /** @param {string} name */
  #pendingOn(name) {
    const state = /** @type {any} */ (this.#backend.query(name));
    return state.pending.length;
  }

  /**
   * @param {any} options
   * @param {Call} call
   * @returns {Promise<Release | null>} the function that releases it; null if it is to be had by
   *   waiting only, and `ifAvailable` says not to wait
   */
  async acquire(options, call) {
    const given = this.#toOptions(options, call);
    const request = new HandleRequest(this.#backend, this.#nameFor(given), given);
    const answer = request.acquire();
    this.#waiting.add(request);
    const handle = await answer;
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
      const request = new Request(this.#backend, this.#nameFor(given), given);
      const released = request.start(run);
      this.#waiting.add(request);
      return released;
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * @param {any} options
   * @param {Call} call
   * @returns {Promise<void>} when all who hold it or wait for it now are done
   */
  async pass(options, call) {
    const given = this.#toOptions(options, call);
    const request = new Passing(this.#backend, this.#nameFor(given), given);
    const passed = request.start(() => {});
    this.#waiting.add(request);
    await passed;
  }

  /**
   * Gives up the requests that were made here and wait.
   * @param {unknown} [reason] what they reject with
   */
  cancel(reason) {
    this.#waiting.abort(reason === undefined ? canceledError(this.#name) : reason);
  }

  /**
   * @param {any} value
   * @param {Call} call
   * @returns {Readonly<RequestOptions>}
   */
  #toOptions(value, { operation, kind, fixed }) {
    const given = toOptions(value, operation);
    takeOnly(value, TAKEN[kind], operation);
    // Those that are inherited.
    refuseOthers(given, kind, operation);
    const { label = this.#label } = given;
    // The limit last: what is read above can change it.
    const options = { ...given, ...fixed, label, limit: this.#limit };
    checkRequest(options);
    this.#checkRoom(options);
    return options;
  }

  /**
   * Refuses a request that would wait behind too many, some of which have a former name: what is
   * asked for now would wait for all of them. A request that does not wait is never refused.
   * @param {Readonly<RequestOptions>} options
   */
  #checkRoom(options) {
    const { blocking, ifAvailable, maxPending, timeout } = options;
    if (ifAvailable || blocking === false || timeout === 0) return;
    if (maxPending === undefined || this.#former.length === 0) return;
    const isOfFormer = this.#nameFor(options) !== this.#name;
    if (isOfFormer || this.pending("'maxPending'") < maxPending) return;
    throw new LockQueueFullError(this.#name, maxPending);
  }
}

/** @param {string} name */
const canceledError = (name) =>
  new LockError(
    `The request for ${theLock(name)} was canceled.`,
    name,
    'AbortError',
    'ERR_WEB_LOCKS_CANCELED',
  );

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
