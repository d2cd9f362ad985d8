'use strict';

/**
 * Several locks at once: the helper of the specification's section 5.1, for all ways in which it
 * can fail. The locks are taken one after the other in one order for everybody, so nobody waits for
 * somebody who waits for him; whatever fails, all are released.
 */

const { notSupportedError, typeError } = require('../platform/errors.js');
const { Promise, now, then } = require('../platform/intrinsics.js');
const { asyncDispose, dispose } = require('../platform/realm.js');
const { checkName, describe, toDOMString, toLockMode } = require('../standard/webidl.js');
const { callInside } = require('./inside.js');
const { HeldRequest, callSite, createHandle } = require('./lock-handle.js');
const { checkRequest, toOptions } = require('./options.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('../backend/contract.js').LockMode} LockMode */
/** @typedef {InstanceType<typeof import('./lock-handle.js').LockHandle>} LockHandle */
/** @typedef {import('./options.js').RequestOptions} RequestOptions */

/**
 * @typedef {object} Several what to lock, and how
 * @property {string[]} asked the names in the order asked for
 * @property {Map<string, LockMode>} modes by name, the stronger mode of duplicates
 * @property {Readonly<RequestOptions>} options
 */

/** One of several: what happens to it, happens to all. */
class PartRequest extends HeldRequest {
  /** @type {Group | undefined} */
  group;

  /** @override @param {boolean} fromEvents */
  lose(fromEvents) {
    super.lose(fromEvents);
    this.group?.lost(this.lossReason());
  }
}

/** The locks of one call, from the first request to the release of all. */
class Group {
  /** @type {Map<string, PartRequest>} */
  requests = new Map();
  /** The one that is waited for. @type {PartRequest | undefined} */
  #pending;
  /** Why they are not held together any more. @type {{ error: unknown } | undefined} */
  failure;
  /** Called with that. @type {(error: unknown) => void} */
  onFailure = () => {};

  /**
   * Takes the locks, all or none.
   * @param {Backend} backend
   * @param {Several} several
   * @returns {Promise<boolean>} false if it said `ifAvailable` and one of them is not
   */
  async take(backend, { modes, options }) {
    const asked = now();
    const end = asked + (options.timeout ?? 0);
    try {
      // `sort` without a function compares code units.
      for (const name of [...modes.keys()].sort()) {
        const timeout = options.timeout && Math.max(end - now(), 0);
        const mode = /** @type {LockMode} */ (modes.get(name));
        const part = { ...options, mode, timeout };
        // It may have been aborted while another one was waited for.
        checkRequest(part);
        const request = new PartRequest(backend, name, part, asked);
        request.inside?.push(...this.requests.values());
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
    request.group = this;
    this.#pending = request;
    const taken = await request.acquire();
    this.#pending = undefined;
    if (taken) this.requests.set(request.name, request);
    // One of them may have been stolen since the promise was settled.
    if (this.failure) throw this.failure.error;
    return taken !== null;
  }

  /** @param {unknown} error why one of them is not held any more */
  lost(error) {
    if (this.failure) return;
    this.failure = { error };
    const pending = this.#pending;
    if (pending?.leave()) pending.fail(error);
    this.onFailure(error);
  }

  release() {
    for (const request of this.requests.values()) request.giveBack();
  }

  /**
   * @param {Several} several
   * @param {string} [where] see createHandle
   * @returns {LockHandle[]} in the order asked for
   */
  handles({ asked }, where) {
    const handles = new Map();
    for (const [name, request] of this.requests) handles.set(name, createHandle(request, where));
    return asked.map((name) => handles.get(name));
  }
}

/** Locks that are held together until `release()` is called. */
class SeveralLocks {
  /** @param {LockHandle[]} locks in the order asked for */
  constructor(locks) {
    this.locks = Object.freeze(locks);
  }

  /** Releases all of them, at once. Calls after the first do nothing. */
  release() {
    for (const handle of this.locks) handle.release();
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
  const asked = [];
  const modes = new Map();
  for (const entry of names) {
    const named = typeof entry === 'object' && entry !== null;
    const name = toDOMString(named ? entry.name : entry, operation, 'A name');
    const given = named ? entry.mode : undefined;
    const mode = given === undefined ? options.mode : toLockMode(given, operation);
    checkName(name);
    asked.push(name);
    if (modes.get(name) !== 'exclusive') modes.set(name, mode);
  }
  checkRequest(options);
  return { asked, modes, options };
}

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
  if (!(await group.take(backend, several))) return callback(null);
  return new Promise((resolve, reject) => {
    group.onFailure = reject;
    then(use(group, several, callback), resolve, reject);
  });
}

/**
 * @param {Group} group
 * @param {Several} several
 * @param {(locks: readonly LockHandle[]) => any} callback
 */
async function use(group, several, callback) {
  try {
    const requests = [...group.requests.values()];
    const locks = group.handles(several);
    return await (several.options.deadlock
      ? callInside(requests, callback, locks)
      : callback(locks));
  } finally {
    group.release();
  }
}

module.exports = { SeveralLocks, acquireSeveral, toSeveral, useSeveral };
