'use strict';

const process = require('node:process');
const {
  EVENTS,
  EVENT_CAPACITY,
  EVENT_COUNT,
  EVENT_SIZE,
  EVENT_TAG,
  addon,
  valueOrThrow,
} = require('./addon.js');
const { NO_TAG } = require('./contract.js');
const { TagTable } = require('./tag-table.js');
const { nextTick, report, callInMicrotask, uncurry } = require('../platform/intrinsics.js');
const { threadId, threadName } = require('../platform/thread.js');

/** @import { Backend, LossReason, Requester, Thief } from './contract.js' */

const addTo = uncurry(Set.prototype.add);

/** Emptying a shorter list would save too little memory to be worth the work. */
const LEAST_TO_DROP = 1024;

/** @param {number} thread */
const clientPrefix = (thread) => `node-${process.pid}-${thread}-`;

/** @param {Requester} request */
const announceAnswer = (request) => request.announceAnswer();
/** @param {Requester} lock */
const announceLossInCall = (lock) => lock.announceLoss(false);
/** @param {Requester} lock */
const announceLossFromEvents = (lock) => lock.announceLoss(true);

/** A queue of requests that must still be announced to users. */
class Unannounced {
  /** Shrinks only once the queue is empty. @type {(Requester | undefined)[]} */
  #requests = [];
  #first = 0;
  #end = 0;

  get isEmpty() {
    return this.#first === this.#end;
  }

  get first() {
    return this.#requests[this.#first];
  }

  /** @param {Requester} request */
  add(request) {
    this.#requests[this.#end] = request;
    this.#end++;
  }

  /** @param {(request: Requester) => void} what @param {boolean} hasStack */
  announceAll(what, hasStack) {
    while (!this.isEmpty) this.announceFirst(what, hasStack);
  }

  /**
   * Within a call from user code, an error is a stack overflow: the request stays in the queue, and
   * the event loop announces it later. In the event loop or a tick, an error is only reported, and
   * the queue goes on with the next request.
   * @param {(request: Requester) => void} what announces a request, and may be called again
   * @param {boolean} hasStack see `announce` of Agent
   */
  announceFirst(what, hasStack) {
    if (this.isEmpty) return;
    try {
      what(/** @type {Requester} */ (this.#requests[this.#first]));
    } catch (error) {
      if (!hasStack) throw error;
      report(error);
    }
    this.#requests[this.#first] = undefined;
    this.#first++;
    if (!this.isEmpty) return;
    if (this.#end >= LEAST_TO_DROP) this.#requests = [];
    this.#first = 0;
    this.#end = 0;
  }
}

/**
 * The agent of this thread: the requests that the addon knows, by tag, and the events about them
 * that are not announced yet. All native and host backends of the thread share it.
 */
class Agent {
  #requests = new TagTable();
  /** Counts the events of the exchange that were applied. */
  #taken = 0;
  /** Counts the announcements that were queued. Once all of them are done, it is set to 0. */
  unannounced = 0;
  /** The requests that were granted, are unavailable, or failed. */
  #grants = new Unannounced();
  #losses = new Unannounced();
  /** The request whose grant was announced last. @type {Requester | undefined} */
  lastAnnounced;
  #isAnnouncing = false;
  /** Whether a tick will announce the next grant. */
  #ticking = false;
  /** See contract.js. @type {Requester[]} */
  unfinished = [];
  /** Holds the arguments of the next call of the addon, then its results and events. */
  exchange = new Uint32Array(EVENTS + EVENT_SIZE * EVENT_CAPACITY);
  #names = 0;

  constructor() {
    const prefix = clientPrefix(threadId);
    const drain = () => this.#handleWakeUp();
    this.clientId = valueOrThrow(
      addon.start(prefix, threadId, threadName, this.exchange.buffer, drain),
      'starting the agent of this thread',
    );
  }

  /** The name is unique in the process. */
  makeUniqueName() {
    return `${this.clientId} ${++this.#names}`;
  }

  /** Gives the request a tag of its own. @param {Requester} request */
  add(request) {
    this.#requests.add(request);
  }

  /** Takes the tag back, if the request has one. @param {Requester} request */
  remove(request) {
    this.#requests.remove(request);
  }

  /**
   * Applies the events that a call of the addon left in the exchange, and then the events that did
   * not fit into it. It must run after each call, and before a call if a stack overflow left events
   * unapplied. contract.js says what must not be called meanwhile.
   * @throws {unknown} stack overflow; the event loop then applies the remaining events
   */
  applyEvents() {
    try {
      this.#applyExchange();
    } catch (error) {
      // Makes the event loop apply the rest. It undoes no request: the caller may have none.
      addon.undo(NO_TAG);
      throw error;
    }
  }

  /** If the exchange is full, it also fetches and applies the further events of the addon. */
  #applyExchange() {
    let count = this.exchange[EVENT_COUNT];
    while (count > 0) {
      while (this.#taken < count) {
        this.#applyEvent(EVENTS + EVENT_SIZE * this.#taken);
        this.#taken++;
      }
      this.#taken = 0;
      // If the next call fails early, the addon does not set the count. These events must not be
      // applied again then.
      this.exchange[EVENT_COUNT] = 0;
      if (count < EVENT_CAPACITY) return;
      addon.drain(false);
      count = this.exchange[EVENT_COUNT];
    }
  }

  /** @param {number} at the offset of the event in the exchange */
  #applyEvent(at) {
    const request = this.#requests.requestWith(this.exchange[at + EVENT_TAG]);
    // A tag without a request belonged to a request that ended in a stack overflow.
    if (request) /** @type {any} */ (request.backend).applyEvent(request, at);
  }

  /**
   * Applies the events in the exchange, and then those that the addon still has.
   * @param {boolean} woken whether this is a wake-up; then a later event causes another wake-up
   */
  drainEvents(woken) {
    this.applyEvents();
    addon.drain(woken);
    this.applyEvents();
  }

  /** @param {Requester} request was granted, is unavailable, or failed */
  queueAnswer(request) {
    this.#grants.add(request);
    this.unannounced++;
  }

  /** Ends a request that only waited until it would be granted. @param {Requester} request */
  applyPass(request) {
    request.granted(0, 0);
    this.queueAnswer(request);
    this.remove(request);
  }

  /**
   * Ends the lock, and queues the announcement of its loss.
   * @param {Requester} request @param {string | Thief} thief a client id if a string
   */
  applyTheft(request, thief) {
    if (typeof thief === 'string') request.stolen(thief);
    else request.stolen(thief.clientId, thief.pid);
    this.#losses.add(request);
    this.unannounced++;
    this.remove(request);
  }

  /**
   * Ends the lock, and queues the announcement of its loss.
   * @param {Requester} request @param {LossReason} reason @param {() => Error} [cause]
   */
  applyLoss(request, reason, cause) {
    request.lost(reason, cause);
    this.#losses.add(request);
    this.unannounced++;
    this.remove(request);
  }

  /** @param {Backend} backend */
  requestsOf(backend) {
    return this.#requests.requestsOf(backend);
  }

  /** See TagTable. @param {Backend} backend @param {string} name */
  requestsOn(backend, name) {
    return this.#requests.requestsOn(backend, name);
  }

  /**
   * The tokens of the locks on the name that this thread knows to be its own.
   * @param {Backend} backend @param {string} name
   */
  tokensOf(backend, name) {
    /** @type {Set<bigint>} */
    const tokens = new Set();
    const requests = this.requestsOn(backend, name);
    for (let i = 0; i < requests.length; i++) addTo(tokens, /** @type {any} */ (requests[i]).token);
    return tokens;
  }

  /**
   * See contract.js.
   * @param {Requester} request
   * @returns {boolean} true if the answer was queued behind others; a tick will announce it
   */
  deferAnnouncement(request) {
    const isFirst = this.#grants.isEmpty;
    if (isFirst) this.#forgetDelivered();
    if (isFirst && this.lastAnnounced === undefined) return false;
    this.queueAnswer(request);
    if (isFirst) this.#announceInTick();
    return true;
  }

  /** Clears `lastAnnounced` once user code was called with that answer. */
  #forgetDelivered() {
    if (this.lastAnnounced?.isDelivered) this.lastAnnounced = undefined;
  }

  /**
   * Announces all losses and one grant. Each further grant has a tick of its own, because section
   * 4.4 of the specification queues a task for each grant.
   * @param {boolean} hasStack true in the event loop or a tick, false within a call from user code
   * @param {(lock: Requester) => void} announceLoss
   */
  announce(hasStack = false, announceLoss = announceLossInCall) {
    if (this.#isAnnouncing) return;
    this.#isAnnouncing = true;
    try {
      this.#losses.announceAll(announceLoss, hasStack);
      if (!this.#ticking) {
        if (!this.#grants.isEmpty) this.lastAnnounced = this.#grants.first;
        this.#grants.announceFirst(announceAnswer, hasStack);
        // A listener may have stolen locks.
        this.#losses.announceAll(announceLoss, hasStack);
        if (!this.#grants.isEmpty) this.#announceInTick();
      }
    } catch {
      // The stack overflowed, so the event loop must try again.
      addon.undo(NO_TAG);
    } finally {
      this.#isAnnouncing = false;
      if (this.#losses.isEmpty && this.#grants.isEmpty) this.unannounced = 0;
    }
  }

  #announceInTick() {
    if (this.#ticking) return;
    callInMicrotask(this.#queueTick);
    this.#ticking = true;
  }

  /**
   * The microtasks of a callback must run before the next callback is called. So this function is
   * called in a microtask: the tick that it queues runs after all microtasks, and Node.js runs the
   * microtasks again before the next tick.
   */
  #queueTick = () => {
    nextTick(() => {
      this.#ticking = false;
      this.announce(true);
    });
  };

  /**
   * Runs on an empty stack when the core wakes the thread: applies the events, calls `finish` of
   * unfinished requests, and announces.
   */
  #handleWakeUp() {
    // All ticks run before the event loop continues. So a tick that still seems to be queued was
    // lost in a stack overflow.
    this.#ticking = false;
    this.drainEvents(true);
    const { unfinished } = this;
    for (let i = 0; i < unfinished.length; i++) {
      try {
        unfinished[i].finish();
      } catch (error) {
        report(error);
      }
    }
    unfinished.length = 0;
    this.announce(true, announceLossFromEvents);
  }
}

/**
 * The agent is a property of the addon's exports, so that a thread has only one: a test runner, for
 * example, may evaluate this file again, but gets the same addon.
 */
addon.agent ??= new Agent();
/** @type {Agent} */
const agent = addon.agent;
const { exchange } = agent;

module.exports = { agent, clientPrefix, exchange, threadName };
