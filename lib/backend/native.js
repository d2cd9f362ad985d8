'use strict';

/** Adapts the native core, whose locks the threads of the process share, to contract.js. */

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
  valueOrThrow,
  errorOf,
} = require('./addon.js');
const { agent, announcer, clientPrefix, exchange } = require('./agent.js');
const { NO_TAG } = require('./contract.js');
const { findBlockers } = require('./blockers.js');
const { detailedStateOf, detailsOf, detailsWithState, stateOf } = require('./snapshots.js');
const { bucketClosedError } = require('../platform/errors.js');
const { describeLock } = require('../platform/names.js');

/** @import { Backend, Requester } from './contract.js' */

const {
  EXCLUSIVE,
  GRANTED,
  IF_AVAILABLE,
  MARKED,
  NEWS_GRANTED,
  NEWS_PASSED,
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

/** Reading these functions from the addon at each request would take longer than the request. */
const { abort: abortRequest, release: releaseLock, request: requestLock } = addon;

const options = {
  wait: WAIT,
  ifAvailable: IF_AVAILABLE,
  steal: STEAL,
  pass: PASS,
  passIfAvailable: PASS_IF_AVAILABLE,
};

/** The locks of one storage bucket. @implements {Backend} */
class NativeBackend {
  #manager;

  /** @param {string} bucket its id, see bucket-ids.js */
  constructor(bucket) {
    this.id = `process ${bucket}`;
    /** @type {Error | undefined} */
    this.closed = undefined;
    this.#manager = valueOrThrow(addon.openManager(bucket), 'opening a storage bucket');
  }

  /** @param {Requester} request */
  request(request) {
    if (this.closed) {
      const { closed } = this;
      request.failed(() => closed);
      return;
    }
    const { name, disposition } = request;
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    agent.add(request);
    exchange[TAG] = request.tag;
    exchange[MODE] = request.mode === 'shared' ? SHARED : EXCLUSIVE;
    exchange[OPTION] = disposition === 'wait' ? WAIT : options[disposition];
    let cycle;
    if (request.hasExtensions) cycle = this.#requestExtra(request);
    else requestLock(this.#manager, name);
    const status = exchange[STATUS];
    // One of the events can be the theft of this lock, so they are applied after the grant.
    if (status === GRANTED) request.granted(exchange[TOKEN], exchange[TOKEN + 1]);
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status !== GRANTED && status !== PENDING) {
      agent.remove(request);
      if (status === NOT_AVAILABLE) request.unavailable();
      else if (status === OK) request.granted(0, 0);
      else if (status === OTHER_LIMIT) request.otherLimit?.(exchange[LIMIT]);
      else if (status === QUEUE_FULL) request.queueFull?.();
      else if (cycle) request.deadlocked?.(detailsWithState(cycle));
      else request.failed(() => errorOf(status, `requesting ${describeLock(name)}`));
    }
  }

  /**
   * Passes the request with all its options to the addon; returns the cycle that it would close.
   * @param {Requester} request
   */
  #requestExtra({ name, inside, label, limit, weight, maxPending, priority }) {
    exchange[LIMIT] = limit ?? 0;
    exchange[WEIGHT] = weight ?? 1;
    exchange[MAX_PENDING] = maxPending ?? NO_MAXIMUM;
    exchange[PRIORITY] = priority ?? 0;
    const tags = inside && new Uint32Array(inside.length);
    for (let i = 0; tags && inside && i < tags.length; i++) tags[i] = inside[i].tag;
    return addon.requestExtra(this.#manager, name, label ?? '', tags);
  }

  /** Also releases the lock if it was granted meanwhile. @param {Requester} request */
  withdraw(request) {
    if (request.tag === NO_TAG) return;
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    exchange[TAG] = request.tag;
    abortRequest();
    if (exchange[STATUS] !== OK) releaseLock();
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    agent.remove(request);
  }

  /** If the lock has `keep`, the same call marks its name. @param {Requester} lock */
  release(lock) {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (lock.tag === NO_TAG) return;
    exchange[TAG] = lock.tag;
    const { keep } = lock;
    let status;
    if (keep === undefined) {
      releaseLock();
      status = exchange[STATUS];
    } else {
      status = addon.releaseAndMark(Math.ceil(keep));
    }
    const thief = status === STOLEN ? thiefAt(THIEF) : '';
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status === STOLEN) agent.applyTheft(lock, thief);
    else agent.remove(lock);
  }

  /** Whether the name of the held lock is marked (see `keep`). @param {Requester} lock */
  marked(lock) {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (lock.tag === NO_TAG) return false;
    exchange[TAG] = lock.tag;
    const status = addon.isMarked();
    const thief = status === STOLEN ? thiefAt(THIEF) : '';
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status === STOLEN) agent.applyTheft(lock, thief);
    else if (status !== OK && status !== MARKED)
      throw errorOf(status, `checking whether ${describeLock(lock.name)} is marked as done`);
    return status === MARKED;
  }

  /** @param {Requester} lock @param {string | undefined} text */
  publish(lock, text = '') {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (lock.tag === NO_TAG) return false;
    exchange[TAG] = lock.tag;
    const status = addon.publish(text);
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status === STOLEN) agent.drainEvents(false);
    else if (status === NO_MEMORY)
      throw errorOf(status, `publishing what the holder of ${describeLock(lock.name)} tells`);
    return status === OK;
  }

  /** @param {Requester} request @param {number} at the offset of the event in the exchange */
  applyEvent(request, at) {
    const news = exchange[at + EVENT_NEWS];
    if (news & NEWS_GRANTED) {
      request.granted(exchange[at + EVENT_TOKEN], exchange[at + EVENT_TOKEN + 1]);
      announcer.addAnswer(request);
    }
    if (news & NEWS_STOLEN) agent.applyTheft(request, thiefAt(at + EVENT_THIEF));
    else if (news & NEWS_PASSED) agent.applyPass(request);
  }

  /** Applies the events of all requests of the thread, and announces nothing. */
  catchUp() {
    agent.drainEvents(false);
  }

  announce() {
    if (announcer.count > 0) announcer.announce(false);
  }

  /** @param {Requester} request @returns {boolean} true if a tick will announce the grant */
  deferAnnouncement(request) {
    const mayWait = announcer.count > 0 || announcer.lastAnnounced !== undefined;
    return mayWait && announcer.defer(request);
  }

  findsDeadlocks = true;
  unfinished = agent.unfinished;
  undo = addon.undo;

  /** Does everything at once; async only because other backends wait. */
  async close() {
    if (this.closed) return;
    this.closed = bucketClosedError();
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    // Pending requests end first, so that the end of a lock grants none of them.
    const requests = agent.requestsOf(this);
    for (let i = 0; i < requests.length; i++) closePending(requests[i], this.closed);
    // Some requests may have been granted without this thread's knowledge. The events of these
    // grants are applied now, because the release of the locks would drop them.
    agent.drainEvents(false);
    const locks = agent.requestsOf(this);
    for (let i = 0; i < locks.length; i++) closeLock(locks[i]);
    // The manager stays open for a request that could not be ended because of a stack overflow.
    if (agent.requestsOf(this).length === 0) addon.closeManager(this.#manager);
    this.announce();
  }

  /**
   * Blocks the thread until the request is answered, at most for this time.
   * @param {Requester} request @param {number} milliseconds
   */
  wait(request, milliseconds) {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    exchange[TAG] = request.tag;
    const cycle = addon.wait(Math.ceil(milliseconds));
    const status = exchange[STATUS];
    const thief = status === STOLEN ? thiefAt(THIEF) : '';
    // The order is the same as in `request`.
    if (status === GRANTED) request.granted(exchange[TOKEN], exchange[TOKEN + 1]);
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status === PENDING || status === GRANTED) return;
    if (status === STOLEN) {
      agent.applyTheft(request, thief);
      return;
    }
    agent.remove(request);
    if (cycle) request.deadlocked?.(detailsWithState(cycle));
    else request.failed(() => errorOf(status, `waiting for ${describeLock(request.name)}`));
  }

  /** @param {string} [name] */
  query(name) {
    return stateOf(this.#snapshot(name));
  }

  /** @param {string} [name] */
  details(name) {
    return detailedStateOf(this.#snapshot(name));
  }

  /** @param {string} [name] */
  #snapshot(name) {
    if (this.closed) throw this.closed;
    const snapshot =
      name === undefined
        ? addon.snapshot(this.#manager)
        : addon.snapshotOf(this.#manager, name, true);
    return valueOrThrow(snapshot, 'taking a snapshot of the lock state');
  }

  /** @param {string} name @param {boolean} [waits] see contract.js */
  holders(name, waits = false) {
    if (this.closed) return undefined;
    const snapshot = addon.snapshotOf(this.#manager, name, false);
    if (typeof snapshot === 'number') return undefined;
    const holders = detailsOf(snapshot);
    return waits
      ? findBlockers(holders, agent.clientId, () => agent.tokensOf(this, name))
      : holders;
  }
}

/** @param {number} at the offset of the thief in the exchange */
const thiefAt = (at) => clientPrefix(exchange[at]) + exchange[at + 1];

/**
 * Fails the request if it is pending; a lock that was granted meanwhile remains for `closeLock`.
 * @param {Requester} request @param {Error} error if the request is pending
 */
function closePending(request, error) {
  if (request.tag === NO_TAG) return;
  exchange[TAG] = request.tag;
  abortRequest();
  const pending = exchange[STATUS] === OK;
  if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
  if (!pending) return;
  agent.remove(request);
  request.failed(() => error);
  announcer.addAnswer(request);
}

/** Releases the lock, which then counts as lost or stolen. @param {Requester} lock */
function closeLock(lock) {
  if (lock.tag === NO_TAG) return;
  exchange[TAG] = lock.tag;
  releaseLock();
  const stolen = exchange[STATUS] === STOLEN;
  const thief = stolen ? thiefAt(THIEF) : '';
  if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
  if (stolen) agent.applyTheft(lock, thief);
  else agent.applyLoss(lock, 'closed');
}

const { liveBlocks } = addon;

module.exports = { NativeBackend, agent, liveBlocks };
