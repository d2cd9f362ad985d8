'use strict';

/** This thread's agent: its requests by tag, and its events. */

const process = require('node:process');
const {
  EVENTS,
  EVENT_CAPACITY,
  EVENT_COUNT,
  EVENT_SIZE,
  EVENT_TAG,
  addon,
  checked,
} = require('./addon.js');
const { NO_TAG } = require('./contract.js');
const { nextTick, report, soon, uncurry } = require('../platform/intrinsics.js');
const { threadId, threadName } = require('../platform/thread.js');

/** @typedef {import('./contract.js').Backend} Backend */
/** @typedef {import('./contract.js').Requester} Requester */

/** A method that nobody can replace. */
const addTo = uncurry(Set.prototype.add);

/** A list or table smaller than this is kept when the last request leaves it. */
const LEAST_TO_DROP = 1024;

/** @param {number} thread its id */
const clientPrefix = (thread) => `node-${process.pid}-${thread}-`;

/** @param {Requester} request */
const announceAnswer = (request) => request.announceAnswer();
/** @param {Requester} lock */
const announceLossInCall = (lock) => lock.announceLoss(false);
/** @param {Requester} lock */
const announceLossFromEvents = (lock) => lock.announceLoss(true);

/** Requests of which something is to be told, in order. */
class Unannounced {
  /** Longer than what it holds: to truncate it is slow. @type {(Requester | undefined)[]} */
  #requests = [];
  #first = 0;
  #end = 0;

  get isEmpty() {
    return this.#first === this.#end;
  }

  /** The next one to be told. */
  get first() {
    return this.#requests[this.#first];
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
  announceAll(what, hasStack) {
    while (!this.isEmpty) this.announceOne(what, hasStack);
  }

  /**
   * What cannot be told for want of stack stays, to be told from the event loop. What cannot be
   * told there keeps nobody else from being told.
   * @param {(request: Requester) => void} what tells it; harmless to call again
   * @param {boolean} hasStack
   */
  announceOne(what, hasStack) {
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
  unannounced = 0;
  /** Granted or failed, and not told yet, oldest first. */
  #grants = new Unannounced();
  /** Stolen or lost, and not told yet, oldest first. */
  #losses = new Unannounced();
  /** The last one whose grant was announced. @type {Requester | undefined} */
  lastAnnounced;
  #isAnnouncing = false;
  /** Whether the next grant is told in a tick of its own. */
  #ticking = false;
  /** See contract.js. @type {Requester[]} */
  unfinished = [];
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
   * Applies the events that a call of the addon left, and those there was no room for. Comes right
   * after each call, and before one if there was no stack for it then. Nothing that is called from
   * here calls the addon or users' code (contract.js): it would come in here again.
   * @throws {unknown} for want of stack; then the event loop applies the rest
   */
  collect() {
    try {
      this.#applyAll();
    } catch (error) {
      // Whoever called it may have nothing to undo, and then nobody would be woken for the rest.
      addon.undo(NO_TAG);
      throw error;
    }
  }

  #applyAll() {
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
    const request = this.#requests[this.exchange[at + EVENT_TAG]];
    // If not: it ended in an earlier call whose caller ran out of stack.
    if (typeof request === 'object') /** @type {any} */ (request.backend).takeNews(request, at);
  }

  /**
   * Applies all events that there are.
   * @param {boolean} woken whether this is the answer to a wake-up: then the next event wakes again
   */
  catchUp(woken) {
    this.collect();
    addon.drain(woken);
    this.collect();
  }

  /** @param {Requester} request was granted or failed, and is to be told */
  queueAnswer(request) {
    this.#grants.add(request);
    this.unannounced++;
  }

  /** @param {Requester} request that has passed, and ended */
  passed(request) {
    request.granted(0, 0);
    this.queueAnswer(request);
    this.remove(request);
  }

  /**
   * @param {Requester} request
   * @param {string | import('./contract.js').Thief} thief a client id, and the process if known
   */
  stolen(request, thief) {
    if (typeof thief === 'string') request.stolen(thief);
    else request.stolen(thief.clientId, thief.pid);
    this.#losses.add(request);
    this.unannounced++;
    this.remove(request);
  }

  /**
   * @param {Requester} request a lock that is lost otherwise than by a theft
   * @param {import('./contract.js').LossReason} reason
   * @param {() => Error} [cause]
   */
  lost(request, reason, cause) {
    request.lost(reason, cause);
    this.#losses.add(request);
    this.unannounced++;
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
   * @param {Backend} backend
   * @param {string} name
   * @returns {Set<bigint>} the tokens of the locks on this name that this thread knows to be its
   *   own, also through another opening of the bucket
   */
  tokensOf({ id }, name) {
    /** @type {Set<bigint>} */
    const tokens = new Set();
    for (let tag = 0; tag < this.#requests.length; tag++) {
      const request = /** @type {any} */ (this.#requests[tag]);
      if (request.name === name && request.backend.id === id) addTo(tokens, request.token);
    }
    return tokens;
  }

  /**
   * @param {Requester} request granted during the call that made it
   * @returns {boolean} whether it is told later, by this agent: callbacks of grants that came
   *   before it are still to be called
   */
  announcesLater(request) {
    const isFirst = this.#grants.isEmpty;
    if (isFirst && !this.#isUnheard) return false;
    this.queueAnswer(request);
    if (isFirst) this.#announceInTick();
    return true;
  }

  /** Whether a grant was announced whose callback is still to be called. */
  get #isUnheard() {
    if (this.lastAnnounced?.isHeard) this.lastAnnounced = undefined;
    return this.lastAnnounced !== undefined;
  }

  /**
   * Tells all losses, and one grant; other grants each in a tick of its own (4.4: each is a task).
   * @param {boolean} hasStack called from the event loop or a tick, not within a call of users'
   * @param {(lock: Requester) => void} announceLoss
   */
  announce(hasStack = false, announceLoss = announceLossInCall) {
    if (this.#isAnnouncing) return;
    this.#isAnnouncing = true;
    try {
      this.#losses.announceAll(announceLoss, hasStack);
      if (!this.#ticking) {
        if (!this.#grants.isEmpty) this.lastAnnounced = this.#grants.first;
        this.#grants.announceOne(announceAnswer, hasStack);
        // Who heard of the grant may have stolen.
        this.#losses.announceAll(announceLoss, hasStack);
        if (!this.#grants.isEmpty) this.#announceInTick();
      }
    } catch {
      // No stack for it: once more from the event loop.
      addon.undo(NO_TAG);
    } finally {
      this.#isAnnouncing = false;
      if (this.#losses.isEmpty && this.#grants.isEmpty) this.unannounced = 0;
    }
  }

  #announceInTick() {
    if (this.#ticking) return;
    soon(this.#tick);
    this.#ticking = true;
  }

  /**
   * The microtasks of a callback run before the next one is called: those that run now come before
   * a tick, and one tick does not follow another without the microtasks in between.
   */
  #tick = () => {
    nextTick(() => {
      this.#ticking = false;
      this.announce(true);
    });
  };

  /** On an empty stack. */
  #drain() {
    // A tick comes before the event loop goes on. So none is on its way, unless it got lost where
    // the stack ended.
    this.#ticking = false;
    this.catchUp(true);
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
 * The agent hangs on the addon's exports, so that there is one for each, however often this file is
 * evaluated: a module registry of a test runner evaluates it anew but gets the same addon.
 */
addon.agent ??= new Agent();
/** @type {Agent} */
const agent = addon.agent;
const { exchange } = agent;

module.exports = { agent, clientPrefix, exchange, threadName };
