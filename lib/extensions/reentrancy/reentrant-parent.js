'use strict';

/**
 * Reentrancy: a held lock acts as the backend of the reentrant requests that are made in its
 * callback. It *serves* these requests.
 */

const { threadId } = require('node:worker_threads');
const { notSupportedError } = require('../../platform/errors.js');
const { Promise, report, uncurry } = require('../../platform/intrinsics.js');

/** @import { Backend, CycleEntry } from '../../backend/contract.js' */
/** @typedef {InstanceType<typeof import('../request/request.js').Request>} Request */

/**
 * For each backend, the requests through it that a lock of another handle (of the same bucket)
 * serves.
 * @type {WeakMap<Backend, Set<Request>>}
 */
const servedElsewhere = new WeakMap();

const getFrom = uncurry(WeakMap.prototype.get);
const setIn = uncurry(WeakMap.prototype.set);
const addTo = uncurry(Set.prototype.add);
const deleteFrom = uncurry(Set.prototype.delete);
const forEachOf = uncurry(Set.prototype.forEach);

/** The requests that a lock serves. The lock must not be released before they have ended. */
class Served {
  /** @type {Request[]} */
  requests = [];
  /** Whether the user has released the lock, which is then held only until these requests end. */
  isAwaited = false;
  /** Resolves `ended`. @type {((released?: any) => void) | undefined} */
  end;
  /** Resolves when the lock is really released, or is lost. @type {Promise<void>} */
  ended = new Promise((resolve) => {
    this.end = resolve;
  });

  /** May be called again after a stack overflow. */
  dropLastRequest() {
    const last = this.requests[this.requests.length - 1];
    /** @type {ReentrantParent} */ (/** @type {any} */ (last.backend)).forgetServedElsewhere(last);
    this.requests.length--;
  }
}

/** A lock as the backend of one request that it serves. @implements {Backend} */
class ReentrantParent {
  #backend;
  #asked;
  /** The index among the served requests; -1 while the request is not served. */
  #place = -1;

  /** @param {Request} lock a held root lock @param {Backend} asked the backend that users called */
  constructor(lock, asked) {
    const { backend } = lock;
    this.lock = lock;
    this.#backend = backend;
    this.#asked = asked;
    this.id = backend.id;
    this.findsDeadlocks = backend.findsDeadlocks;
    this.unfinished = backend.unfinished;
    this.undo = backend.undo;
    if (backend.holders) this.holders = (name, waits) => backend.holders?.(name, waits);
    else if (backend.seenHolders) this.seenHolders = (name) => backend.seenHolders?.(name);
    else this.askHolders = async (name) => backend.askHolders?.(name);
  }

  /**
   * Grants the request at once, or refuses it: an exclusive one in a shared lock.
   * @param {any} request a Request
   */
  request(request) {
    const { lock } = this;
    if (lock.mode === 'shared' && request.mode === 'exclusive') {
      // The enclosing lock is held until the request ends, so the request would wait for itself.
      if (request.disposition === 'ifAvailable') request.unavailable();
      else request.deadlocked(this.#deadlockCycle(request));
      return;
    }
    const served = lock.served ?? new Served();
    // If the stack overflowed in the constructor of `ended`, the promise has swallowed the error.
    if (!served.end) throw new RangeError('Maximum call stack size exceeded');
    lock.served = served;
    const { requests } = served;
    this.#place = requests.length;
    requests[this.#place] = request;
    if (this.#asked !== this.#backend) noteServedElsewhere(this.#asked, request);
    // The request gets the token of the lock, because both are the same lock.
    request.granted(lock.tokenLow, lock.tokenHigh);
  }

  withdraw() {
    return this.#detach();
  }

  /** The lock itself is released only if it waited for this request alone. */
  release() {
    return this.#detach();
  }

  /**
   * Removes the request, and releases the lock if it waited only for this request. May be called
   * again after a stack overflow.
   * @returns {void | Promise<void>}
   */
  #detach() {
    const { served } = this.lock;
    if (!served) return undefined;
    this.#removeRequest(served.requests);
    if (served.requests.length > 0 || !served.isAwaited) return undefined;
    const released = this.lock.release();
    served.end?.(released);
    return released;
  }

  /** @param {Request[]} requests */
  #removeRequest(requests) {
    if (!this.#isBackendOf(requests[this.#place])) return;
    this.forgetServedElsewhere(requests[this.#place]);
    const last = requests[requests.length - 1];
    /** @type {ReentrantParent} */ (/** @type {any} */ (last.backend)).#place = this.#place;
    requests[this.#place] = last;
    requests.length--;
  }

  /** @param {Request} request */
  forgetServedElsewhere(request) {
    const asked = getFrom(servedElsewhere, this.#asked);
    if (asked) deleteFrom(asked, request);
  }

  /** @param {Request | undefined} request */
  #isBackendOf(request) {
    return /** @type {any} */ (request?.backend) === this;
  }

  /** Announces all results of the real backend. */
  announce() {
    this.#backend.announce();
  }

  /** @param {string} [name] */
  query(name) {
    return this.#backend.query(name);
  }

  /** @param {string} [name] */
  details(name) {
    return this.#backend.details(name);
  }

  /** @type {Backend['holders']} */
  holders;

  /** @type {Backend['seenHolders']} */
  seenHolders;

  /** @type {Backend['askHolders']} */
  askHolders;

  /** Every request is answered at once. */
  wait() {}

  checkHeld() {
    return this.#backend.checkHeld?.(this.lock) ?? true;
  }

  remaining() {
    return this.#backend.remaining?.(this.lock) ?? Number.POSITIVE_INFINITY;
  }

  /** @param {any} _lock @param {any} client */
  guard(_lock, client) {
    return guard(this.#backend, this.lock, client);
  }

  /** Only buckets are closed. */
  async close() {}

  /** @param {Request} request @returns {CycleEntry[]} the request and the lock */
  #deadlockCycle(request) {
    const { lock } = this;
    const backend = this.#backend;
    if (backend.entryOf) return [backend.entryOf(request, false), backend.entryOf(lock, true)];
    const { mode, label = '' } = request;
    const holders = backend.holders?.(lock.name) ?? [];
    for (let i = 0; i < holders.length; i++) {
      const holder = holders[i];
      if (holder.threadId !== threadId || holder.label !== (lock.label ?? '')) continue;
      const asked = { ...holder, mode, label, held: 0, data: undefined, isHeld: false };
      return [asked, { ...holder, isHeld: true }];
    }
    return [];
  }
}

/** @param {Backend} backend @param {Request} request */
function noteServedElsewhere(backend, request) {
  let asked = getFrom(servedElsewhere, backend);
  if (!asked) {
    asked = new Set();
    setIn(servedElsewhere, backend, asked);
  }
  addTo(asked, request);
}

/**
 * Closes the backend. The requests through it that a lock of another handle serves are lost, too,
 * although the backend does not know them.
 * @param {Backend} backend
 */
function close(backend) {
  /** @type {Request[]} */
  const lost = [];
  const asked = getFrom(servedElsewhere, backend);
  if (asked) {
    forEachOf(asked, (request) => {
      if (request.isGranted) lost[lost.length] = request;
    });
  }
  for (let i = 0; i < lost.length; i++) lost[i].loseBeforeRelease('closed');
  try {
    // Its pending requests end before the releases below, which could grant them.
    const closed = backend.close();
    return lost.length > 0 ? announceLosses(lost, closed) : closed;
  } finally {
    for (let i = 0; i < lost.length; i++) lost[i].releaseInBackend();
  }
}

/** @param {Request[]} lost @param {Promise<void>} closed */
async function announceLosses(lost, closed) {
  // Continues on an empty stack, because listeners will run.
  await undefined;
  for (let i = 0; i < lost.length; i++) {
    try {
      lost[i].announceLoss(false);
      lost[i].backend.announce();
    } catch (error) {
      report(error);
    }
  }
  await closed;
}

/** @param {Backend} backend @param {Request} lock @param {any} client see `lock.guard` */
async function guard(backend, lock, client) {
  if (!backend.guard)
    throw notSupportedError('lock.guard() is available only for locks of a PostgreSQL bucket.');
  await backend.guard(lock, client);
}

module.exports = { ReentrantParent, Served, close, guard };
