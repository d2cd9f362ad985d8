'use strict';

/** Semaphores as objects: shared locks of one name with a limit. */

const { NativeBackend, agent } = require('../backend/native.js');
const { notSupportedError, typeError } = require('../platform/errors.js');
const { rejected } = require('../platform/intrinsics.js');
const { asyncDispose, dispose } = require('../platform/realm.js');
const { checkName, toCallback, toDOMString } = require('../standard/webidl.js');
const { bucketBackend } = require('./buckets.js');
const { HandleRequest } = require('./lock-handle.js');
const { checkRequest, refuse, toCount, toOptions } = require('./options.js');
const { Request } = require('./request.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {InstanceType<typeof import('./lock-handle.js').LockHandle>} LockHandle */
/** @typedef {import('./options.js').RequestOptions} RequestOptions */
/**
 * @typedef {(() => void) & Disposable & AsyncDisposable} Release gives back what was acquired;
 *   harmless to call twice
 */

const NEW = "'new Semaphore'";
const on = (/** @type {string} */ method) => `'${method}' on 'Semaphore'`;

/** What the constructor says for all of them. */
const FIXED = /** @type {const} */ (['mode', 'limit']);
const NOT_HERE = /** @type {const} */ (['ifAvailable', 'steal']);
/** What is about waiting, where nobody waits. */
const NOT_TRIED = /** @type {const} */ (['signal', 'timeout', 'maxPending', 'deadlock']);

/** @type {Backend | undefined} */
let privateBackend;

/**
 * A number of units, of which each user takes some for a while. `new Semaphore(permits)` is private
 * to those who have the object; `new Semaphore(name, { permits })` is made of shared locks of that
 * name with this limit, by all threads. Whoever waits first is served first, also if he wants more
 * than those behind him.
 */
class Semaphore {
  /** @type {Backend} */
  #backend;
  /** @type {string} */
  #name;
  /** @type {number} */
  #permits;

  /**
   * @param {string | number} name the resource name, or the units of a private one
   * @param {{ permits?: number, bucket?: any }} [options] the units, and where the name is
   */
  constructor(name, options) {
    const isPrivate = typeof name === 'number';
    const permits = isPrivate ? name : options?.permits;
    const units = toCount(permits, 1, NEW, 'The number of permits');
    if (units === undefined) throw typeError(NEW, 'The number of permits is missing.');
    this.#permits = units;
    if (isPrivate) {
      privateBackend ??= new NativeBackend('semaphore');
      this.#backend = privateBackend;
      this.#name = agent.uniqueName();
    } else {
      this.#backend = bucketBackend(options?.bucket, NEW);
      this.#name = toDOMString(name, NEW, 'The name');
      checkName(this.#name);
    }
  }

  /** @returns {number} units that nobody holds; those who wait may be before you */
  get available() {
    const holders = this.#backend.holders(this.#name);
    let units = this.#permits;
    for (let i = 0; i < holders.length; i++) {
      if (holders[i].mode === 'exclusive') return 0;
      units -= holders[i].weight;
    }
    return units;
  }

  /**
   * @param {any} [options] `weight`: how many units, by default 1; and those of requests
   * @returns {Promise<Release>} the function that gives them back
   */
  async acquire(options) {
    const given = this.#toOptions(options, on('acquire'));
    return releaser(await new HandleRequest(this.#backend, this.#name, given).acquire());
  }

  /**
   * Does not wait.
   * @param {any} [options] `weight`, `label` and `warnAfter`
   * @returns {Promise<Release | null>} null if there are not so many units, or others wait
   */
  async tryAcquire(options) {
    const operation = on('tryAcquire');
    const given = this.#toOptions(options, operation);
    refuse(given, NOT_TRIED, operation);
    const tried = { ...given, ifAvailable: true };
    const handle = await new HandleRequest(this.#backend, this.#name, tried).acquire();
    return handle && releaser(handle);
  }

  /**
   * @param {(lock: any) => any} callback called with the lock, whose signal tells if it is stolen
   * @param {any} [options] as for `acquire`
   * @returns {Promise<any>} what the callback returned, after the units were given back
   */
  run(callback, options) {
    try {
      const call = toCallback(callback, on('run'), 'The callback');
      const given = this.#toOptions(options, on('run'));
      return new Request(this.#backend, this.#name, given).start(call);
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * @param {any} value
   * @param {string} operation for messages
   * @returns {RequestOptions}
   */
  #toOptions(value, operation) {
    const given = toOptions(value, operation);
    for (let i = 0; i < FIXED.length; i++) {
      if (value?.[FIXED[i]] === undefined) continue;
      throw notSupportedError(`The '${FIXED[i]}' option cannot be used with ${operation}.`);
    }
    refuse(given, NOT_HERE, operation);
    /** @type {RequestOptions} */
    const options = { ...given, mode: 'shared', limit: this.#permits };
    checkRequest(options);
    return options;
  }
}

/**
 * @param {LockHandle} handle
 * @returns {Release}
 */
function releaser(handle) {
  const release = /** @type {any} */ (() => handle.release());
  release[dispose] = release;
  release[asyncDispose] = async () => release();
  return release;
}

module.exports = { Semaphore };
