'use strict';

/**
 * Queries the holders and waiters of a lock, for errors and warnings. Thousands of requests may
 * reach their time limits at once. Requests that ask about a name in the same turn of the event
 * loop share a query. Requests that ask while it is under way share the next. Several errors then
 * share one answer, which is therefore frozen.
 */

const intrinsics = require('../../platform/intrinsics.js');
const { placeOf } = require('../sites/origin.js');
const { originOfHeld } = require('../sites/sites.js');

const {
  Promise,
  clearTimeout,
  setImmediate,
  setTimeout,
  then,
  threadsNow: now,
  uncurry,
} = intrinsics;

/** @import { Backend, LockDetails } from '../../backend/contract.js' */
/** @import { Origin } from '../sites/origin.js' */

/**
 * The first MOST holders of a lock, and the count of all. Until `prepareForUsers` is called,
 * `origins` has the origin of each listed holder.
 * @typedef {{ list: readonly Readonly<LockDetails>[], count: number,
 *   origins?: (Origin | undefined)[] }} Holders
 */

const MOST = 10;

/**
 * If the backend has to ask for the holders (`askHolders`), a request asks up to this many
 * milliseconds before its time limit. An answer may take up to twice this time.
 */
const LOOK_MS = 100;

/** The milliseconds that a warning waits for the answer. */
const LONG_LOOK_MS = 1000;

/** Timers in one turn of the event loop share an answer for this many milliseconds. */
const FRESH_MS = 100;

/** @type {(map: any, key: any) => any} */
const getFrom = uncurry(Map.prototype.get);
const setIn = uncurry(Map.prototype.set);
const deleteFrom = uncurry(Map.prototype.delete);
/** @type {(map: any, key: any) => any} */
const getFromWeak = uncurry(WeakMap.prototype.get);
const setInWeak = uncurry(WeakMap.prototype.set);

const { freeze } = Object;

/**
 * Keeps the first MOST. Must not run user code, because the request still waits for the lock.
 * @param {Backend} backend @param {LockDetails[] | undefined} all @returns {Holders | undefined}
 */
function toHolders(backend, all) {
  if (!all) return undefined;
  /** @type {LockDetails[]} */
  const list = [];
  /** @type {(Origin | undefined)[]} */
  const origins = [];
  for (let i = 0; i < all.length && i < MOST; i++) {
    list[i] = all[i];
    origins[i] = originOfHeld(backend, all[i]);
  }
  return { list, count: all.length, origins };
}

/**
 * Adds the places where the locks were requested, which can run user code, and freezes the list.
 * @template {Holders | undefined} T @param {T} holders
 */
function prepareForUsers(holders) {
  const { list, origins } = holders ?? {};
  if (!list || !origins) return holders;
  /** @type {Holders} */ (holders).origins = undefined;
  for (let i = 0; i < list.length; i++) {
    const entry = /** @type {LockDetails} */ (list[i]);
    if (origins[i]) entry.site = placeOf(origins[i]);
    freeze(entry);
  }
  freeze(list);
  return holders;
}

/**
 * A query that was not sent yet.
 * @template T
 * @typedef {{ promise: Promise<T | undefined>, resolve: (answer: T | undefined) => void }} Next
 */

/** If an answer takes too long, the result of the query is undefined. @template T */
class SharedQueries {
  #ask;
  #limit;
  /**
   * A name has an entry while a query about it is under way or waits to be sent.
   * @type {WeakMap<Backend, Map<string, { next: Next<T> | undefined }>>}
   */
  #backends = new WeakMap();

  /**
   * @param {(backend: Backend, name: string) => Promise<T | undefined>} ask never rejects
   * @param {number} limit milliseconds that the answer may take
   */
  constructor(ask, limit) {
    this.#ask = ask;
    this.#limit = limit;
  }

  /**
   * The answer is never older than this call, because the query is sent afterwards.
   * @param {Backend} backend @param {string} name @returns {Promise<T | undefined>}
   */
  query(backend, name) {
    let names = getFromWeak(this.#backends, backend);
    if (!names) {
      names = new Map();
      setInWeak(this.#backends, backend, names);
    }
    let queue = getFrom(names, name);
    if (!queue) {
      queue = { next: undefined };
      const made = queue;
      // Timers that are due at the same time run before this immediate, and share the query.
      setImmediate(() => this.#run(backend, names, name, made));
      setIn(names, name, queue);
    }
    queue.next ??= makeDeferred();
    return queue.next.promise;
  }

  /**
   * Sends one query after another until no request asks for a further one.
   * @param {Backend} backend @param {Map<string, any>} names @param {string} name
   * @param {{ next: Next<T> | undefined }} queue
   */
  async #run(backend, names, name, queue) {
    while (queue.next) {
      const { resolve } = queue.next;
      queue.next = undefined;
      resolve(await withTimeLimit(this.#ask(backend, name), this.#limit));
    }
    deleteFrom(names, name);
  }
}

/** @returns {Next<any>} */
function makeDeferred() {
  /** @type {any} */
  let resolve;
  const promise = new Promise((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

/**
 * @template T @param {Promise<T>} answer never rejects @param {number} milliseconds
 * @returns {Promise<T | undefined>}
 */
const withTimeLimit = (answer, milliseconds) =>
  new Promise((resolve) => {
    // If the answer arrived while this thread was busy, it is delivered before the immediate runs.
    const giveUp = () => resolve(undefined);
    const timer = setTimeout(() => setImmediate(giveUp), milliseconds);
    then(answer, (/** @type {T} */ known) => {
      clearTimeout(timer);
      resolve(known);
    });
  });

/** @param {Backend} backend @param {string} name @returns {Promise<Holders | undefined>} */
async function askHolders(backend, name) {
  if (backend.askHolders) return toHolders(backend, await backend.askHolders(name));
  // This backend knows the holders at once, but perhaps was not open.
  try {
    await backend.ready;
  } catch {
    return undefined;
  }
  return holdersNow(backend, name, false);
}

/** @param {Backend} backend @param {string} name */
async function askWaiters(backend, name) {
  try {
    return (await backend.details(name)).pending;
  } catch {
    return undefined;
  }
}

/** @type {SharedQueries<Holders>} */
const forErrors = new SharedQueries(askHolders, 2 * LOOK_MS);
/** @type {SharedQueries<Holders>} */
const forWarnings = new SharedQueries(askHolders, LONG_LOOK_MS);
const waiters = new SharedQueries(askWaiters, LONG_LOOK_MS);

// The promises of these functions never reject; undefined means that the answer is unknown.

/** @param {Backend} backend has `seenHolders` or `askHolders` @param {string} name */
const queryHolders = (backend, name) => forErrors.query(backend, name);

/** @param {Backend} backend has `seenHolders` or `askHolders` @param {string} name */
const queryHoldersToWarn = (backend, name) => forWarnings.query(backend, name);

/** @param {Backend} backend @param {string} name */
const queryWaiters = (backend, name) => waiters.query(backend, name);

/**
 * @param {Backend} backend has `holders` or `seenHolders` @param {string} name
 * @param {boolean} waits see `holders` in contract.js
 * @returns {Holders | undefined}
 */
const holdersNow = (backend, name, waits) =>
  toHolders(backend, backend.holders ? backend.holders(name, waits) : backend.seenHolders?.(name));

/** The answers that the timers of this turn of the event loop share. */
let answers = { of: new Map(), since: 0 };
let isForgetting = false;

/**
 * Like `holdersNow`, but timers that fire in the same turn of the event loop share an answer.
 * @param {Backend} backend @param {string} name @param {boolean} waits
 * @returns {Holders | undefined}
 */
function sharedHoldersNow(backend, name, waits) {
  const key = `${waits} ${backend.id} ${name}`;
  const time = now();
  if (time - answers.since > FRESH_MS) answers = { of: new Map(), since: time };
  const known = getFrom(answers.of, key);
  if (known) return known;
  const answer = holdersNow(backend, name, waits);
  if (!answer?.count) return answer;
  if (!isForgetting) setImmediate(forgetAnswers);
  isForgetting = true;
  setIn(answers.of, key, answer);
  return answer;
}

function forgetAnswers() {
  isForgetting = false;
  answers = { of: new Map(), since: 0 };
}

/**
 * @param {{ backend: Backend, blocks: boolean, name: string }} request
 * @returns {Holders | undefined} undefined if the backend has to ask
 */
const holdersOfWaiter = ({ backend, blocks, name }) =>
  (blocks ? holdersNow : sharedHoldersNow)(backend, name, true);

module.exports = {
  LOOK_MS,
  sharedHoldersNow,
  holdersNow,
  holdersOfWaiter,
  prepareForUsers,
  queryHolders,
  queryHoldersToWarn,
  queryWaiters,
};
