'use strict';

/**
 * Loads the native core, and adapts it to the contract of contract.js.
 */

const process = require('node:process');
const workerThreads = require('node:worker_threads');
const { NO_TAG } = require('./contract.js');
const { loadBinary } = require('./binary.js');
const { nextTick, report } = require('../platform/intrinsics.js');
const { closedError, noMemoryError, plainError } = require('../platform/errors.js');
const { theLock } = require('../platform/names.js');

const { threadId } = workerThreads;
/** Node.js 20 does not tell it; newer ones tell a word of their own of workers without a name. */
const { threadName: toldName = '' } = /** @type {{ threadName?: string }} */ (workerThreads);
const threadName = toldName === 'WorkerThread' ? '' : toldName;

/** @typedef {import('./contract.js').Backend} Backend */
/** @typedef {import('./contract.js').Requester} Requester */
/** @typedef {import('./contract.js').LockInfo} LockInfo */
/** @typedef {import('./contract.js').CycleEntry} CycleEntry */
/** @typedef {import('./contract.js').LockDetails} LockDetails */
/** @typedef {import('./contract.js').LockManagerSnapshot} LockManagerSnapshot */
/** @typedef {import('./contract.js').LockMode} LockMode */

/**
 * @typedef {object} Addon the exports of src/binding/addon.cc, which describes them
 * @property {(clientPrefix: string, threadId: number, threadName: string, exchange: ArrayBuffer,
 *   drain: () => void) => string | number} start
 * @property {(bucket: string) => ManagerHandle | number} openManager
 * @property {(manager: ManagerHandle, name: string) => number} request
 * @property {(manager: ManagerHandle, name: string, label: string, inside: Uint32Array | undefined)
 *   => number | Snapshot} requestExtra
 * @property {(timeout: number) => number | Snapshot} wait
 * @property {() => number} release
 * @property {() => number} abort
 * @property {(tag: number) => number} undo
 * @property {(woken: boolean) => number} drain
 * @property {(manager: ManagerHandle) => Snapshot | number} snapshot
 * @property {(manager: ManagerHandle, name: string, pending: boolean) => Snapshot | number}
 *   snapshotOf
 * @property {() => number} [liveBlocks] allocations of the core that are not freed; in checked
 *   builds only
 * @property {Agent} [agent] see `agent` below
 * @property {number} CLOSED
 * @property {number} WLK_OK
 * @property {number} WLK_GRANTED
 * @property {number} WLK_PENDING
 * @property {number} WLK_NOT_AVAILABLE
 * @property {number} WLK_NO_MEMORY
 * @property {number} WLK_STOLEN
 * @property {number} WLK_OTHER_LIMIT
 * @property {number} WLK_QUEUE_FULL
 * @property {number} WLK_EXCLUSIVE
 * @property {number} WLK_SHARED
 * @property {number} WLK_WAIT
 * @property {number} WLK_IF_AVAILABLE
 * @property {number} WLK_STEAL
 * @property {number} WLK_NEWS_GRANTED
 * @property {number} WLK_NEWS_STOLEN
 */

/**
 * @typedef {{ readonly external: unique symbol }} ManagerHandle an open lock manager; closed when
 * collected
 */
/**
 * @typedef {{ names: string[], clientIds: string[], threadIds: number[], threadNames: string[],
 *   locks: ArrayBuffer }} Snapshot see src/binding/values.h
 */

/** @type {Addon} */
const addon = loadBinary();

const {
  CLOSED,
  WLK_EXCLUSIVE,
  WLK_GRANTED,
  WLK_IF_AVAILABLE,
  WLK_NEWS_GRANTED,
  WLK_NEWS_STOLEN,
  WLK_NO_MEMORY,
  WLK_NOT_AVAILABLE,
  WLK_OK,
  WLK_OTHER_LIMIT,
  WLK_PENDING,
  WLK_QUEUE_FULL,
  WLK_SHARED,
  WLK_STEAL,
  WLK_STOLEN,
  WLK_WAIT,
} = addon;

/** How many events one call of the addon can hand over; there is more where that is reached. */
const EVENT_CAPACITY = 256;

// The exchange (src/binding/environment.h): 32-bit numbers that calls of the addon take and leave.
const EVENT_COUNT = 0;
const TAG = 1;
const MODE = 2;
const OPTION = 3;
/** Two numbers, if the call answers WLK_STOLEN. */
const THIEF = 4;
/** Two halves, the lower one first, if the call answers WLK_GRANTED. */
const TOKEN = 6;
/** To requestExtra, and from it if it answers WLK_OTHER_LIMIT. */
const LIMIT = 8;
/** To requestExtra. */
const WEIGHT = 9;
const MAX_PENDING = 10;
const NO_MAXIMUM = 2 ** 32 - 1;
/** The first event: its tag, its news, who if it tells of a theft, its token; then the next one. */
const EVENTS = 11;
const EVENT_SIZE = 6;

/** A table of tags smaller than this is kept when the last request ends. */
const LEAST_TAGS_TO_DROP = 1024;

/** @param {number} thread its id */
const clientPrefix = (thread) => `node-${process.pid}-${thread}-`;

/** @param {Requester} request */
const tellGrant = (request) => request.answer();
/** @param {Requester} lock */
const tellTheftInCall = (lock) => lock.lose(false);
/** @param {Requester} lock */
const tellTheftFromEvents = (lock) => lock.lose(true);

/** Requests of which something is to be told, in order. */
class Untold {
  /** @type {Requester[]} */
  #requests = [];
  #first = 0;
  get isEmpty() {
    return this.#first === this.#requests.length;
  }

  /** @param {Requester} request */
  add(request) {
    this.#requests[this.#requests.length] = request;
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
    const request = this.#requests[this.#first];
    if (!request) return;
    try {
      what(request);
    } catch (error) {
      if (!hasStack) throw error;
      report(error);
    }
    this.#first++;
    if (!this.isEmpty) return;
    this.#requests.length = 0;
    this.#first = 0;
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
  /** Granted, and not told yet, oldest first. */
  #grants = new Untold();
  /** Stolen, and not told yet, oldest first. */
  #thefts = new Untold();
  #telling = false;
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
    if (--this.#live > 0 || this.#requests.length < LEAST_TAGS_TO_DROP) return;
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
    if (news & WLK_NEWS_GRANTED) {
      request.granted(this.exchange[at + 4], this.exchange[at + 5]);
      this.#grants.add(request);
      this.untold++;
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

  /**
   * @param {Requester} request
   * @param {string} thief
   */
  stolen(request, thief) {
    request.stolen(thief);
    this.#thefts.add(request);
    this.untold++;
    this.remove(request);
  }

  /**
   * Tells all thefts, and one grant; other grants each in a tick of its own (4.4: each is a task).
   * @param {boolean} hasStack called from the event loop or a tick, not within a call of users'
   * @param {(lock: Requester) => void} tellTheft
   */
  tell(hasStack = false, tellTheft = tellTheftInCall) {
    if (this.#telling) return;
    this.#telling = true;
    try {
      this.#thefts.tellAll(tellTheft, hasStack);
      if (!this.#ticking) {
        this.#grants.tellOne(tellGrant, hasStack);
        // Who heard of the grant may have stolen.
        this.#thefts.tellAll(tellTheft, hasStack);
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
      if (this.#thefts.isEmpty && this.#grants.isEmpty) this.untold = 0;
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
    this.tell(true, tellTheftFromEvents);
  }
}

/**
 * The agent hangs on the addon's exports, so that there is one for each, however often this file is
 * evaluated: a module registry of a test runner evaluates it anew but gets the same addon.
 */
addon.agent ??= new Agent();
const { agent } = addon;
const { exchange } = agent;

/**
 * @template T
 * @param {T | number} result of the addon: a value, or a status if there is none
 * @param {string} doing for the message
 * @returns {T}
 */
function checked(result, doing) {
  if (typeof result === 'number') throw errorOf(result, doing);
  return result;
}

/**
 * @param {number} status
 * @param {string} doing
 * @returns {Error}
 */
function errorOf(status, doing) {
  if (status === CLOSED) return closedError();
  if (status === WLK_NO_MEMORY) return noMemoryError(doing);
  return plainError(`web-locks: ${doing} failed with status ${status}.`, 'ERR_WEB_LOCKS_CORE');
}

const options = { wait: WLK_WAIT, ifAvailable: WLK_IF_AVAILABLE, steal: WLK_STEAL };

/**
 * The lock manager of one storage bucket, for all threads of the process.
 * @implements {Backend}
 */
class NativeBackend {
  #manager;

  /** @param {string} bucket the core's name of the bucket, see buckets.js */
  constructor(bucket) {
    this.id = `process ${bucket}`;
    this.#manager = checked(addon.openManager(bucket), 'opening a storage bucket');
  }

  /** @param {Requester} request */
  request(request) {
    const { name, disposition } = request;
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    agent.add(request);
    exchange[TAG] = request.tag;
    exchange[MODE] = request.mode === 'shared' ? WLK_SHARED : WLK_EXCLUSIVE;
    exchange[OPTION] = disposition === 'wait' ? WLK_WAIT : options[disposition];
    const status = request.asksForMore
      ? this.#requestExtra(request)
      : addon.request(this.#manager, name);
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (status === WLK_GRANTED) {
      request.granted(exchange[TOKEN], exchange[TOKEN + 1]);
    } else if (status !== WLK_PENDING) {
      agent.remove(request);
      if (status === WLK_NOT_AVAILABLE) request.unavailable();
      else if (status === WLK_OTHER_LIMIT) request.otherLimit?.(exchange[LIMIT]);
      else if (status === WLK_QUEUE_FULL) request.queueFull?.();
      else if (typeof status !== 'number') request.deadlocked?.(detailsWithState(status));
      else request.failed(errorOf(status, `requesting ${theLock(name)}`));
    }
  }

  /**
   * @param {Requester} request
   * @returns {number | Snapshot} the cycle that the request would close
   */
  #requestExtra({ name, inside, label, limit, weight, maxPending }) {
    exchange[LIMIT] = limit ?? 0;
    exchange[WEIGHT] = weight ?? 1;
    exchange[MAX_PENDING] = maxPending ?? NO_MAXIMUM;
    const tags = inside && new Uint32Array(inside.length);
    for (let i = 0; tags && inside && i < tags.length; i++) tags[i] = inside[i].tag;
    return addon.requestExtra(this.#manager, name, label ?? '', tags);
  }

  /** @param {Requester} request */
  withdraw(request) {
    if (request.tag === NO_TAG) return;
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    exchange[TAG] = request.tag;
    if (addon.abort() !== WLK_OK) addon.release();
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    agent.remove(request);
  }

  /** @param {Requester} lock */
  release(lock) {
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (lock.tag === NO_TAG) return;
    exchange[TAG] = lock.tag;
    const status = addon.release();
    const thief = status === WLK_STOLEN ? agent.thief(THIEF) : '';
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (status === WLK_STOLEN) agent.stolen(lock, thief);
    else agent.remove(lock);
  }

  tell() {
    if (agent.untold > 0) agent.tell();
  }

  unfinished = agent.unfinished;
  undo = addon.undo;

  /**
   * @param {Requester} request
   * @param {number} milliseconds
   */
  wait(request, milliseconds) {
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    exchange[TAG] = request.tag;
    const status = addon.wait(Math.ceil(milliseconds));
    const thief = status === WLK_STOLEN ? agent.thief(THIEF) : '';
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (status === WLK_PENDING) return;
    if (status === WLK_GRANTED) {
      request.granted(exchange[TOKEN], exchange[TOKEN + 1]);
      return;
    }
    if (status === WLK_STOLEN) {
      agent.stolen(request, thief);
      return;
    }
    agent.remove(request);
    if (typeof status !== 'number') request.deadlocked?.(detailsWithState(status));
    else request.failed(errorOf(status, `waiting for ${theLock(request.name)}`));
  }

  /**
   * @param {string} [name]
   * @returns {LockManagerSnapshot}
   */
  query(name) {
    const { names, clientIds, locks } = this.#snapshot(name);
    const numbers = new Uint32Array(locks);
    /** @type {LockManagerSnapshot} */
    const state = { held: [], pending: [] };
    for (let i = 0; i < numbers.length; i += INFO_SIZE) {
      /** @type {LockInfo} */
      const info = {
        clientId: clientIds[numbers[i + CLIENT]],
        mode: modeOf(numbers[i + LOCK_MODE]),
        name: names[numbers[i + NAME]],
      };
      (numbers[i + HELD] ? state.held : state.pending).push(info);
    }
    return state;
  }

  /**
   * @param {string} [name]
   * @returns {import('./contract.js').DetailedSnapshot}
   */
  details(name) {
    /** @type {Map<string, LockDetails[]>} */
    const held = new Map();
    /** @type {Map<string, number>} */
    const ahead = new Map();
    /** @type {import('./contract.js').DetailedSnapshot} */
    const state = { held: [], pending: [] };
    // The locks of a name come before its queue.
    for (const { isHeld, ...info } of detailsWithState(this.#snapshot(name))) {
      const { name: on } = info;
      if (isHeld) {
        const locks = held.get(on);
        if (locks) locks.push(info);
        else held.set(on, [info]);
        state.held.push(info);
      } else {
        const before = ahead.get(on) ?? 0;
        ahead.set(on, before + 1);
        state.pending.push({ ...info, blockedBy: held.get(on) ?? [], ahead: before });
      }
    }
    return state;
  }

  /** @param {string} [name] of all that is there; undefined: everything */
  #snapshot(name) {
    const snapshot =
      name === undefined
        ? addon.snapshot(this.#manager)
        : addon.snapshotOf(this.#manager, name, true);
    return checked(snapshot, 'taking a snapshot of the lock state');
  }

  /**
   * @param {string} name
   * @returns {LockDetails[]}
   */
  holders(name) {
    const snapshot = addon.snapshotOf(this.#manager, name, false);
    // Without memory nobody is known.
    return typeof snapshot === 'number' ? [] : detailsOf(snapshot);
  }
}

// An entry of a snapshot: struct wlk_lock_info, 32-bit numbers.
const NAME = 0;
const CLIENT = 1;
const LOCK_MODE = 2;
const HELD = 3;
const LABEL = 4;
const LOCK_LIMIT = 5;
const LOCK_WEIGHT = 6;
const AGE = 7;
const INFO_SIZE = 8;
/** WLK_NO_LABEL */
const NO_LABEL = 2 ** 32 - 1;

/**
 * @param {number} mode
 * @returns {LockMode}
 */
const modeOf = (mode) => (mode === WLK_SHARED ? 'shared' : 'exclusive');

/**
 * @param {Snapshot} snapshot
 * @returns {CycleEntry[]}
 */
function detailsWithState({ names, clientIds, threadIds, threadNames, locks }) {
  const numbers = new Uint32Array(locks);
  /** @type {CycleEntry[]} */
  const all = [];
  for (let i = 0; i < numbers.length; i += INFO_SIZE) {
    const client = numbers[i + CLIENT];
    const label = numbers[i + LABEL];
    const isHeld = numbers[i + HELD] === 1;
    const age = numbers[i + AGE];
    all[all.length] = {
      clientId: clientIds[client],
      mode: modeOf(numbers[i + LOCK_MODE]),
      name: names[numbers[i + NAME]],
      label: label === NO_LABEL ? '' : names[label],
      pid: process.pid,
      threadId: threadIds[client],
      threadName: threadNames[client],
      waited: isHeld ? 0 : age,
      held: isHeld ? age : 0,
      limit: numbers[i + LOCK_LIMIT],
      weight: numbers[i + LOCK_WEIGHT],
      isHeld,
    };
  }
  return all;
}

/**
 * @param {Snapshot} snapshot
 * @returns {LockDetails[]}
 */
function detailsOf(snapshot) {
  const entries = detailsWithState(snapshot);
  /** @type {LockDetails[]} */
  const all = [];
  for (let i = 0; i < entries.length; i++) {
    const { isHeld: _, ...details } = entries[i];
    all[i] = details;
  }
  return all;
}

/** For tests; undefined unless the binary is a checked build. */
const { liveBlocks } = addon;

module.exports = { NativeBackend, agent, liveBlocks };
