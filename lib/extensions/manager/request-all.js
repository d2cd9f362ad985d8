'use strict';

/**
 * Requests several locks at once: the helper of the specification's section 5.1, extended to handle
 * every way in which it can fail. All calls take their locks in the same order, so that no two
 * calls wait for each other. If anything fails, all locks are released.
 */

const { typeError } = require('../../platform/errors.js');
const { Promise, threadsNow: now, uncurry } = require('../../platform/intrinsics.js');
const { asyncDispose, dispose } = require('../../platform/realm.js');
const { ENDED, GRANTED, LOST, PENDING } = require('../../standard/lock-request.js');
const { checkName, describe, toDOMString, toLockMode } = require('../../standard/webidl.js');
const { addOnce, callEnclosed, countsAsEnclosing } = require('../reentrancy/enclosing-locks.js');
const { HeldRequest, createHandle, findSite } = require('../request/lock-handle.js');
const { checkRequest, refuseOthers, toOptions } = require('../options.js');
const { originOfCall } = require('../request/request.js');
const { rejectInUsersStack } = require('../sites/origin.js');
const { isWatched } = require('../watch/watch.js');

const { freeze } = Object;

/** @import { Backend, LockMode } from '../../backend/contract.js' */
/** @import { RequestOptions } from '../options.js' */
/** @typedef {InstanceType<typeof import('../request/lock-handle.js').LockHandle>} LockHandle */

/** @typedef {{ parts: Part[], options: RequestOptions }} Several the arguments of a call */

/**
 * A name of a call, with the strongest mode in which the call requests it, and with its indices in
 * the call (`places`).
 * @typedef {{ name: string, mode: LockMode, places: number[] }} Part
 */

/** A request of a group. If it fails or loses its lock, the whole group fails. */
class PartRequest extends HeldRequest {
  /**
   * @param {Backend} backend @param {string} name @param {RequestOptions} options
   * @param {Group} group
   */
  constructor(backend, name, options, group) {
    super(backend, name, options, group.asked);
    this.group = group;
    if (group.origin) this.origin = group.origin;
  }

  /** The constructor sets `origin`. @override */
  get hasSite() {
    return true;
  }

  /** The whole group fails first. @override @param {boolean} fromEvents */
  publishLoss(fromEvents) {
    const { settle } = this.group;
    const failAndPublish = () => {
      // If the stack overflows in `fail`, the backend calls `publishLoss` again. `fail` may run
      // twice, but the notification below must not, so `fail` comes first.
      this.group.fail(this.lossReason());
      super.publishLoss(false);
    };
    if (fromEvents && settle && !this.origin) rejectInUsersStack(settle, failAndPublish);
    else failAndPublish();
  }

  /** The time limit applies to the group. @override */
  handleTimeout() {
    this.group.handleTimeout();
  }

  /** Ends the wait, so that the group fails with the error of this request. */
  endWait() {
    super.handleTimeout();
  }

  /** If the group still waits for other locks, `maxTotal` ends that wait instead. @override */
  handleHoldTimeout() {
    const isOfAll = this.observer.limits.holdLimit.option === 'maxTotal';
    if (!isOfAll || !this.group.handleTimeout()) super.handleHoldTimeout();
  }

  /** The group asks for the holders of all its requests at once. @override */
  async failWithHolders() {
    await this.group.failWithHolders(this);
  }
}

/** The locks of one call, from the first request to the release of all locks. */
class Group {
  asked = now();
  /**
   * Where the call was made. It is cleared once all locks are granted, because it would keep their
   * handles alive.
   * @type {import('../sites/origin.js').Origin | undefined}
   */
  origin;
  /** The granted requests; once complete, in the order of the parts. @type {PartRequest[]} */
  #taken = [];
  /** @type {PartRequest[]} */
  #pending = [];
  /** Why the group failed. @type {{ error: unknown } | undefined} */
  #failure;
  /** Requests with the time limit 0 that were not granted at once. @type {PartRequest[]} */
  #late = [];
  /**
   * The functions that settle the promise of the call while its callback runs.
   * @type {{ resolve: (value: any) => void, reject: (error: any) => void } | undefined}
   */
  settle;

  /** @param {RequestOptions} options @param {Function} callee see `originOf` */
  constructor(options, callee) {
    this.origin = originOfCall(options, callee);
  }

  /**
   * Takes all locks or none. The last check for a loss and the hand-over happen in the same
   * microtask, so that no other code of this thread can steal a lock in between.
   * @param {Backend} backend @param {Several} several
   * @param {((locks: readonly LockHandle[] | null) => any) | undefined} callback receives null if
   *   `ifAvailable` is true and a lock is unavailable; undefined for `acquireAll`
   * @param {string} [where] see createHandle
   * @returns {Promise<any>} the result of the callback; without a callback, the locks or null
   */
  async take(backend, several, callback, where) {
    const { parts, options } = several;
    const end = this.asked + (options.timeout ?? 0);
    try {
      let available = true;
      if (backend.requestAll) {
        available = await this.#takeInOneStep(backend, several);
      } else {
        // Each lock is requested when the previous one is held. If a lock is lost meanwhile, the
        // loop must end, because `fail` ends only the requests that exist. The loop is not a
        // function of its own: to await it would delay the hand-over by a microtask.
        for (let i = 0; i < parts.length && available && !this.#failure; i++) {
          const request = this.#makeNextRequest(backend, parts[i], options, end);
          available = (await request.acquire()) !== null;
          this.#pending.length = 0;
          if (available) this.#taken[this.#taken.length] = request;
        }
      }
      // A lock may have been lost after its request was answered.
      if (this.#failure) throw this.#failure.error;
      if (!available) {
        const released = this.release();
        if (released) await released;
        return callback ? await callback(null) : null;
      }
    } catch (error) {
      this.#abandonPending();
      const released = this.release();
      if (released) await released;
      throw error;
    }
    if (callback) return await this.run(several, callback);
    return new SeveralLocks(this.makeHandles(several, where));
  }

  /**
   * @param {Backend} backend @param {Part} part @param {RequestOptions} options of the group
   * @param {number} end of the time limit, if there is one
   * @throws {unknown} the reason of the signal, if it was aborted during the previous wait
   */
  #makeNextRequest(backend, part, options, end) {
    const timeout = options.timeout && Math.max(end - now(), 0);
    const given = partOptions(part, { ...options, timeout });
    checkRequest(given);
    return this.#addNextRequest(new PartRequest(backend, part.name, given, this));
  }

  /**
   * Requests all locks in one step of the backend, except reentrant requests, which are served by
   * enclosing locks.
   * @param {Backend} backend @param {Several} several
   * @returns {Promise<boolean>} false if a lock is unavailable, or its request has failed
   */
  async #takeInOneStep(backend, { parts, options }) {
    /** @type {PartRequest[]} */
    const requests = [];
    /** @type {PartRequest[]} */
    const others = [];
    /** @type {Promise<boolean>[]} */
    const answers = [];
    let isRefused = false;
    for (let i = 0; i < parts.length; i++) {
      const request = new PartRequest(backend, parts[i].name, partOptions(parts[i], options), this);
      requests[i] = request;
      this.#pending[this.#pending.length] = request;
      if (request.backend === backend) {
        others[others.length] = request;
        continue;
      }
      answers[answers.length] = this.#awaitAnswer(request, request.acquire());
      if (request.state !== GRANTED) isRefused = true;
    }
    if (!isRefused) this.#requestTogether(backend, others, answers);
    let all = !isRefused;
    for (let i = 0; i < answers.length; i++) if (!(await answers[i])) all = false;
    this.#pending.length = 0;
    if (all) this.#taken = requests;
    return all;
  }

  /**
   * @param {Backend} backend @param {PartRequest[]} requests
   * @param {Promise<boolean>[]} answers gets the results of `#awaitAnswer`
   */
  #requestTogether(backend, requests, answers) {
    for (let i = 0; i < requests.length; i++) {
      answers[answers.length] = this.#awaitAnswer(requests[i], requests[i].makePromise());
    }
    backend.requestAll?.(requests);
    for (let i = 0; i < requests.length; i++) requests[i].armAndNotify(false);
    for (let i = 0; i < requests.length; i++) requests[i].resolveIfAnswered();
  }

  /**
   * Adds a granted request to `#taken`; an error ends the group.
   * @param {PartRequest} request @param {Promise<any>} answer
   * @returns {Promise<boolean>} whether the request was granted; never rejects
   */
  async #awaitAnswer(request, answer) {
    try {
      if (!(await answer)) return false;
      this.#taken[this.#taken.length] = request;
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    }
  }

  /** The locks that the group holds count as enclosing locks. @param {PartRequest} request */
  #addNextRequest(request) {
    const { inside } = request;
    for (let i = 0; inside && i < this.#taken.length; i++) {
      addOnce(inside, this.#taken[i].rootLock);
    }
    this.#pending[0] = request;
    return request;
  }

  /**
   * Ends the requests of the current wait, even granted ones, and rejects the call if its callback
   * runs. Harmless to repeat.
   * @param {unknown} error
   */
  fail(error) {
    this.#failure ??= { error };
    for (let i = 0; i < this.#pending.length; i++) {
      const request = this.#pending[i];
      request.withdraw();
      // This also ends a request that could not report its end because of a stack overflow.
      if (request.state === ENDED) request.fail(this.#failure.error);
    }
    // Each of these requests, which can be thousands, will call this function when its promise
    // rejects. These calls must not loop over the list again.
    this.#pending.length = 0;
    this.settle?.reject(this.#failure.error);
  }

  /** @returns {boolean} whether the group waited for any lock */
  handleTimeout() {
    /** @type {PartRequest[]} */
    const waiting = [];
    for (let i = 0; i < this.#pending.length; i++) {
      if (this.#pending[i].isPending) waiting[waiting.length] = this.#pending[i];
    }
    if (waiting.length === 0) return false;
    mostBlocked(waiting).endWait();
    return true;
  }

  /**
   * The first call asks for the holders of all requests, and then fails the most blocked request,
   * with which the group fails.
   * @param {PartRequest} request
   */
  async failWithHolders(request) {
    this.#late[this.#late.length] = request;
    if (this.#late.length > 1) return;
    await undefined;
    /** @type {Promise<void>[]} */
    const looks = [];
    for (let i = 0; i < this.#pending.length; i++)
      looks[i] = this.#pending[i].observer.limits.askForHolders();
    for (let i = 0; i < looks.length; i++) await looks[i];
    // The group may have failed for another reason meanwhile.
    if (!this.#failure) mostBlocked(this.#late).failWithTimeout();
  }

  /** Calls nothing but `undo`, because the stack may have overflowed: see contract.js. */
  #abandonPending() {
    for (let i = 0; i < this.#pending.length; i++) {
      const request = this.#pending[i];
      if (request.state !== PENDING && request.state !== GRANTED) continue;
      request.state = ENDED;
      const { unfinished } = request.backend;
      unfinished[unfinished.length] = request;
      request.backend.undo(request.tag);
    }
  }

  /** @returns {Promise<void> | void} a promise if the release of any lock takes longer */
  release() {
    /** @type {Promise<void> | undefined} */
    let all;
    for (let i = 0; i < this.#taken.length; i++) {
      const released = this.#taken[i].giveBack();
      if (released) all = awaitBoth(all, released);
    }
    return all;
  }

  /**
   * @param {Several} several @param {(locks: readonly LockHandle[]) => any} callback
   * @returns {Promise<any>} settles like the callback, or rejects as soon as a lock is lost
   */
  run(several, callback) {
    return new Promise((resolve, reject) => {
      this.settle = { resolve, reject };
      this.#runCallback(several, callback, resolve, reject);
    });
  }

  /**
   * Settles the promise once the locks are released; rejects with the loss if a lock was lost.
   * @param {Several} several @param {(locks: readonly LockHandle[]) => any} callback
   * @param {(value: any) => void} resolve @param {(error: any) => void} reject
   */
  async #runCallback(several, callback, resolve, reject) {
    let settle = resolve;
    let result;
    try {
      const locks = this.makeHandles(several);
      const counts = countsAsEnclosing(several.options);
      result = await (counts ? callEnclosed(this.#taken, callback, locks) : callback(locks));
    } catch (error) {
      settle = reject;
      result = error;
    }
    const released = this.release();
    if (released) await released;
    // The release may have found that a lock was lost; then this loss is the error.
    for (let i = 0; i < this.#taken.length; i++) {
      if (this.#taken[i].state === LOST) this.fail(this.#taken[i].lossReason());
    }
    settle(result);
  }

  /**
   * Clears `origin`, too.
   * @param {Several} several @param {string} [where] see createHandle
   * @returns {LockHandle[]} in the order of the call
   */
  makeHandles({ parts }, where) {
    this.origin = undefined;
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

/** Chooses the request that the group's error describes. @param {PartRequest[]} requests */
function mostBlocked(requests) {
  let most = requests[0];
  for (let i = 1; i < requests.length; i++) {
    if (blockedScore(requests[i]) > blockedScore(most)) most = requests[i];
  }
  return most;
}

/** The request that is most likely blocked has the highest score. @param {PartRequest} request */
function blockedScore(request) {
  const { backend, observer, options } = request;
  if (backend.progress?.(request) === 'grantedPartial') return 0;
  const { holders } = observer.limits;
  // Unknown holders are more likely to block this request than shared holders (2 below).
  if (!holders) return 3;
  const { list } = holders;
  if (list.length === 0) return 1;
  for (let i = 0; i < list.length; i++) {
    if (options.mode === 'exclusive' || list[i].mode === 'exclusive') return 4;
  }
  // Shared holders block a shared request only if it has a limit and too few units are free.
  return options.limit === undefined ? 2 : 4;
}

/** @param {Part} part @param {RequestOptions} options @returns {RequestOptions} */
function partOptions({ mode }, options) {
  const shared = mode === 'shared';
  const limit = shared ? options.limit : undefined;
  const weight = shared ? options.weight : undefined;
  return { ...options, mode, limit, weight };
}

/** @param {Promise<void> | undefined} one @param {Promise<void>} other */
async function awaitBoth(one, other) {
  await one;
  await other;
}

/** Locks that are held together until `release()` is called. */
class SeveralLocks {
  /** @param {LockHandle[]} locks in the order of the call */
  constructor(locks) {
    this.locks = freeze(locks);
  }

  /** @returns {void | Promise<void>} as for a LockHandle */
  release() {
    /** @type {Promise<void> | undefined} */
    let all;
    for (let i = 0; i < this.locks.length; i++) {
      const released = this.locks[i].release();
      if (released) all = awaitBoth(all, released);
    }
    return all;
  }

  [dispose]() {
    this.release();
  }

  async [asyncDispose]() {
    await this.release();
  }
}

/** @param {any} names @param {any} givenOptions @param {string} operation @returns {Several} */
function toSeveral(names, givenOptions, operation) {
  if (typeof names !== 'object' || typeof names?.[Symbol.iterator] !== 'function') {
    throw typeError(operation, `The names are ${describe(names)}; expected a list.`);
  }
  const options = toOptions(givenOptions, operation);
  refuseOthers(options, 'several', operation);
  /** @type {Part[]} */
  const asked = [];
  // The iterator is user code and may abort the signal, so the options are checked afterwards.
  for (const entry of names) {
    const named = typeof entry === 'object' && entry !== null;
    const givenName = named ? entry.name : entry;
    if (named && givenName === undefined)
      throw typeError(operation, "An entry of the list is an object without a 'name'.");
    const name = toDOMString(givenName, operation, 'A name');
    const given = named ? entry.mode : undefined;
    const mode = given === undefined ? options.mode : toLockMode(given, operation);
    checkName(name);
    asked[asked.length] = { name, mode, places: [asked.length] };
  }
  checkRequest(options);
  return { parts: mergeDuplicates(asked), options };
}

/** Changes the array: sorts it by the code units of the names. @param {Part[]} parts */
function mergeDuplicates(parts) {
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
 * @param {Backend} backend @param {Several} several @param {Function} callee see `originOf`
 * @returns {Promise<SeveralLocks | null>} null if `ifAvailable` is true and a lock is unavailable
 */
function acquireSeveral(backend, several, callee) {
  const where = findSite(callee, isWatched(several.options));
  return new Group(several.options, callee).take(backend, several, undefined, where);
}

/**
 * @param {Backend} backend @param {Several} several
 * @param {(locks: readonly LockHandle[] | null) => any} callback
 * @param {Function} callee see `originOf`
 */
const runWithSeveral = (backend, several, callback, callee) =>
  new Group(several.options, callee).take(backend, several, callback);

module.exports = { SeveralLocks, acquireSeveral, toSeveral, runWithSeveral };
