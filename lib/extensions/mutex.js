'use strict';

/**
 * Locks as objects: the class that the article "JavaScriptでロックを実装する" builds step
 * by step, on this core, and its like for readers and writers.
 */

const { NativeBackend, agent } = require('../backend/native.js');
const { checkName, describe, toCallback, toDOMString } = require('../standard/webidl.js');
const { bucketBackend } = require('./buckets.js');
const { LockError } = require('./lock-errors.js');
const { HandleRequest } = require('./lock-handle.js');
const { checkRequest, refuse, toOptions } = require('./options.js');
const { Request } = require('./request.js');
const { typeError, quote } = require('../platform/errors.js');
const { rejected } = require('../platform/intrinsics.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('../backend/contract.js').LockMode} LockMode */
/** @typedef {InstanceType<typeof import('./lock-handle.js').LockHandle>} LockHandle */

/** @type {Backend | undefined} */
let privateBackend;

/** What both classes do, for one mode at a time. */
class NamedLock {
  #backend;
  #name;

  /**
   * @param {any} name undefined for a lock that only those have who have the object
   * @param {any} options `bucket`: a bucket's name, or what `openBucket` returned
   * @param {string} operation for messages
   */
  constructor(name, options, operation) {
    if (name === undefined) {
      privateBackend ??= new NativeBackend('mutex');
      this.#backend = privateBackend;
      this.#name = agent.uniqueName();
    } else {
      this.#backend = bucketBackend(options?.bucket, operation);
      this.#name = toDOMString(name, operation, 'The name');
      checkName(this.#name);
    }
  }

  /** @returns {LockMode | null} how it is held now, by whomever */
  get state() {
    const [holder] = this.#backend.holders(this.#name);
    return holder ? holder.mode : null;
  }

  /**
   * @param {LockMode} mode
   * @param {any} options those of requests, and `blocking`
   * @param {string} operation for messages
   * @returns {Promise<LockHandle>}
   */
  async acquire(mode, options, operation) {
    const given = toMutexOptions(mode, options, operation);
    const handle = await new HandleRequest(this.#backend, this.#name, given).acquire();
    return handle ?? this.#refuse();
  }

  /**
   * @param {LockMode} mode
   * @param {any} callback
   * @param {any} options
   * @param {string} operation for messages
   * @returns {Promise<any>} what the callback returned
   */
  run(mode, callback, options, operation) {
    try {
      const call = toCallback(callback, operation, 'The callback');
      const given = toMutexOptions(mode, options, operation);
      const request = new Request(this.#backend, this.#name, given);
      return request.start((lock) => (lock ? call(lock) : this.#refuse()));
    } catch (error) {
      return rejected(error);
    }
  }

  /** @returns {never} */
  #refuse() {
    throw new LockError(`The lock ${quote(this.#name)} is not available.`, this.#name);
  }
}

/**
 * @param {LockMode} mode
 * @param {any} value
 * @param {string} operation for messages
 */
function toMutexOptions(mode, value, operation) {
  const given = toOptions(value, operation);
  if (value?.mode !== undefined) {
    throw typeError(
      operation,
      `The 'mode' option is ${describe(value.mode)}, but the method is it.`,
    );
  }
  refuse(given, ['ifAvailable', 'steal'], operation);
  const blocking = value?.blocking ?? true;
  const options = {
    ...given,
    mode,
    ifAvailable: !blocking,
    timeout: blocking ? given.timeout : undefined,
    signal: blocking ? given.signal : undefined,
  };
  checkRequest(options);
  return options;
}

/** @param {LockHandle} handle */
const releaser = (handle) => () => handle.release();

/**
 * A mutual exclusion lock. `new Mutex()` is private to those who have the object; `new Mutex(name)`
 * is the exclusive lock of that name, shared by all threads.
 */
class Mutex {
  #lock;

  /**
   * @param {string} [name] the resource name
   * @param {{ bucket?: any }} [options]
   */
  constructor(name, options) {
    this.#lock = new NamedLock(name, options, "'new Mutex'");
  }

  /** @returns {boolean} whether somebody holds it */
  get locked() {
    return this.#lock.state !== null;
  }

  /**
   * @param {{ blocking?: boolean, timeout?: number }} [options] with `blocking: false` it does not
   *   wait; `timeout` in milliseconds
   * @returns {Promise<() => void>} the function that releases it; harmless to call twice
   * @throws {LockError} not acquired
   */
  async acquire(options) {
    return releaser(await this.#lock.acquire('exclusive', options, "'acquire' on 'Mutex'"));
  }

  /**
   * @param {(lock: any) => any} callback called with the lock, whose signal tells if it is stolen
   * @param {{ blocking?: boolean, timeout?: number }} [options]
   * @returns {Promise<any>} what the callback returned
   * @throws {LockError} not acquired
   */
  runExclusive(callback, options) {
    return this.#lock.run('exclusive', callback, options, "'runExclusive' on 'Mutex'");
  }
}

/** A lock for readers, who share it, and writers, who do not. Otherwise as Mutex. */
class RWLock {
  #lock;

  /**
   * @param {string} [name] the resource name
   * @param {{ bucket?: any }} [options]
   */
  constructor(name, options) {
    this.#lock = new NamedLock(name, options, "'new RWLock'");
  }

  /** @returns {LockMode | null} how it is held */
  get locked() {
    return this.#lock.state;
  }

  /** @param {{ blocking?: boolean, timeout?: number }} [options] */
  async acquireShared(options) {
    return releaser(await this.#lock.acquire('shared', options, "'acquireShared' on 'RWLock'"));
  }

  /** @param {{ blocking?: boolean, timeout?: number }} [options] */
  async acquireExclusive(options) {
    const operation = "'acquireExclusive' on 'RWLock'";
    return releaser(await this.#lock.acquire('exclusive', options, operation));
  }

  /**
   * @param {(lock: any) => any} callback called with the lock, whose signal tells if it is stolen
   * @param {{ blocking?: boolean, timeout?: number }} [options]
   */
  runShared(callback, options) {
    return this.#lock.run('shared', callback, options, "'runShared' on 'RWLock'");
  }

  /**
   * @param {(lock: any) => any} callback called with the lock, whose signal tells if it is stolen
   * @param {{ blocking?: boolean, timeout?: number }} [options]
   */
  runExclusive(callback, options) {
    return this.#lock.run('exclusive', callback, options, "'runExclusive' on 'RWLock'");
  }
}

module.exports = { Mutex, RWLock };
