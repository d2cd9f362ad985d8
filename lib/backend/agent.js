'use strict';

/** This thread's agent: its requests by tag, and its events. */

const process = require('node:process');
const {
  EVENTS,
  EVENT_CAPACITY,
  EVENT_COUNT,
  EVENT_SIZE,
  STATUS,
  TAG,
  THIEF,
  addon,
  checked,
} = require('./addon.js');
const { NO_TAG } = require('./contract.js');
const { nextTick, report } = require('../platform/intrinsics.js');
const { threadId, threadName } = require('../platform/thread.js');

/** @typedef {import('./contract.js').Backend} Backend */
/** @typedef {import('./contract.js').Requester} Requester */

const { NEWS_OF_HOST, WLK_NEWS_GRANTED, WLK_NEWS_STOLEN, WLK_OK, WLK_STOLEN } = addon;

/** A list or table smaller than this is kept when the last request leaves it. */
const LEAST_TO_DROP = 1024;

/** @param {number} thread its id */
const clientPrefix = (thread) => `node-${process.pid}-${thread}-`;

/** @param {Requester} request */
const tellGrant = (request) => request.answer();
/** @param {Requester} lock */
const tellLossInCall = (lock) => lock.lose(false);
/** @param {Requester} lock */
const tellLossFromEvents = (lock) => lock.lose(true);

/** Requests of which something is to be told, in order. */
class Untold {
  /** Longer than what it holds: to truncate it is slow. @type {(Requester | undefined)[]} */
  #requests = [];
  #first = 0;
  #end = 0;

  get isEmpty() {
    return this.#first === this.#end;
  }

  /** @param {Requester} request */
  add(request) {
    this.#requests[this.#end] = request;
    this.#end++;
  }

  /**
   * @param {(request: Requester) => void} what
   * @param {boolean} hasStack
   */
  tellAll(what, hasStack) {
    while (!this.isEmpty) this.tellOne(what, hasStack);
  }

  /**
   * What cannot be told for want of stack stays, to be told from the event loop. What cannot be
   * told there keeps nobody else from being told.
   * @param {(request: Requester) => void} what tells it; harmless to call again
   * @param {boolean} hasStack
   */
  tellOne(what, hasStack) {
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
 * This thread's agent: the requests that the core knows, by tag, and the events it has for them.
 */
class Agent {
  /** By tag: a request, or the next free tag. @type {(Requester | number)[]} */
  #requests = [];
  #firstFree = 0;
  #live = 0;
  /** How many events of the exchange were taken. */
  #taken = 0;
  /** How many events have not been told, or not all of what they lead to. */
  untold = 0;
  /** Granted or failed, and not told yet, oldest first. */
  #grants = new Untold();
  /** Stolen or lost, and not told yet, oldest first. */
  #losses = new Untold();
  #telling = false;
  /** Whether the next grant is told in a tick of its own. */
  #ticking = false;
  /** See contract.js. @type {Requester[]} */
  unfinished = [];
  /**
   * Takes an event of the host scope, see host.js: about what has its tag, at so much in the
   * exchange.
   * @type {(request: any, at: number) => void}
   */
  takeHostNews = () => {};
  /** The numbers of the next call, and then the events it left. */
  exchange = new Uint32Array(EVENTS + EVENT_SIZE * EVENT_CAPACITY);
  #names = 0;

  constructor() {
    const prefix = clientPrefix(threadId);
    const drain = () => this.#drain();
    this.clientId = checked(
      addon.start(prefix, threadId, threadName, this.exchange.buffer, drain),
      'starting the agent of this thread',
    );
  }

  /** @returns {string} a name that is nobody else's in the process */
  uniqueName() {
    return `${this.clientId} ${++this.#names}`;
  }

  /**
   * @param {Requester} request gets a tag that is nobody else's until `remove`
   */
  add(request) {
    const tag = this.#firstFree;
    const next = this.#requests[tag];
    this.#firstFree = next === undefined ? tag + 1 : /** @type {number} */ (next);
    this.#requests[tag] = request;
    this.#live++;
    request.tag = tag;
  }

  /** @param {Requester} request gives its tag back, if it has one */
  remove(request) {
    const { tag } = request;
    if (tag === NO_TAG || this.#requests[tag] !== request) return;
    request.tag = NO_TAG;
    this.#requests[tag] = this.#firstFree;
    this.#firstFree = tag;
    if (--this.#live > 0 || this.#requests.length < LEAST_TO_DROP) return;
    // A burst is over: its memory goes back.
    this.#requests = [];
    this.#firstFree = 0;
  }

  /**
   * Takes the events that a call of the addon left, and those there was no room for. Comes right
   * after each call, and before one if there was no stack for it then.
   */
  collect() {
    let count = this.exchange[EVENT_COUNT];
    while (count > 0) {
      while (this.#taken < count) {
        this.#take(EVENTS + EVENT_SIZE * this.#taken);
        this.#taken++;
      }
      this.#taken = 0;
      this.exchange[EVENT_COUNT] = 0;
      // A call that fails early leaves the number as it is.
      if (count < EVENT_CAPACITY) return;
      addon.drain(false);
      count = this.exchange[EVENT_COUNT];
    }
  }

  /** @param {number} at where in the exchange the event is */
  #take(at) {
    const request = this.#requests[this.exchange[at]];
    const news = this.exchange[at + 1];
    // It ended in an earlier call whose caller ran out of stack.
    if (typeof request !== 'object') return;
    if (news >= NEWS_OF_HOST) {
      this.takeHostNews(request, at);
      return;
    }
    if (news & WLK_NEWS_GRANTED) {
      request.granted(this.exchange[at + 4], this.exchange[at + 5]);
      this.answered(request);
    }
    if (news & WLK_NEWS_STOLEN) this.stolen(request, this.thief(at + 2));
  }

  /**
   * @param {number} at where in the exchange its thread and number are
   * @returns {string} its client id
   */
  thief(at) {
    return clientPrefix(this.exchange[at]) + this.exchange[at + 1];
  }

  /** @param {Requester} request was granted or failed, and is to be told */
  answered(request) {
    this.#grants.add(request);
    this.untold++;
  }

  /**
   * @param {Requester} request
   * @param {string} thief
   */
  stolen(request, thief) {
    request.stolen(thief);
    this.#losses.add(request);
    this.untold++;
    this.remove(request);
  }

  /**
   * @param {Requester} request a lock that is lost otherwise than by a theft
   * @param {import('./contract.js').LossReason} reason
   * @param {Error} [cause]
   */
  lost(request, reason, cause) {
    request.lost(reason, cause);
    this.#losses.add(request);
    this.untold++;
    this.remove(request);
  }

  /**
   * @param {Backend} backend
   * @returns {Requester[]} its requests that have a tag
   */
  requestsOf(backend) {
    /** @type {Requester[]} */
    const all = [];
    for (let tag = 0; tag < this.#requests.length; tag++) {
      const request = this.#requests[tag];
      if (typeof request === 'object' && request.backend === backend) all[all.length] = request;
    }
    return all;
  }

  /**
   * Ends all requests of a backend of the process: first those that are pending, so that none of
   * them is granted by the end of another one.
   * @param {Backend} backend
   * @param {Error} error for those that are pending
   */
  endAll(backend, error) {
    const requests = this.requestsOf(backend);
    for (let i = 0; i < requests.length; i++) this.#endPending(requests[i], error);
    const locks = this.requestsOf(backend);
    for (let i = 0; i < locks.length; i++) this.#endLock(locks[i]);
  }

  /**
   * @param {Requester} request ended if it is pending
   * @param {Error} error
   */
  #endPending(request, error) {
    if (request.tag === NO_TAG) return;
    exchange[TAG] = request.tag;
    addon.abort();
    const pending = exchange[STATUS] === WLK_OK;
    if (exchange[EVENT_COUNT] !== 0) this.collect();
    if (!pending) return;
    this.remove(request);
    request.failed(error);
    this.answered(request);
  }

  /** @param {Requester} lock */
  #endLock(lock) {
    if (lock.tag === NO_TAG) return;
    exchange[TAG] = lock.tag;
    addon.release();
    const stolen = exchange[STATUS] === WLK_STOLEN;
    const thief = stolen ? this.thief(THIEF) : '';
    if (exchange[EVENT_COUNT] !== 0) this.collect();
    if (stolen) this.stolen(lock, thief);
    else this.lost(lock, 'closed');
  }

  /**
   * Tells all losses, and one grant; other grants each in a tick of its own (4.4: each is a task).
   * @param {boolean} hasStack called from the event loop or a tick, not within a call of users'
   * @param {(lock: Requester) => void} tellLoss
   */
  tell(hasStack = false, tellLoss = tellLossInCall) {
    if (this.#telling) return;
    this.#telling = true;
    try {
      this.#losses.tellAll(tellLoss, hasStack);
      if (!this.#ticking) {
        this.#grants.tellOne(tellGrant, hasStack);
        // Who heard of the grant may have stolen.
        this.#losses.tellAll(tellLoss, hasStack);
        if (!this.#grants.isEmpty) {
          this.#tick();
          this.#ticking = true;
        }
      }
    } catch {
      // No stack for it: once more from the event loop.
      addon.undo(NO_TAG);
    } finally {
      this.#telling = false;
      if (this.#losses.isEmpty && this.#grants.isEmpty) this.untold = 0;
    }
  }

  /**
   * The microtasks of a callback run before the next one is called: those that run now come before
   * a tick, and one tick does not follow another without the microtasks in between.
   */
  async #tick() {
    await undefined;
    nextTick(() => {
      this.#ticking = false;
      this.tell(true);
    });
  }

  /** On an empty stack. */
  #drain() {
    this.collect();
    addon.drain(true);
    this.collect();
    const { unfinished } = this;
    for (let i = 0; i < unfinished.length; i++) {
      try {
        unfinished[i].finish();
      } catch (error) {
        report(error);
      }
    }
    unfinished.length = 0;
    this.tell(true, tellLossFromEvents);
  }
}

/**
 * The agent hangs on the addon's exports, so that there is one for each, however often this file is
 * evaluated: a module registry of a test runner evaluates it anew but gets the same addon.
 */
addon.agent ??= new Agent();
/** @type {Agent} */
const agent = addon.agent;
const { exchange } = agent;

module.exports = { agent, exchange, threadName };
