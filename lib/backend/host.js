'use strict';

/**
 * Adapts the host scope, the locks of all processes of a machine, to the contract of contract.js.
 *
 * Most calls are answered at once, as in native.js. While another process changes the shared
 * tables, or the file is not open yet, the addon defers calls. It executes them later, in their
 * order, and an event has the answer.
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
  TAG,
  THIEF,
  TOKEN,
  WEIGHT,
  addon,
} = require('./addon.js');
const { agent, exchange, threadName } = require('./agent.js');
const { NO_TAG } = require('./contract.js');
const { entryOf } = require('./local-details.js');
const { inTheWay } = require('./blockers.js');
const { LONGEST_NAME, hostError, nameTooLongError } = require('./host-errors.js');
const { PendingReleases } = require('./pending-releases.js');
const { detailedStateOf, detailsOf, stateOf } = require('./snapshots.js');
const { agentName } = require('./agent-name.js');
const { bucketClosedError } = require('../platform/errors.js');
const { Promise, now } = require('../platform/intrinsics.js');
const { hostname } = require('../platform/machine.js');
const { theLock } = require('../platform/names.js');
const { programName } = require('../platform/program.js');
const path = require('node:path');
const process = require('node:process');
const { threadId } = require('node:worker_threads');
const { version } = require('../../package.json');

/** @typedef {import('./addon.js').ManagerHandle} ManagerHandle */
/** @typedef {import('./addon.js').Snapshot} Snapshot */
/** @typedef {import('./contract.js').Backend} Backend */
/** @typedef {import('./contract.js').CycleEntry} CycleEntry */
/** @typedef {import('./contract.js').LockDetails} LockDetails */
/** @typedef {import('./contract.js').LockManagerSnapshot} LockManagerSnapshot */
/** @typedef {import('./contract.js').Requester} Requester */

const {
  WLH_DEADLOCK,
  WLH_FULL,
  WLH_GRANTED,
  WLH_LOST,
  WLH_NEWS_FAILED,
  WLH_NEWS_LOST,
  WLH_NEWS_NOT_AVAILABLE,
  WLH_NEWS_OTHER_LIMIT,
  WLH_NEWS_QUEUE_FULL,
  WLH_NOT_AVAILABLE,
  WLH_OK,
  WLH_OTHER_LIMIT,
  WLH_PENDING,
  WLH_QUEUE_FULL,
  WLH_STOLEN,
  WLK_EXCLUSIVE,
  WLK_IF_AVAILABLE,
  WLK_NEWS_GRANTED,
  WLK_NEWS_PASSED,
  WLK_NEWS_STOLEN,
  WLK_PASS,
  WLK_PASS_IF_AVAILABLE,
  WLK_SHARED,
  WLK_STEAL,
  WLK_WAIT,
} = addon;

const options = {
  wait: WLK_WAIT,
  ifAvailable: WLK_IF_AVAILABLE,
  steal: WLK_STEAL,
  pass: WLK_PASS,
  passIfAvailable: WLK_PASS_IF_AVAILABLE,
};

/** How long a blocked thread stays away from JavaScript, in which the engine can end it. */
const SLICE_MS = 50;

/** For messages. */
const SNAPSHOT = 'taking a snapshot of the lock state';

/** What others are shown of the version of this package. */
const VERSION_LENGTH = 15;

/**
 * @param {number} at where in the exchange a thief is
 * @returns {import('./contract.js').Thief} with a client id as wlh_agent_client_id has it; means
 *   nothing if nothing was stolen
 */
function thiefAt(at) {
  const member = exchange[at].toString(16).padStart(8, '0');
  return { clientId: `${member}-${exchange[at + 1]}`, pid: exchange[at + 2] };
}

/** Something that is told by an event, with a tag, and is no request. */
class Errand {
  tag = NO_TAG;
  isTold = false;
  /** Ends the waiting for it, with what the event says. @type {(status: number) => void} */
  told = () => {};
  /** @type {Promise<number>} */
  done = new Promise((resolve) => {
    this.told = (status) => {
      this.isTold = true;
      resolve(status);
    };
  });

  /** @param {HostBackend} backend */
  constructor(backend) {
    this.backend = backend;
  }
}

/**
 * The lock manager of one storage bucket, for all processes of the machine. Nothing is opened
 * before it is used.
 * @implements {Backend}
 */
class HostBackend {
  #bucket;
  #directory;
  /** @type {ManagerHandle | undefined} */
  #opened;
  /**
   * Once it is closed: why it could not be opened, or was lost, before.
   * @type {string | undefined}
   */
  #failure;
  #releases = new PendingReleases();

  /**
   * @param {string} bucket its name for all processes
   * @param {string} directory an absolute path; '' for that of the environment, else the default
   */
  constructor(bucket, directory) {
    this.id = `host ${directory}\n${bucket}`;
    /** @type {Error | undefined} */
    this.closed = undefined;
    this.#bucket = bucket;
    this.#directory = directory;
  }

  /** @returns {ManagerHandle} */
  #open() {
    if (this.#opened) return this.#opened;
    const shown = version.slice(0, VERSION_LENGTH);
    const directory = this.#directory || directoryOfEnvironment();
    const name = agentName(programName(), threadName);
    const opened = addon.hostOpen(this.#bucket, shown, threadId, name, directory);
    if (typeof opened === 'number') throw this.#error(opened, 'opening a storage bucket');
    this.#opened = opened;
    return opened;
  }

  /**
   * @param {number} status
   * @param {string} doing for the message
   */
  #error(status, doing) {
    return hostError(status, this.#failure ?? addon.hostFailure(this.#opened), doing);
  }

  /** The path of its directory, which may not be there yet. */
  get place() {
    return String(addon.hostPlace(this.#open()));
  }

  /** @returns {Promise<void>} */
  get ready() {
    return this.#ready();
  }

  async #ready() {
    const doing = 'opening a storage bucket';
    const errand = this.#start(() => addon.hostReady(this.#open()), doing);
    if (!errand) return;
    const status = await errand.done;
    if (this.closed) throw this.closed;
    agent.remove(/** @type {any} */ (errand));
    if (status !== WLH_OK) throw this.#error(status, doing);
  }

  /**
   * @param {() => number} call the tag is in the exchange
   * @param {string} doing for the message
   * @returns {Errand | undefined} to be removed when it is told; undefined if it is done
   */
  #start(call, doing) {
    if (this.closed) throw this.closed;
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    const errand = new Errand(this);
    agent.add(/** @type {any} */ (errand));
    exchange[TAG] = errand.tag;
    let status = -1;
    try {
      status = call();
    } finally {
      if (status !== WLH_PENDING) agent.remove(/** @type {any} */ (errand));
    }
    if (status === WLH_OK) return undefined;
    if (status !== WLH_PENDING) throw this.#error(status, doing);
    return errand;
  }

  /** @param {Requester} request */
  request(request) {
    if (this.closed) {
      const { closed } = this;
      request.failed(() => closed);
      return;
    }
    const { name, disposition } = request;
    let opening = this.#opened;
    if (!opening) {
      try {
        opening = this.#open();
      } catch (error) {
        request.failed(() => error);
        return;
      }
    }
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    agent.add(request);
    exchange[TAG] = request.tag;
    exchange[MODE] = request.mode === 'shared' ? WLK_SHARED : WLK_EXCLUSIVE;
    exchange[OPTION] = disposition === 'wait' ? WLK_WAIT : options[disposition];
    const status = request.asksForMore
      ? this.#requestExtra(opening, request)
      : addon.hostRequest(opening, name);
    // Before the events: one of them can be that it was stolen since.
    if (status === WLH_GRANTED) request.granted(exchange[TOKEN], exchange[TOKEN + 1]);
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (status !== WLH_GRANTED && status !== WLH_PENDING) {
      agent.remove(request);
      this.#refuse(request, status, exchange[LIMIT]);
    }
  }

  /**
   * @param {ManagerHandle} opening
   * @param {Requester} request
   */
  #requestExtra(opening, { name, label, limit, weight, maxPending, priority }) {
    exchange[LIMIT] = limit ?? 0;
    exchange[WEIGHT] = weight ?? 1;
    exchange[MAX_PENDING] = maxPending ?? NO_MAXIMUM;
    exchange[PRIORITY] = priority ?? 0;
    return addon.hostRequestExtra(opening, name, label ?? '');
  }

  /**
   * @param {Requester} request ended otherwise than by a grant; WLH_OK: it has passed
   * @param {number} status
   * @param {number} limit that the name has
   */
  #refuse(request, status, limit) {
    if (status === WLH_NOT_AVAILABLE) request.unavailable();
    else if (status === WLH_OK) request.granted(0, 0);
    else if (status === WLH_OTHER_LIMIT) request.otherLimit?.(limit);
    else if (status === WLH_QUEUE_FULL) request.queueFull?.();
    else request.failed(() => this.#requestError(status, request.name));
  }

  /**
   * @param {number} status
   * @param {string} name
   */
  #requestError(status, name) {
    const doing = `requesting ${theLock(name)}`;
    if (status === WLH_FULL && name.length > LONGEST_NAME) {
      return nameTooLongError(name, doing);
    }
    return this.#error(status, doing);
  }

  /**
   * Applies an event.
   * @param {Requester | Errand} request
   * @param {number} at where in the exchange it is
   */
  takeNews(request, at) {
    const news = exchange[at + EVENT_NEWS];
    const number = exchange[at + EVENT_TOKEN];
    // It was undone since: `finish` does the rest.
    if (news === 0) return;
    if (request instanceof Errand) {
      request.told(number);
      return;
    }
    // First: if the stack ends below, the event is applied again, but not once the tag is gone.
    const releasing = this.#releases.of(request);
    releasing?.();
    const isGranted = (news & WLK_NEWS_GRANTED) !== 0;
    // Nothing comes after this if it is all: who releases the lock does not find it granted again.
    if (isGranted) {
      request.granted(number, exchange[at + EVENT_TOKEN + 1]);
      agent.queueAnswer(request);
    }
    // The same event can tell that the lock is lost since.
    if (news & WLK_NEWS_STOLEN) {
      agent.stolen(request, thiefAt(at + EVENT_THIEF));
    } else if (news & WLK_NEWS_PASSED) {
      agent.passed(request);
    } else if (news & WLH_NEWS_LOST) {
      agent.lost(request, 'destroyed', () => this.#lossError());
    } else if (!isGranted) {
      if (!releasing) {
        this.#refuse(request, refusalOf(news, number), number);
        agent.queueAnswer(request);
      }
      agent.remove(request);
    }
    if (releasing) this.#releases.forget(request);
  }

  /**
   * If a lock was being released, resolves the promise of that: it is released, or lost.
   * @param {Requester} lock
   */
  #resolveRelease(lock) {
    this.#releases.of(lock)?.();
    this.#releases.forget(lock);
  }

  #lossError() {
    return this.#error(WLH_LOST, 'sharing locks with other processes');
  }

  /** @param {Requester} request */
  withdraw(request) {
    if (request.tag === NO_TAG) return;
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (request.tag === NO_TAG) return;
    exchange[TAG] = request.tag;
    addon.hostEnd();
    this.#resolveRelease(request);
    agent.remove(request);
  }

  /**
   * @param {Requester} lock
   * @returns {void | Promise<void>}
   */
  release(lock) {
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (lock.tag === NO_TAG) return undefined;
    exchange[TAG] = lock.tag;
    const status = addon.hostRelease();
    const thief = thiefAt(THIEF);
    // Before the events are applied: that of the release can be among them.
    const released = status === WLH_PENDING ? this.#released(lock) : undefined;
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (status === WLH_STOLEN) agent.stolen(lock, thief);
    else if (status !== WLH_PENDING) agent.remove(lock);
    return released;
  }

  /**
   * @param {Requester} lock
   * @returns {Promise<void>} resolves when the event came
   */
  #released(lock) {
    let resolve = () => {};
    /** @type {Promise<void>} */
    const released = new Promise((settle) => {
      resolve = () => settle(undefined);
    });
    // Not in there: what it throws would be the promise's, and nobody would undo the release.
    this.#releases.add(lock, resolve);
    return released;
  }

  /**
   * Who cannot enter the tables now hears of it later: this does not wait for others.
   * @param {Requester} lock
   */
  catchUp(lock) {
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (lock.tag === NO_TAG) return;
    exchange[TAG] = lock.tag;
    // It changes nothing of a lock that is held, but takes the mail of other processes.
    const status = addon.hostAbort();
    const thief = thiefAt(THIEF);
    agent.catchUp(false);
    if (status === WLH_STOLEN) agent.stolen(lock, thief);
    else if (status === WLH_LOST) agent.lost(lock, 'destroyed', () => this.#lossError());
  }

  announce() {
    if (agent.unannounced > 0) agent.announce();
  }

  /** @param {Requester} request */
  announcesLater(request) {
    const mayWait = agent.unannounced > 0 || agent.lastAnnounced !== undefined;
    return mayWait && agent.announcesLater(request);
  }

  unfinished = agent.unfinished;
  undo = addon.undo;

  async close() {
    if (this.closed) return;
    this.closed = bucketClosedError();
    if (!this.#opened) return;
    this.#failure = addon.hostFailure(this.#opened);
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    // First what is pending, so that none of it is granted by the end of a lock.
    const requests = agent.requestsOf(this);
    for (let i = 0; i < requests.length; i++) this.#endPending(requests[i], this.closed);
    const locks = agent.requestsOf(this);
    for (let i = 0; i < locks.length; i++) this.#endLock(locks[i]);
    addon.hostClose(this.#opened);
    this.announce();
  }

  /**
   * Ends what is no lock that is held.
   * @param {Requester | Errand} request
   * @param {Error} error if it is pending
   */
  #endPending(request, error) {
    if (request.tag === NO_TAG) return;
    exchange[TAG] = request.tag;
    if (request instanceof Errand || this.#releases.of(request)) {
      // One that was told, and not taken yet; else nothing.
      if (request instanceof Errand) addon.hostTakeSnapshot(this.#open());
      addon.hostEnd();
      if (request instanceof Errand) request.told(WLH_OK);
      else this.#resolveRelease(request);
      agent.remove(/** @type {Requester} */ (request));
      return;
    }
    const status = addon.hostAbort();
    const thief = thiefAt(THIEF);
    const limit = exchange[LIMIT];
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (status === WLH_GRANTED) {
      // This thread may not have heard of it; what ends the lock would drop the event.
      agent.catchUp(false);
      return;
    }
    if (status === WLH_STOLEN) {
      agent.stolen(request, thief);
      return;
    }
    agent.remove(request);
    if (status === WLH_OK) request.failed(() => error);
    else this.#refuse(request, status, limit);
    agent.queueAnswer(request);
  }

  /** @param {Requester} lock */
  #endLock(lock) {
    if (lock.tag === NO_TAG) return;
    exchange[TAG] = lock.tag;
    const status = addon.hostRelease();
    const thief = thiefAt(THIEF);
    if (status === WLH_PENDING) addon.hostEnd();
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (status === WLH_STOLEN) agent.stolen(lock, thief);
    else if (status === WLH_LOST) agent.lost(lock, 'destroyed', () => this.#lossError());
    else agent.lost(lock, 'closed');
  }

  /**
   * @param {Requester} request
   * @param {number} milliseconds
   */
  wait(request, milliseconds) {
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (request.tag === NO_TAG) return;
    exchange[TAG] = request.tag;
    const status = addon.hostWait(Math.ceil(milliseconds));
    const thief = thiefAt(THIEF);
    const limit = exchange[LIMIT];
    // As in `request`.
    if (status === WLH_GRANTED) request.granted(exchange[TOKEN], exchange[TOKEN + 1]);
    if (exchange[EVENT_COUNT] !== 0) agent.collect();
    if (status === WLH_PENDING || status === WLH_GRANTED) return;
    if (status === WLH_STOLEN) {
      agent.stolen(request, thief);
      return;
    }
    agent.remove(request);
    if (status === WLH_DEADLOCK) request.deadlocked?.(this.#ownCycle(request));
    else this.#refuse(request, status, limit);
  }

  /**
   * @param {Requester} request of a thread that is in its own way
   * @returns {CycleEntry[]} it, and what else this thread has on the name
   */
  #ownCycle(request) {
    const cycle = [this.entryOf(request, false)];
    const requests = agent.requestsOf(this);
    for (let i = 0; i < requests.length && cycle.length < 2; i++) {
      const other = requests[i];
      if (other.name !== request.name || other === request) continue;
      cycle[1] = this.entryOf(other, Boolean(/** @type {any} */ (other).held));
    }
    return cycle;
  }

  /**
   * @param {Requester} request
   * @param {boolean} isHeld
   * @returns {CycleEntry}
   */
  entryOf(request, isHeld) {
    const clientId = addon.hostClientId(this.#open());
    const who = { clientId, host: hostname(), pid: process.pid, threadId, threadName };
    return entryOf(who, request, programName(), isHeld);
  }

  /**
   * @param {string} [name]
   * @returns {Promise<LockManagerSnapshot>}
   */
  async query(name) {
    return stateOf(await this.#snapshot(name, true));
  }

  /**
   * @param {string} [name]
   * @returns {Promise<import('./contract.js').DetailedSnapshot>}
   */
  async details(name) {
    return detailedStateOf(await this.#snapshot(name, true));
  }

  /**
   * @param {string} name
   * @returns {LockDetails[] | undefined}
   */
  seenHolders(name) {
    if (this.closed || !this.#opened) return undefined;
    const snapshot = addon.hostHolders(this.#opened, name);
    if (typeof snapshot === 'number') return undefined;
    const clientId = addon.hostClientId(this.#opened);
    return inTheWay(detailsOf(snapshot), clientId, () => agent.tokensOf(this, name));
  }

  /**
   * As `query`, for a thread that blocks until there is an answer.
   * @param {string} name
   * @param {number} limit milliseconds to block at most
   * @returns {LockManagerSnapshot | undefined} undefined if the time is over
   */
  querySync(name, limit) {
    const errand = this.#ask(name, true);
    const end = now() + limit;
    try {
      while (errand && !errand.isTold) {
        const left = end - now();
        if (left <= 0) return undefined;
        exchange[TAG] = errand.tag;
        addon.hostWaitForSnapshot(this.#open(), Math.ceil(Math.min(left, SLICE_MS)));
        agent.collect();
      }
      return stateOf(this.#take(errand));
    } finally {
      if (errand && !errand.isTold) this.#drop(errand);
      // What else was heard of meanwhile.
      this.announce();
    }
  }

  /**
   * @param {string | undefined} name of all that is there; undefined: everything
   * @param {boolean} pending whether with the requests that wait
   * @returns {Promise<Snapshot>}
   */
  async #snapshot(name, pending) {
    const errand = this.#ask(name, pending);
    await errand?.done;
    return this.#take(errand);
  }

  /** @param {Errand} errand whose answer nobody waits for any more */
  async #drop(errand) {
    try {
      await errand.done;
      this.#take(errand);
    } catch {
      // Nobody wants to know.
    }
  }

  /**
   * @param {string | undefined} name
   * @param {boolean} pending
   * @returns {Errand | undefined} undefined if it is answered
   */
  #ask(name, pending) {
    return this.#start(() => addon.hostSnapshot(this.#open(), name, pending), SNAPSHOT);
  }

  /**
   * @param {Errand | undefined} errand that was told
   * @returns {Snapshot}
   */
  #take(errand) {
    if (this.closed) throw this.closed;
    exchange[TAG] = errand?.tag ?? NO_TAG;
    const snapshot = addon.hostTakeSnapshot(this.#open());
    agent.remove(/** @type {any} */ (errand));
    if (typeof snapshot === 'number') throw this.#error(snapshot, SNAPSHOT);
    return snapshot;
  }
}

/**
 * @returns {string} that of this thread, as a worker can have an environment of its own; '' if it
 *   names none. On Windows it is resolved as an option is: in the paths that the addon opens, which
 *   can have any length, `..` and a final separator would be names. What lacks a drive is not the
 *   same for all processes: the addon refuses it.
 */
function directoryOfEnvironment() {
  const { WEB_LOCKS_DIRECTORY: directory = '' } = process.env;
  const isResolved = process.platform === 'win32' && path.parse(directory).root.length > 2;
  return isResolved ? path.resolve(directory) : directory;
}

/**
 * @param {number} news
 * @param {number} number what the event has with it
 * @returns {number} the status that a call would have answered
 */
function refusalOf(news, number) {
  if (news & WLH_NEWS_NOT_AVAILABLE) return WLH_NOT_AVAILABLE;
  if (news & WLH_NEWS_OTHER_LIMIT) return WLH_OTHER_LIMIT;
  if (news & WLH_NEWS_QUEUE_FULL) return WLH_QUEUE_FULL;
  return news & WLH_NEWS_FAILED ? number : WLH_LOST;
}

module.exports = { HostBackend };
