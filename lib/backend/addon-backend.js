'use strict';

/**
 * The backend of both scopes of the addon, the locks of the process (native.js) and of the machine
 * (host.js). It adapts the calls of the addon to contract.js. Most calls return their result at
 * once. In the host scope, while another process changes the shared tables, or the file is not open
 * yet, the addon defers calls: it executes them later in their order, and an event delivers each
 * result.
 */

const {
  EVENT_COUNT,
  EVENT_NEWS,
  EVENT_THIEF,
  EVENT_TOKEN,
  LIMIT,
  MAX_PENDING,
  MODE,
  NO_MAXIMUM,
  OPTION,
  PRIORITY,
  STATUS,
  TAG,
  THIEF,
  TOKEN,
  WEIGHT,
  addon,
  calls,
} = require('./addon.js');
const { agent, announcer, exchange } = require('./agent.js');
const { FOR_EVER, NO_TAG } = require('./contract.js');
const { PendingReleases } = require('./pending-releases.js');
const { detailsOf, detailsWithState } = require('./snapshots.js');
const { bucketClosedError } = require('../platform/errors.js');
const { describeLock } = require('../platform/names.js');

/** @import { ManagerHandle, Snapshot } from './addon.js' */
/** @import { CycleEntry, Requester, Thief } from './contract.js' */

const {
  DEADLOCK,
  EXCLUSIVE,
  GRANTED,
  IF_AVAILABLE,
  LOST,
  MARKED,
  NEWS_FAILED,
  NEWS_GRANTED,
  NEWS_LOST,
  NEWS_NOT_AVAILABLE,
  NEWS_OTHER_LIMIT,
  NEWS_PASSED,
  NEWS_QUEUE_FULL,
  NEWS_STOLEN,
  NOT_AVAILABLE,
  NO_MEMORY,
  OK,
  OTHER_LIMIT,
  PASS,
  PASS_IF_AVAILABLE,
  PENDING,
  QUEUE_FULL,
  SHARED,
  STEAL,
  STOLEN,
  WAIT,
} = addon;

const options = {
  wait: WAIT,
  ifAvailable: IF_AVAILABLE,
  steal: STEAL,
  pass: PASS,
  passIfAvailable: PASS_IF_AVAILABLE,
};

/**
 * The bucket of a backend: what differs between the scopes.
 * @typedef {object} AddonBucket
 * @property {ManagerHandle} [handle] undefined until `open` was called
 * @property {() => ManagerHandle} open throws if the bucket cannot be opened
 * @property {(at: number) => string | Thief} thiefAt reads a thief at this offset in the exchange;
 *   the result means nothing if nothing was stolen
 * @property {(status: number, doing: string, name?: string) => Error} errorOf
 */

/** The status that the event stands for. @param {number} news @param {number} number */
function statusOfEvent(news, number) {
  if (news & NEWS_NOT_AVAILABLE) return NOT_AVAILABLE;
  if (news & NEWS_OTHER_LIMIT) return OTHER_LIMIT;
  if (news & NEWS_QUEUE_FULL) return QUEUE_FULL;
  return news & NEWS_FAILED ? number : LOST;
}

/** The members of `Backend` that both scopes have, and what these use. */
class AddonBackend {
  #bucket;
  #releases = new PendingReleases();
  /** @type {Error | undefined} */
  closed = undefined;
  unfinished = agent.unfinished;
  undo = addon.undo;
  /** See contract.js. */
  findsDeadlocks = false;

  /** @param {AddonBucket} bucket */
  constructor(bucket) {
    this.#bucket = bucket;
  }

  /** @param {Requester} request */
  request(request) {
    if (this.closed) {
      const { closed } = this;
      request.failed(() => closed);
      return;
    }
    const handle = this.#bucket.handle ?? this.#openFor(request);
    if (!handle) return;
    const { name, disposition } = request;
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    agent.add(request);
    exchange[TAG] = request.tag;
    exchange[MODE] = request.mode === 'shared' ? SHARED : EXCLUSIVE;
    exchange[OPTION] = disposition === 'wait' ? WAIT : options[disposition];
    let cycle;
    if (request.hasExtensions) cycle = this.#requestExtra(handle, request);
    else calls.request(handle, name);
    const status = exchange[STATUS];
    // One of the events can be the theft of this lock, so they are applied after the grant.
    if (status === GRANTED) request.granted(exchange[TOKEN], exchange[TOKEN + 1]);
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status !== GRANTED && status !== PENDING) {
      agent.remove(request);
      this.#applyEnd(request, status, exchange[LIMIT], cycle && detailsWithState(cycle));
    }
  }

  /** Fails the request if the bucket cannot be opened. @param {Requester} request */
  #openFor(request) {
    try {
      return this.#bucket.open();
    } catch (error) {
      request.failed(() => error);
      return undefined;
    }
  }

  /**
   * Passes the request with all its options to the addon; returns the cycle that it would close.
   * @param {ManagerHandle} handle @param {Requester} request
   */
  #requestExtra(handle, { name, inside, label, limit, weight, maxPending, priority }) {
    exchange[LIMIT] = limit ?? 0;
    exchange[WEIGHT] = weight ?? 1;
    exchange[MAX_PENDING] = maxPending ?? NO_MAXIMUM;
    exchange[PRIORITY] = priority ?? 0;
    const tags = this.findsDeadlocks && inside ? new Uint32Array(inside.length) : undefined;
    for (let i = 0; tags && inside && i < tags.length; i++) tags[i] = inside[i].tag;
    return addon.requestExtra(handle, name, label ?? '', tags);
  }

  /**
   * Ends a request that has no lock, according to `status`; OK means that it passed.
   * @param {Requester} request @param {number} status @param {number} limit of the name
   * @param {CycleEntry[]} [cycle] of a deadlock
   */
  #applyEnd(request, status, limit, cycle) {
    if (status === NOT_AVAILABLE) request.unavailable();
    else if (status === OK) request.granted(0, 0);
    else if (status === OTHER_LIMIT) request.otherLimit?.(limit);
    else if (status === QUEUE_FULL) request.queueFull?.();
    else if (cycle) request.deadlocked?.(cycle);
    else {
      const { name } = request;
      const doing = `requesting ${describeLock(name)}`;
      request.failed(() => this.#bucket.errorOf(status, doing, name));
    }
  }

  /** @param {Requester} request @param {number} at the offset of the event in the exchange */
  applyEvent(request, at) {
    const news = exchange[at + EVENT_NEWS];
    // The addon clears the events of a request that is undone. `finish` does the remaining work.
    if (news === 0) return;
    const number = exchange[at + EVENT_TOKEN];
    // The promise of a release is resolved before the request loses its tag: if the stack
    // overflows, the event is applied again only while the request has the tag.
    const releasing = this.#releases.resolverOf(request);
    releasing?.();
    const isGranted = (news & NEWS_GRANTED) !== 0;
    // If the event is only a grant, nothing that could overflow the stack may follow these two
    // calls: the event would be applied again, and grant a lock that was released in between.
    if (isGranted) {
      request.granted(number, exchange[at + EVENT_TOKEN + 1]);
      announcer.addAnswer(request);
    }
    // The event may also report that the lock was lost after the grant.
    if (news & NEWS_STOLEN) {
      agent.applyTheft(request, this.#bucket.thiefAt(at + EVENT_THIEF));
    } else if (news & NEWS_PASSED) {
      agent.applyPass(request);
    } else if (news & NEWS_LOST) {
      this.#applyDestruction(request);
    } else if (!isGranted) {
      if (!releasing) {
        this.#applyEnd(request, statusOfEvent(news, number), number);
        announcer.addAnswer(request);
      }
      agent.remove(request);
    }
    if (releasing) this.#releases.forget(request);
  }

  /** Ends a lock that was lost with the shared file. @param {Requester} lock */
  #applyDestruction(lock) {
    agent.applyLoss(lock, 'destroyed', () =>
      this.#bucket.errorOf(LOST, 'sharing locks with other processes'),
    );
  }

  /** Also releases the lock if it was granted meanwhile. @param {Requester} request */
  withdraw(request) {
    if (request.tag === NO_TAG) return;
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (request.tag === NO_TAG) return;
    exchange[TAG] = request.tag;
    calls.end();
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    this.#releases.resolve(request);
    agent.remove(request);
  }

  /**
   * If the lock has `keep`, the same call marks its name.
   * @param {Requester} lock @returns {void | Promise<void>}
   */
  release(lock) {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (lock.tag === NO_TAG) return undefined;
    exchange[TAG] = lock.tag;
    const { keep } = lock;
    if (keep === undefined) calls.release();
    else addon.releaseAndMark(keep === FOR_EVER ? -1 : Math.ceil(keep));
    const status = exchange[STATUS];
    if (status !== OK) return this.#finishRelease(lock, status);
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    agent.remove(lock);
    return undefined;
  }

  /** @param {Requester} lock @param {number} status of the release, not OK */
  #finishRelease(lock, status) {
    // One of the events can report the end of this release, so the promise is made first.
    const released = status === PENDING ? this.#releases.add(lock) : undefined;
    this.#applyAnswer(lock);
    if (status === LOST && lock.keep !== undefined) this.#applyDestruction(lock);
    else if (status !== PENDING && status !== STOLEN) agent.remove(lock);
    return released;
  }

  /**
   * Applies the events, and after them the theft if the last call has answered with one. Returns
   * the answer. It is read first, since events can run code that makes further calls.
   * @param {Requester} request that the call was about
   */
  #applyAnswer(request) {
    const status = exchange[STATUS];
    const thief = status === STOLEN ? this.#bucket.thiefAt(THIEF) : '';
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status === STOLEN) agent.applyTheft(request, thief);
    return status;
  }

  /** Whether the name of the held lock is marked (see `keep`). @param {Requester} lock */
  marked(lock) {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (lock.tag === NO_TAG) return false;
    exchange[TAG] = lock.tag;
    addon.isMarked();
    const status = this.#applyAnswer(lock);
    if (status !== OK && status !== MARKED && status !== STOLEN) {
      const doing = `checking whether ${describeLock(lock.name)} is marked as done`;
      throw this.#bucket.errorOf(status, doing);
    }
    return status === MARKED;
  }

  /**
   * @param {Requester} lock @param {string | undefined} text
   * @returns {boolean | Promise<boolean>}
   */
  publish(lock, text = '') {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (lock.tag === NO_TAG) return false;
    exchange[TAG] = lock.tag;
    addon.publish(text);
    const status = exchange[STATUS];
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status === STOLEN) agent.drainEvents(false);
    else if (status === NO_MEMORY) throw this.publishError(status, lock.name);
    return status === PENDING ? this.publishLater(lock, text) : status === OK;
  }

  /** @param {number} status @param {string} name */
  publishError(status, name) {
    const doing = `publishing what the holder of ${describeLock(name)} tells`;
    return this.#bucket.errorOf(status, doing);
  }

  /**
   * The host scope publishes as soon as it can; the process never has to wait.
   * @param {Requester} _lock @param {string} _text @returns {boolean | Promise<boolean>}
   */
  publishLater(_lock, _text) {
    return false;
  }

  /**
   * If another process is changing the shared tables, an event reports a theft or loss later.
   * @param {Requester} lock
   */
  catchUp(lock) {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (lock.tag === NO_TAG) return;
    exchange[TAG] = lock.tag;
    // For a held lock, this call only fetches the notifications of other processes.
    addon.abort();
    const status = exchange[STATUS];
    const thief = status === STOLEN ? this.#bucket.thiefAt(THIEF) : '';
    agent.drainEvents(false);
    if (status === STOLEN) agent.applyTheft(lock, thief);
    else if (status === LOST) this.#applyDestruction(lock);
  }

  announce() {
    if (announcer.count > 0) announcer.announce(false);
  }

  /** @param {Requester} request @returns {boolean} true if a tick will announce the grant */
  deferAnnouncement(request) {
    const mayWait = announcer.count > 0 || announcer.lastAnnounced !== undefined;
    return mayWait && announcer.defer(request);
  }

  /** Does everything at once; async only because other backends wait. */
  async close() {
    if (this.closed) return;
    this.closed = bucketClosedError();
    const { handle } = this.#bucket;
    if (!handle) return;
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    const requests = agent.requestsOf(this);
    /** @type {boolean[]} */
    const waiting = [];
    for (let i = 0; i < requests.length; i++) waiting[i] = requests[i].isPending;
    // Pending requests end first, so that the end of a lock grants none of them.
    for (let i = 0; i < requests.length; i++) {
      if (waiting[i] || !requests[i].isGranted)
        this.#closeWithoutLock(requests[i], waiting[i], this.closed);
    }
    const locks = agent.requestsOf(this);
    for (let i = 0; i < locks.length; i++) this.#closeLock(locks[i]);
    this.endJobs(handle);
    // The bucket stays open for a request that could not be ended because of a stack overflow.
    if (agent.requestsOf(this).length === 0) addon.close(handle);
    this.announce();
  }

  /**
   * Ends the queries of the host scope. Their calls apply events, which may report grants, so they
   * come after the end of the requests: see `close`.
   * @param {ManagerHandle} _handle of the bucket
   */
  endJobs(_handle) {}

  /**
   * Fails a request that was pending when the bucket was closed, even if the end of another one, or
   * another thread, has granted it. Ends a deferred release.
   * @param {Requester} request @param {boolean} wasPending @param {Error} error
   */
  #closeWithoutLock(request, wasPending, error) {
    if (request.tag === NO_TAG) {
      // The end of another request has let this one pass.
      if (wasPending && request.isGranted) request.failed(() => error);
      return;
    }
    exchange[TAG] = request.tag;
    calls.end();
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (wasPending) {
      // If it was granted, its answer is queued already.
      if (request.isPending) announcer.addAnswer(request);
      request.failed(() => error);
    } else if (this.#releases.resolverOf(request)) {
      // The deferred release may not have marked the name.
      if (request.keep !== undefined) agent.applyLoss(request, 'closed');
      this.#releases.resolve(request);
    }
    agent.remove(request);
  }

  /** Releases the lock, which then counts as lost or stolen. @param {Requester} lock */
  #closeLock(lock) {
    if (lock.tag === NO_TAG) return;
    exchange[TAG] = lock.tag;
    calls.release();
    if (exchange[STATUS] === PENDING) calls.end();
    const status = this.#applyAnswer(lock);
    if (status === LOST) this.#applyDestruction(lock);
    else if (status !== STOLEN) agent.applyLoss(lock, 'closed');
  }

  /**
   * Blocks the thread until the request is answered, at most for this time.
   * @param {Requester} request @param {number} milliseconds
   */
  wait(request, milliseconds) {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (request.tag === NO_TAG) return;
    exchange[TAG] = request.tag;
    const found = addon.wait(Math.ceil(milliseconds));
    const limit = exchange[LIMIT];
    // The order is the same as in `request`.
    if (exchange[STATUS] === GRANTED) request.granted(exchange[TOKEN], exchange[TOKEN + 1]);
    const status = this.#applyAnswer(request);
    if (status === PENDING || status === GRANTED || status === STOLEN) return;
    agent.remove(request);
    const cycle = status === DEADLOCK ? this.cycleOf(request, found) : undefined;
    this.#applyEnd(request, status, limit, cycle);
  }

  /**
   * Describes the deadlock of a thread that would block on itself.
   * @param {Requester} _request @param {Snapshot | undefined} found by the addon, in this scope
   * @returns {CycleEntry[]}
   */
  cycleOf(_request, found) {
    return found ? detailsWithState(found) : [];
  }

  /** Reads the holders at once. @param {string} name */
  readHolders(name) {
    const { handle } = this.#bucket;
    if (this.closed || !handle) return undefined;
    const snapshot = addon.holders(handle, name);
    return typeof snapshot === 'number' ? undefined : detailsOf(snapshot);
  }
}

module.exports = { AddonBackend };
