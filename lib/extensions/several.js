'use strict';

/**
 * Several locks at once: the helper of the specification's section 5.1, for all ways in which it
 * can fail. The locks are taken one after the other in one order for everybody, so nobody waits for
 * somebody who waits for him; whatever fails, all are released.
 */

const { notSupportedError, typeError } = require('../platform/errors.js');
const { Promise, now, uncurry } = require('../platform/intrinsics.js');
const { asyncDispose, dispose } = require('../platform/realm.js');
const { checkName, describe, toDOMString, toLockMode } = require('../standard/webidl.js');
const { callInside } = require('./inside.js');
const { HeldRequest, createHandle } = require('./lock-handle.js');
const { checkRequest, toOptions } = require('./options.js');
const { callSite } = require('./origin.js');

const { freeze } = Object;

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('../backend/contract.js').LockMode} LockMode */
/** @typedef {InstanceType<typeof import('./lock-handle.js').LockHandle>} LockHandle */
/** @typedef {import('./options.js').RequestOptions} RequestOptions */

/**
 * @typedef {object} Several what to lock, and how
 * @property {Part[]} parts each name once, in the order in which they are taken
 * @property {Readonly<RequestOptions>} options
 */

/**
 * @typedef {object} Part
 * @property {string} name
 * @property {LockMode} mode the stronger one of duplicates
 * @property {number[]} places where it was asked for
 */

/** One of several: what happens to it, happens to all. */
class PartRequest extends HeldRequest {
  /**
   * @param {Backend} backend
   * @param {string} name the resource name
   * @param {Readonly<RequestOptions>} options valid together
   * @param {Group} group
   */
  constructor(backend, name, options, group) {
    super(backend, name, options, group.asked);
    this.group = group;
  }

  /** @override @param {boolean} fromEvents */
  lose(fromEvents) {
    super.lose(fromEvents);
    this.group.lost(this.lossReason());
  }
}

/** The locks of one call, from the first request to the release of all. */
class Group {
  asked = now();
  /** Granted, in the order in which they were. @type {PartRequest[]} */
  #taken = [];
  /** The one that is waited for. @type {PartRequest | undefined} */
  #pending;
  /** Why they are not held together any more. @type {{ error: unknown } | undefined} */
  #failure;
  /** Called with that. @type {(error: unknown) => void} */
  onFailure = () => {};

  /**
   * Takes the locks, all or none.
   * @param {Backend} backend
   * @param {Several} several
   * @returns {Promise<boolean>} false if it said `ifAvailable` and one of them is not
   */
  async take(backend, { parts, options }) {
    const end = this.asked + (options.timeout ?? 0);
    try {
      for (let i = 0; i < parts.length; i++) {
        const timeout = options.timeout && Math.max(end - now(), 0);
        const { name, mode } = parts[i];
        const shared = mode === 'shared';
        const limit = shared ? options.limit : undefined;
        const weight = shared ? options.weight : undefined;
        const part = { ...options, mode, limit, weight, timeout };
        // It may have been aborted while another one was waited for.
        checkRequest(part);
        const request = new PartRequest(backend, name, part, this);
        if (!(await this.#takeOne(request))) {
          this.release();
          return false;
        }
      }
    } catch (error) {
      this.release();
      throw error;
    }
    return true;
  }

  /**
   * @param {PartRequest} request
   * @returns {Promise<boolean>}
   */
  async #takeOne(request) {
    const { inside } = request;
    for (let i = 0; inside && i < this.#taken.length; i++) inside[inside.length] = this.#taken[i];
    this.#pending = request;
    const taken = await request.acquire();
    this.#pending = undefined;
    if (taken) this.#taken[this.#taken.length] = request;
    // One of them may have been stolen since the promise was settled.
    if (this.#failure) throw this.#failure.error;
    return taken !== null;
  }

  /** @param {unknown} error why one of them is not held any more */
  lost(error) {
    if (this.#failure) return;
    this.#failure = { error };
    const pending = this.#pending;
    if (pending?.leave()) pending.fail(error);
    this.onFailure(error);
  }

  release() {
    for (let i = 0; i < this.#taken.length; i++) this.#taken[i].giveBack();
  }

  /**
   * Calls a callback with the locks, then releases them.
   * @param {Several} several
   * @param {(locks: readonly LockHandle[]) => any} callback
   * @returns {Promise<any>} settles like what it returned, or as soon as one of them is stolen
   */
  use(several, callback) {
    return new Promise((resolve, reject) => {
      this.onFailure = reject;
      this.#call(several, callback, resolve, reject);
    });
  }

  /**
   * @param {Several} several
   * @param {(locks: readonly LockHandle[]) => any} callback
   * @param {(value: any) => void} resolve
   * @param {(error: any) => void} reject
   */
  async #call(several, callback, resolve, reject) {
    let settle = resolve;
    let result;
    try {
      const locks = this.handles(several);
      const { deadlock } = several.options;
      result = await (deadlock ? callInside(this.#taken, callback, locks) : callback(locks));
    } catch (error) {
      settle = reject;
      result = error;
    }
    this.release();
    settle(result);
  }

  /**
   * @param {Several} several
   * @param {string} [where] see createHandle
   * @returns {LockHandle[]} in the order asked for
   */
  handles({ parts }, where) {
    /** @type {LockHandle[]} */
    const handles = [];
    for (let i = 0; i < parts.length; i++) {
      const handle = createHandle(this.#taken[i], where);
      const { places } = parts[i];
      for (let j = 0; j < places.length; j++) handles[places[j]] = handle;
    }
    return handles;
  }
}

/** Locks that are held together until `release()` is called. */
class SeveralLocks {
  /** @param {LockHandle[]} locks in the order asked for */
  constructor(locks) {
    this.locks = freeze(locks);
  }

  /** Releases all of them, at once. Calls after the first do nothing. */
  release() {
    for (let i = 0; i < this.locks.length; i++) this.locks[i].release();
  }

  [dispose]() {
    this.release();
  }

  async [asyncDispose]() {
    this.release();
  }
}

/**
 * @param {any} names
 * @param {any} givenOptions
 * @param {string} operation for messages
 * @returns {Several}
 */
function toSeveral(names, givenOptions, operation) {
  if (typeof names !== 'object' || typeof names?.[Symbol.iterator] !== 'function') {
    throw typeError(operation, `The names are ${describe(names)}, not a list.`);
  }
  const options = toOptions(givenOptions, operation);
  if (options.steal) {
    throw notSupportedError("The 'steal' option cannot be used with several names.");
  }
  /** @type {Part[]} */
  const asked = [];
  // The iterator is the caller's.
  for (const entry of names) {
    const named = typeof entry === 'object' && entry !== null;
    const name = toDOMString(named ? entry.name : entry, operation, 'A name');
    const given = named ? entry.mode : undefined;
    const mode = given === undefined ? options.mode : toLockMode(given, operation);
    checkName(name);
    asked[asked.length] = { name, mode, places: [asked.length] };
  }
  checkRequest(options);
  return { parts: merge(asked), options };
}

/**
 * @param {Part[]} parts in the order asked for; becomes the result
 * @returns {Part[]} in the order of the code units of their names, each name once
 */
function merge(parts) {
  sort(parts, (one, other) => {
    if (one.name !== other.name) return one.name < other.name ? -1 : 1;
    return one.places[0] - other.places[0];
  });
  let count = 0;
  for (let i = 0; i < parts.length; i++) {
    const last = parts[count - 1];
    if (last?.name === parts[i].name) {
      last.places[last.places.length] = parts[i].places[0];
      if (parts[i].mode === 'exclusive') last.mode = 'exclusive';
    } else {
      parts[count++] = parts[i];
    }
  }
  parts.length = count;
  return parts;
}

/** @type {<T>(array: T[], compare: (one: T, other: T) => number) => void} */
const sort = uncurry(Array.prototype.sort);

/**
 * @param {Backend} backend
 * @param {Several} several
 * @param {Function} callee whose caller is told of a leak
 * @returns {Promise<SeveralLocks | null>} null if it said `ifAvailable` and one of them is not
 */
async function acquireSeveral(backend, several, callee) {
  const where = callSite(callee);
  const group = new Group();
  return (await group.take(backend, several))
    ? new SeveralLocks(group.handles(several, where))
    : null;
}

/**
 * @param {Backend} backend
 * @param {Several} several
 * @param {(locks: readonly LockHandle[] | null) => any} callback
 * @returns {Promise<any>} settles like what the callback returned, after the locks were released;
 *   or as soon as one of them is stolen
 */
async function useSeveral(backend, several, callback) {
  const group = new Group();
  return (await group.take(backend, several))
    ? await group.use(several, callback)
    : await callback(null);
}

module.exports = { SeveralLocks, acquireSeveral, toSeveral, useSeveral };
