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
const { Announcer } = require('./announcer.js');
const { NO_TAG } = require('./contract.js');
const { TagTable } = require('./tag-table.js');
const { report, uncurry } = require('../platform/intrinsics.js');
const { threadId, threadName } = require('../platform/thread.js');

/** @import { Backend, LossReason, Requester, Thief } from './contract.js' */

const addTo = uncurry(Set.prototype.add);

/** @param {number} thread */
const clientPrefix = (thread) => `node-${process.pid}-${thread}-`;

/**
 * The agent of this thread: the requests that the addon knows, by tag, and the events about them
 * that are not announced yet. All native and host backends of the thread share it.
 */
class Agent {
  #requests = new TagTable();
  /** Counts the events of the exchange that were applied. */
  #taken = 0;
  announcer = new Announcer(addon.undo);
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

  /** Ends a request that only waited until it would be granted. @param {Requester} request */
  applyPass(request) {
    request.granted(0, 0);
    this.announcer.addAnswer(request);
    this.remove(request);
  }

  /**
   * Ends the lock, and queues the announcement of its loss.
   * @param {Requester} request @param {string | Thief} thief a client id if a string
   */
  applyTheft(request, thief) {
    if (typeof thief === 'string') request.stolen(thief);
    else request.stolen(thief.clientId, thief.pid);
    this.announcer.addLoss(request);
    this.remove(request);
  }

  /**
   * Ends the lock, and queues the announcement of its loss.
   * @param {Requester} request @param {LossReason} reason @param {() => Error} [cause]
   */
  applyLoss(request, reason, cause) {
    request.lost(reason, cause);
    this.announcer.addLoss(request);
    this.remove(request);
  }

  /** @param {unknown} backend */
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
   * Runs on an empty stack when the core wakes the thread: applies the events, calls `finish` of
   * unfinished requests, and announces.
   */
  #handleWakeUp() {
    this.announcer.forgetTick();
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
    this.announcer.announce(true);
  }
}

/**
 * The agent is a property of the addon's exports, so that a thread has only one: a test runner, for
 * example, may evaluate this file again, but gets the same addon.
 */
addon.agent ??= new Agent();
/** @type {Agent} */
const agent = addon.agent;
const { announcer, exchange } = agent;

module.exports = { agent, announcer, clientPrefix, exchange, threadName };
