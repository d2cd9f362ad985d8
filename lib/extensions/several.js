'use strict';

/**
 * Several locks at once: the helper of the specification's section 5.1, for all ways in which it
 * can fail. The locks are taken one after the other in one order for everybody, so nobody waits for
 * somebody who waits for him; whatever fails, all are released.
 */

const { callInsideAll } = require('./context.js');
const { notSupportedError, typeError } = require('../platform/errors.js');
const { HandleRequest } = require('./lock-handle.js');
const { asyncDispose, dispose } = require('../platform/realm.js');
const { describe, toDOMString, toLockMode, toLockOptions } = require('../standard/webidl.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('../backend/contract.js').LockMode} LockMode */
/** @typedef {InstanceType<typeof import('./lock-handle.js').LockHandle>} LockHandle */
/** @typedef {import('../standard/webidl.js').LockOptions} LockOptions */

/**
 * @typedef {object} Several what to lock, and how
 * @property {string[]} asked the names in the order asked for
 * @property {Map<string, LockMode>} modes by name, the stronger mode of duplicates
 * @property {LockOptions} options
 */

/** Locks that are held together until `release()` is called. */
class SeveralLocks {
  #handles;

  /**
   * @param {LockHandle[]} locks in the order asked for
   * @param {LockHandle[]} handles each once
   */
  constructor(locks, handles) {
    this.locks = Object.freeze(locks);
    this.#handles = handles;
  }

  /** Releases all of them, at once. Calls after the first do nothing. */
  release() {
    for (const handle of this.#handles) handle.release();
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
 * @param {(name: string, options: LockOptions) => void} check throws where the two do not fit
 * @param {string} operation for messages
 * @returns {Several}
 */
function toSeveral(names, givenOptions, check, operation) {
  if (typeof names !== 'object' || typeof names?.[Symbol.iterator] !== 'function') {
    throw typeError(operation, `The names are ${describe(names)}, not a list.`);
  }
  const options = toLockOptions(givenOptions, operation);
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
    check(name, { ...options, mode });
    asked.push(name);
    if (modes.get(name) !== 'exclusive') modes.set(name, mode);
  }
  return { asked, modes, options };
}

/**
 * @param {Backend} backend
 * @param {Several} several
 * @returns {Promise<SeveralLocks | null>} null if it said `ifAvailable` and one of them is not
 */
async function acquireSeveral(backend, several) {
  const taken = await take(backend, several);
  return taken && new SeveralLocks(inOrder(several, taken), handlesOf(taken));
}

/**
 * @param {Backend} backend
 * @param {Several} several
 * @param {(locks: readonly LockHandle[] | null) => any} callback
 * @returns {Promise<any>} settles like what the callback returned, after the locks were released;
 *   or as soon as one of them is stolen
 */
async function useSeveral(backend, several, callback) {
  const taken = await take(backend, several);
  if (!taken) return callback(null);
  const requests = [...taken.values()].map(({ request }) => request);
  const use = async () => {
    try {
      return await callInsideAll(requests, callback, inOrder(several, taken));
    } finally {
      releaseAll(taken);
    }
  };
  return Promise.race([use(), ...handlesOf(taken).map(loss)]);
}

/** @typedef {InstanceType<typeof HandleRequest>} Request */
/** @typedef {Map<string, { request: Request, handle: LockHandle }>} Taken by name */

/**
 * Takes the locks, all or none.
 * @param {Backend} backend
 * @param {Several} several
 * @returns {Promise<Taken | null>}
 */
async function take(backend, { modes, options }) {
  const end = performance.now() + (options.timeout ?? 0);
  /** @type {Taken} */
  const taken = new Map();
  try {
    // `sort` without a function compares code units.
    for (const name of [...modes.keys()].sort()) {
      options.signal?.throwIfAborted();
      const timeout = options.timeout && Math.max(end - performance.now(), 0);
      const mode = /** @type {LockMode} */ (modes.get(name));
      const request = new HandleRequest(backend, name, { ...options, mode, timeout });
      request.inside?.push(...[...taken.values()].map((lock) => lock.request));
      const handle = await request.start();
      if (handle) taken.set(name, { request, handle });
      else break;
    }
  } catch (error) {
    releaseAll(taken);
    throw error;
  }
  if (taken.size === modes.size) return taken;
  releaseAll(taken);
  return null;
}

/** @param {Taken} taken */
const handlesOf = (taken) => [...taken.values()].map(({ handle }) => handle);

/** @param {Taken} taken */
function releaseAll(taken) {
  for (const handle of handlesOf(taken)) handle.release();
}

/**
 * @param {Several} several
 * @param {Taken} taken
 * @returns {LockHandle[]} in the order asked for
 */
const inOrder = ({ asked }, taken) =>
  asked.map((name) => /** @type {{ handle: LockHandle }} */ (taken.get(name)).handle);

/**
 * @param {LockHandle} handle
 * @returns {Promise<never>} rejects when the lock is stolen
 */
const loss = ({ signal }) =>
  new Promise((_, reject) => {
    const lose = () => reject(signal.reason);
    if (signal.aborted) lose();
    else signal.addEventListener('abort', lose, { once: true });
  });

module.exports = { SeveralLocks, acquireSeveral, toSeveral, useSeveral };
