'use strict';

/**
 * Finds and loads the native core, and adapts it to the contract of backend.js.
 */

const path = require('node:path');
const process = require('node:process');
const { threadId } = require('node:worker_threads');
const { closedError, noMemoryError, plainError, quote } = require('./errors.js');

/** @typedef {import('./backend.js').Backend} Backend */
/** @typedef {import('./backend.js').Requester} Requester */
/** @typedef {import('./backend.js').LockInfo} LockInfo */
/** @typedef {import('./backend.js').LockManagerSnapshot} LockManagerSnapshot */
/** @typedef {import('./backend.js').LockMode} LockMode */

/**
 * @typedef {object} Addon the exports of src/binding/addon.cc, which describes them
 * @property {(clientPrefix: string, exchange: ArrayBuffer, drain: () => void) => string | number}
 *   start
 * @property {(bucket: string) => ManagerHandle | number} openManager
 * @property {(manager: ManagerHandle, name: string) => number} request
 * @property {() => number} release
 * @property {() => number} abort
 * @property {(woken: boolean) => number} drain
 * @property {(manager: ManagerHandle) => Snapshot | number} snapshot
 * @property {() => number} [liveBlocks] allocations of the core that are not freed; in checked
 *   builds only
 * @property {Agent} [agent] see `agent` below
 * @property {number} CLOSED
 * @property {number} WLK_OK
 * @property {number} WLK_GRANTED
 * @property {number} WLK_PENDING
 * @property {number} WLK_NOT_AVAILABLE
 * @property {number} WLK_NO_MEMORY
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
/** @typedef {{ names: string[], clientIds: string[], locks: ArrayBuffer }} Snapshot */

const root = path.join(__dirname, '..');

/** Where the binary is looked for. Naming one in the environment means that one and no other. */
const candidates = process.env.WEB_LOCKS_BINARY
  ? [path.resolve(process.env.WEB_LOCKS_BINARY)]
  : [
      path.join(root, 'build', 'Release', 'web_locks.node'),
      path.join(root, 'build', 'Debug', 'web_locks.node'),
    ];

/**
 * @returns {Addon}
 * @throws {Error} `ERR_WEB_LOCKS_NOT_LOADED`: what was tried, for which platform, and what to do
 */
function load() {
  const attempts = [];
  for (const candidate of candidates) {
    try {
      return require(candidate);
    } catch (error) {
      const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
      if (code === 'ERR_WEB_LOCKS_INCOMPATIBLE') throw error;
      const missing = code === 'MODULE_NOT_FOUND';
      attempts.push({ candidate, error, why: missing ? 'not there' : message.split('\n')[0] });
    }
  }
  const tried = attempts.map(({ candidate, why }) => `\n  ${candidate}: ${why}`).join('');
  throw plainError(
    `web-locks: no native binary could be loaded for ${process.platform}-${process.arch}, ` +
      `Node.js ${process.version} (Node-API ${process.versions.napi}). Tried:${tried}\n` +
      `To build it, with a C and C++ compiler, make and Python installed, run: ` +
      `npm rebuild web-locks (in a clone of web-locks itself: npm install)`,
    'ERR_WEB_LOCKS_NOT_LOADED',
    { cause: attempts[0].error },
  );
}

const addon = load();

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
  WLK_PENDING,
  WLK_SHARED,
  WLK_STEAL,
  WLK_WAIT,
} = addon;

/** How many events one call of the addon can hand over; there is more where that is reached. */
const EVENT_CAPACITY = 256;

// The exchange (src/binding/environment.h): 32-bit numbers that calls of the addon take and leave.
const EVENT_COUNT = 0;
const TAG = 1;
const MODE = 2;
const OPTION = 3;
/** The first event: its tag, then its news; the next one's follow. */
const EVENTS = 4;

/** A table of tags smaller than this is kept when the last request ends. */
const LEAST_TAGS_TO_DROP = 1024;

/**
 * This thread's agent: the requests that the core knows, by tag, and the events it has for them.
 */
class Agent {
  /** By tag: a request, or the next free tag. @type {(Requester | number)[]} */
  #requests = [];
  #firstFree = 0;
  #live = 0;
  /** The numbers of the next call, and then the events it left. */
  exchange = new Uint32Array(EVENTS + 2 * EVENT_CAPACITY);

  constructor() {
    const prefix = `node-${process.pid}-${threadId}-`;
    this.clientId = checked(
      addon.start(prefix, this.exchange.buffer, () => {
        addon.drain(true);
        this.dispatch();
      }),
      'starting the agent of this thread',
    );
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

  /** @param {number} tag */
  remove(tag) {
    this.#requests[tag] = this.#firstFree;
    this.#firstFree = tag;
    if (--this.#live > 0 || this.#requests.length < LEAST_TAGS_TO_DROP) return;
    // A burst is over: its memory goes back.
    this.#requests = [];
    this.#firstFree = 0;
  }

  /**
   * Hands over the events that the last call of the addon left, and those there was no room for.
   */
  dispatch() {
    const { exchange } = this;
    let count = exchange[EVENT_COUNT];
    while (count > 0) {
      for (let i = EVENTS; i < EVENTS + 2 * count; i += 2) this.#tell(exchange[i], exchange[i + 1]);
      if (count < EVENT_CAPACITY) return;
      addon.drain(false);
      count = exchange[EVENT_COUNT];
    }
  }

  /**
   * @param {number} tag
   * @param {number} news bits
   */
  #tell(tag, news) {
    const request = /** @type {Requester} */ (this.#requests[tag]);
    if (news & WLK_NEWS_GRANTED) request.granted();
    if (news & WLK_NEWS_STOLEN) {
      this.remove(tag);
      request.stolen();
    }
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
    this.#manager = checked(addon.openManager(bucket), 'opening a storage bucket');
  }

  /** @param {Requester} request */
  request(request) {
    const { name } = request;
    agent.add(request);
    exchange[TAG] = request.tag;
    exchange[MODE] = request.mode === 'shared' ? WLK_SHARED : WLK_EXCLUSIVE;
    exchange[OPTION] = options[request.disposition];
    const status = addon.request(this.#manager, name);
    if (status === WLK_GRANTED) {
      request.granted();
    } else if (status !== WLK_PENDING) {
      agent.remove(request.tag);
      if (status === WLK_NOT_AVAILABLE) request.unavailable();
      else request.failed(errorOf(status, `requesting the lock ${quote(name)}`));
    }
    agent.dispatch();
  }

  /** @param {Requester} request */
  withdraw(request) {
    exchange[TAG] = request.tag;
    const pending = addon.abort() === WLK_OK;
    agent.dispatch();
    if (pending) agent.remove(request.tag);
    else this.release(request);
  }

  /**
   * @param {Requester} lock
   * @returns {boolean}
   */
  release(lock) {
    exchange[TAG] = lock.tag;
    const status = addon.release();
    agent.remove(lock.tag);
    agent.dispatch();
    return status === WLK_OK;
  }

  /** @returns {LockManagerSnapshot} */
  query() {
    const { names, clientIds, locks } = checked(
      addon.snapshot(this.#manager),
      'taking a snapshot of the lock state',
    );
    const numbers = new Uint32Array(locks);
    /** @type {LockManagerSnapshot} */
    const state = { held: [], pending: [] };
    for (let i = 0; i < numbers.length; i += 4) {
      /** @type {LockInfo} */
      const info = {
        clientId: clientIds[numbers[i + 1]],
        mode: numbers[i + 2] === WLK_SHARED ? 'shared' : 'exclusive',
        name: names[numbers[i]],
      };
      (numbers[i + 3] ? state.held : state.pending).push(info);
    }
    return state;
  }
}

/** For tests; undefined unless the binary is a checked build. */
const { liveBlocks } = addon;

module.exports = { NativeBackend, liveBlocks };
