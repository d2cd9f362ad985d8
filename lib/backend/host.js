'use strict';

/**
 * Adapts the host scope, the locks of all processes of a machine, to contract.js. Most calls return
 * their result at once. While another process changes the shared tables, or the file is not open
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
  TAG,
  THIEF,
  TOKEN,
  WEIGHT,
  addon,
} = require('./addon.js');
const { agent, announcer, exchange, threadName } = require('./agent.js');
const { FOR_EVER, NO_TAG } = require('./contract.js');
const { entryOf } = require('./local-details.js');
const { findBlockers } = require('./blockers.js');
const { LONGEST_NAME, hostError, nameTooLongError, notOpenError } = require('./host-errors.js');
const { PendingReleases } = require('./pending-releases.js');
const { detailedStateOf, detailsOf, stateOf } = require('./snapshots.js');
const { agentName } = require('./agent-name.js');
const { bucketClosedError } = require('../platform/errors.js');
const { Promise, now, then } = require('../platform/intrinsics.js');
const { hostname } = require('../platform/machine.js');
const { describeLock } = require('../platform/names.js');
const { programName } = require('../platform/program.js');
const fs = require('node:fs');
const path = require('node:path');
const process = require('node:process');
const { threadId } = require('node:worker_threads');
const { version } = require('../../package.json');

/** @import { ManagerHandle, Snapshot } from './addon.js' */
/** @import { Backend, LockManagerSnapshot, Requester } from './contract.js' */

const {
  DEADLOCK,
  FULL,
  GRANTED,
  LOST,
  NEWS_FAILED,
  NEWS_LOST,
  NEWS_NOT_AVAILABLE,
  NEWS_OTHER_LIMIT,
  NEWS_QUEUE_FULL,
  NOT_AVAILABLE,
  NO_MEMORY,
  OK,
  OTHER_LIMIT,
  PENDING,
  QUEUE_FULL,
  STOLEN,
  EXCLUSIVE,
  IF_AVAILABLE,
  NEWS_GRANTED,
  NEWS_PASSED,
  NEWS_STOLEN,
  PASS,
  PASS_IF_AVAILABLE,
  SHARED,
  STEAL,
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
 * A blocked thread returns to JavaScript after this many milliseconds, because Node.js can
 * terminate a thread only while it runs JavaScript.
 */
const SLICE_MS = 50;

const SNAPSHOT = 'taking a snapshot of the lock state';

/** Other processes see this many characters of the version of this package. */
const VERSION_LENGTH = 15;

/**
 * The result means nothing if nothing was stolen. Its client id has the form that
 * wlh_agent_client_id gives to client ids.
 * @param {number} at the offset of the thief in the exchange
 * @returns {import('./contract.js').Thief}
 */
function thiefAt(at) {
  const member = exchange[at].toString(16).padStart(8, '0');
  return { clientId: `${member}-${exchange[at + 1]}`, pid: exchange[at + 2] };
}

/** A job of the addon that is not a lock request, but has a tag and ends with an event. */
class Job {
  tag = NO_TAG;
  isDone = false;
  /** Receives the status in the event. @type {(status: number) => void} */
  settle = () => {};
  /** @type {Promise<number>} */
  done = new Promise((resolve) => {
    this.settle = (status) => {
      this.isDone = true;
      resolve(status);
    };
  });

  /** @param {HostBackend} backend */
  constructor(backend) {
    this.backend = backend;
  }
}

/** The locks of one storage bucket, which is opened at the first use. @implements {Backend} */
class HostBackend {
  #bucket;
  #directory;
  /** @type {ManagerHandle | undefined} */
  #opened;
  /** Keeps the addon's last failure after `close`. @type {string | undefined} */
  #failure;
  /** How many calls of `#ready` wait until the file is open. */
  #openings = 0;
  #releases = new PendingReleases();
  /** @type {string | undefined} */
  #id;

  /**
   * @param {string} bucket its id
   * @param {string} directory an absolute path; '' for WEB_LOCKS_DIRECTORY, or else the default
   */
  constructor(bucket, directory) {
    /** @type {Error | undefined} */
    this.closed = undefined;
    this.#bucket = bucket;
    this.#directory = directory;
  }

  /** Returns the handle, which the first call opens; throws if the bucket cannot be opened. */
  #open() {
    if (this.#opened) return this.#opened;
    const shown = version.slice(0, VERSION_LENGTH);
    const directory = this.#directory || directoryOfEnvironment();
    const name = agentName(programName(), threadName);
    const opened = addon.hostOpen(this.#bucket, shown, threadId, name, directory);
    if (typeof opened === 'number') throw this.#error(opened, 'opening a storage bucket');
    this.#id = this.#idAt(realPathOf(path.dirname(String(addon.hostPlace(opened)))));
    this.#opened = opened;
    return opened;
  }

  /** @param {number} status @param {string} doing */
  #error(status, doing) {
    return hostError(status, this.#failure ?? addon.hostFailure(this.#opened), doing);
  }

  /**
   * Equal for all handles of a bucket, even if they spell its directory differently. Reading it
   * opens the bucket.
   */
  get id() {
    try {
      if (this.closed === undefined) this.#open();
    } catch {
      // A bucket that cannot be opened has no locks.
    }
    return this.#id ?? this.#idAt(this.#directory);
  }

  /** @param {string} directory */
  #idAt(directory) {
    return `host ${directory}\n${this.#bucket}`;
  }

  /** The path of the bucket's directory, which may not exist yet. Reading it opens the bucket. */
  get place() {
    return String(addon.hostPlace(this.#open()));
  }

  get ready() {
    return this.#ready();
  }

  async #ready() {
    const doing = 'opening a storage bucket';
    const job = this.#startJob(() => addon.hostReady(this.#open()), doing);
    if (!job) return;
    this.#openings++;
    const status = await job.done;
    this.#openings--;
    if (this.closed) throw this.closed;
    agent.remove(/** @type {any} */ (job));
    if (status !== OK) throw this.#error(status, doing);
  }

  /**
   * See contract.js. Only `hostReady` says whether the file is open, so this calls `#ready`: if the
   * file is not open, that call waits, and `#openings` counts it.
   * @returns {Error | undefined} undefined also if the bucket is closed or was never used
   */
  outage() {
    if (this.closed || !this.#opened) return undefined;
    then(this.#ready(), undefined, () => {});
    return this.#openings > 0 ? notOpenError() : undefined;
  }

  /**
   * @param {() => number} call calls the addon, which reads the tag of the job from the exchange
   * @param {string} doing
   * @returns {Job | undefined} undefined if the job is already done; otherwise the caller must
   *   remove the job from the agent once it is done
   */
  #startJob(call, doing) {
    if (this.closed) throw this.closed;
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    const job = new Job(this);
    agent.add(/** @type {any} */ (job));
    exchange[TAG] = job.tag;
    let status = -1;
    try {
      status = call();
    } finally {
      if (status !== PENDING) agent.remove(/** @type {any} */ (job));
    }
    if (status === OK) return undefined;
    if (status !== PENDING) throw this.#error(status, doing);
    return job;
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
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    agent.add(request);
    exchange[TAG] = request.tag;
    exchange[MODE] = request.mode === 'shared' ? SHARED : EXCLUSIVE;
    exchange[OPTION] = disposition === 'wait' ? WAIT : options[disposition];
    const status = request.hasExtensions
      ? this.#requestExtra(opening, request)
      : addon.hostRequest(opening, name);
    // One of the events can be the theft of this lock, so they are applied after the grant.
    if (status === GRANTED) request.granted(exchange[TOKEN], exchange[TOKEN + 1]);
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status !== GRANTED && status !== PENDING) {
      agent.remove(request);
      this.#applyEnd(request, status, exchange[LIMIT]);
    }
  }

  /**
   * Passes the request with all its options to the addon, and returns the status.
   * @param {ManagerHandle} opening @param {Requester} request
   */
  #requestExtra(opening, { name, label, limit, weight, maxPending, priority }) {
    exchange[LIMIT] = limit ?? 0;
    exchange[WEIGHT] = weight ?? 1;
    exchange[MAX_PENDING] = maxPending ?? NO_MAXIMUM;
    exchange[PRIORITY] = priority ?? 0;
    return addon.hostRequestExtra(opening, name, label ?? '');
  }

  /**
   * Ends a request that has no lock, according to `status`; OK means that it passed.
   * @param {Requester} request @param {number} status @param {number} limit of the name
   */
  #applyEnd(request, status, limit) {
    if (status === NOT_AVAILABLE) request.unavailable();
    else if (status === OK) request.granted(0, 0);
    else if (status === OTHER_LIMIT) request.otherLimit?.(limit);
    else if (status === QUEUE_FULL) request.queueFull?.();
    else request.failed(() => this.#requestError(status, request.name));
  }

  /** @param {number} status @param {string} name */
  #requestError(status, name) {
    const doing = `requesting ${describeLock(name)}`;
    if (status === FULL && name.length > LONGEST_NAME) {
      return nameTooLongError(name, doing);
    }
    return this.#error(status, doing);
  }

  /** @param {Requester | Job} request @param {number} at the offset of the event */
  applyEvent(request, at) {
    const news = exchange[at + EVENT_NEWS];
    const number = exchange[at + EVENT_TOKEN];
    // The addon clears the events of a request that is undone. `finish` does the remaining work.
    if (news === 0) return;
    if (request instanceof Job) {
      request.settle(number);
      return;
    }
    // The promise of a release is resolved before the request loses its tag: if the stack
    // overflows, the event is applied again only while the request has the tag.
    const releasing = this.#releases.resolverOf(request);
    releasing?.();
    const isGranted = (news & NEWS_GRANTED) !== 0;
    // If the event is only a grant, nothing that could overflow the stack may follow: the event
    // would be applied again, and would grant a lock that may have been released in between.
    if (isGranted) {
      request.granted(number, exchange[at + EVENT_TOKEN + 1]);
      announcer.addAnswer(request);
    }
    // The event may also report that the lock was lost after the grant.
    if (news & NEWS_STOLEN) {
      agent.applyTheft(request, thiefAt(at + EVENT_THIEF));
    } else if (news & NEWS_PASSED) {
      agent.applyPass(request);
    } else if (news & NEWS_LOST) {
      agent.applyLoss(request, 'destroyed', () => this.#lossError());
    } else if (!isGranted) {
      if (!releasing) {
        this.#applyEnd(request, statusOfEvent(news, number), number);
        announcer.addAnswer(request);
      }
      agent.remove(request);
    }
    if (releasing) this.#releases.forget(request);
  }

  /** Call this once the lock is released or lost. @param {Requester} lock */
  #resolveRelease(lock) {
    this.#releases.resolverOf(lock)?.();
    this.#releases.forget(lock);
  }

  #lossError() {
    return this.#error(LOST, 'sharing locks with other processes');
  }

  /** Also releases the lock if it was granted meanwhile. @param {Requester} request */
  withdraw(request) {
    if (request.tag === NO_TAG) return;
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (request.tag === NO_TAG) return;
    exchange[TAG] = request.tag;
    addon.hostEnd();
    this.#resolveRelease(request);
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
    const status =
      keep === undefined
        ? addon.hostRelease()
        : addon.hostReleaseAndMark(keep === FOR_EVER ? -1 : Math.ceil(keep));
    const thief = thiefAt(THIEF);
    // One of the events can report the end of this release, so the promise is made first.
    const released = status === PENDING ? this.#releasePromise(lock) : undefined;
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status === STOLEN) agent.applyTheft(lock, thief);
    else if (status === LOST && keep !== undefined) {
      agent.applyLoss(lock, 'destroyed', () => this.#lossError());
    } else if (status !== PENDING) agent.remove(lock);
    return released;
  }

  /** Whether the name of the held lock is marked (see `keep`). @param {Requester} lock */
  marked(lock) {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (lock.tag === NO_TAG) return false;
    exchange[TAG] = lock.tag;
    return addon.hostIsMarked() === 1;
  }

  /**
   * @param {Requester} lock @param {string | undefined} text
   * @returns {boolean | Promise<boolean>}
   */
  publish(lock, text = '') {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (lock.tag === NO_TAG) return false;
    exchange[TAG] = lock.tag;
    const status = addon.hostPublish(text);
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status === NO_MEMORY) throw this.#publishError(status, lock.name);
    return status === PENDING ? this.#publishLater(lock, text) : status === OK;
  }

  /**
   * Publishes as soon as the shared tables can be entered. A release waits for that, too.
   * @param {Requester} lock @param {string} text
   */
  async #publishLater(lock, text) {
    const { name, tag } = lock;
    if (tag === NO_TAG) return false;
    const job = this.#startJob(
      () => addon.hostPublishLater(tag, text),
      `publishing what the holder of ${describeLock(name)} tells`,
    );
    if (!job) return true;
    const status = await job.done;
    if (this.closed) return false;
    agent.remove(/** @type {any} */ (job));
    if (status === OK) return true;
    // The event of a theft may follow at once.
    agent.drainEvents(false);
    this.announce();
    if (status === FULL || status === NO_MEMORY) throw this.#publishError(status, name);
    return false;
  }

  /** @param {number} status @param {string} name */
  #publishError(status, name) {
    return this.#error(status, `publishing what the holder of ${describeLock(name)} tells`);
  }

  /**
   * Makes the promise of a deferred release, which an event or `#resolveRelease` resolves.
   * @param {Requester} lock @returns {Promise<void>}
   */
  #releasePromise(lock) {
    let resolve = () => {};
    /** @type {Promise<void>} */
    const released = new Promise((settle) => {
      resolve = () => settle(undefined);
    });
    // Inside the promise's constructor, an exception of this call would be swallowed.
    this.#releases.add(lock, resolve);
    return released;
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
    const status = addon.hostAbort();
    const thief = thiefAt(THIEF);
    agent.drainEvents(false);
    if (status === STOLEN) agent.applyTheft(lock, thief);
    else if (status === LOST) agent.applyLoss(lock, 'destroyed', () => this.#lossError());
  }

  announce() {
    if (announcer.count > 0) announcer.announce(false);
  }

  /** @param {Requester} request @returns {boolean} true if a tick will announce the grant */
  deferAnnouncement(request) {
    const mayWait = announcer.count > 0 || announcer.lastAnnounced !== undefined;
    return mayWait && announcer.defer(request);
  }

  unfinished = agent.unfinished;
  undo = addon.undo;

  /** Does everything at once; async only because other backends wait. */
  async close() {
    if (this.closed) return;
    this.closed = bucketClosedError();
    if (!this.#opened) return;
    this.#failure = addon.hostFailure(this.#opened);
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    // Pending requests end first, so that the end of a lock grants none of them.
    const requests = agent.requestsOf(this);
    for (let i = 0; i < requests.length; i++) this.#closePending(requests[i], this.closed);
    const locks = agent.requestsOf(this);
    for (let i = 0; i < locks.length; i++) this.#closeLock(locks[i]);
    addon.hostClose(this.#opened);
    this.announce();
  }

  /**
   * Fails a pending request; ends a job or a deferred release. A lock remains for `#closeLock`.
   * @param {Requester | Job} request @param {Error} error if the request is pending
   */
  #closePending(request, error) {
    if (request.tag === NO_TAG) return;
    exchange[TAG] = request.tag;
    if (request instanceof Job || this.#releases.resolverOf(request)) {
      // Discards a snapshot that is complete but was not fetched yet.
      if (request instanceof Job) addon.hostTakeSnapshot(this.#open());
      addon.hostEnd();
      if (request instanceof Job) {
        request.settle(OK);
      } else {
        // The deferred release may not have marked the name.
        if (request.keep !== undefined) agent.applyLoss(request, 'closed');
        this.#resolveRelease(request);
      }
      agent.remove(/** @type {Requester} */ (request));
      return;
    }
    const status = addon.hostAbort();
    const thief = thiefAt(THIEF);
    const limit = exchange[LIMIT];
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status === GRANTED) {
      // The lock may have been granted without this thread's knowledge. The event of the grant is
      // applied now, because the release of the lock would drop it.
      agent.drainEvents(false);
      return;
    }
    if (status === STOLEN) {
      agent.applyTheft(request, thief);
      return;
    }
    agent.remove(request);
    if (status === OK) request.failed(() => error);
    else this.#applyEnd(request, status, limit);
    announcer.addAnswer(request);
  }

  /** Releases the lock, which then counts as lost or stolen. @param {Requester} lock */
  #closeLock(lock) {
    if (lock.tag === NO_TAG) return;
    exchange[TAG] = lock.tag;
    const status = addon.hostRelease();
    const thief = thiefAt(THIEF);
    if (status === PENDING) addon.hostEnd();
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status === STOLEN) agent.applyTheft(lock, thief);
    else if (status === LOST) agent.applyLoss(lock, 'destroyed', () => this.#lossError());
    else agent.applyLoss(lock, 'closed');
  }

  /**
   * Blocks the thread until the request is answered, at most for this time.
   * @param {Requester} request @param {number} milliseconds
   */
  wait(request, milliseconds) {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (request.tag === NO_TAG) return;
    exchange[TAG] = request.tag;
    const status = addon.hostWait(Math.ceil(milliseconds));
    const thief = thiefAt(THIEF);
    const limit = exchange[LIMIT];
    // The order is the same as in `request`.
    if (status === GRANTED) request.granted(exchange[TOKEN], exchange[TOKEN + 1]);
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    if (status === PENDING || status === GRANTED) return;
    if (status === STOLEN) {
      agent.applyTheft(request, thief);
      return;
    }
    agent.remove(request);
    if (status === DEADLOCK) request.deadlocked?.(this.#selfBlockingCycle(request));
    else this.#applyEnd(request, status, limit);
  }

  /**
   * Describes the deadlock of a thread that would block on itself: its request, and the lock or
   * request of the same thread for which it would wait.
   * @param {Requester} request
   */
  #selfBlockingCycle(request) {
    const cycle = [this.entryOf(request, false)];
    const requests = agent.requestsOn(this, request.name);
    for (let i = 0; i < requests.length && cycle.length < 2; i++) {
      const other = requests[i];
      if (other !== request)
        cycle[1] = this.entryOf(other, Boolean(/** @type {any} */ (other).held));
    }
    return cycle;
  }

  /**
   * Describes a request of this thread for errors, without a query.
   * @param {Requester} request @param {boolean} isHeld
   */
  entryOf(request, isHeld) {
    const clientId = addon.hostClientId(this.#open());
    const who = { clientId, host: hostname(), pid: process.pid, threadId, threadName };
    return entryOf(who, request, programName(), isHeld);
  }

  /** @param {string} [name] */
  async query(name) {
    return stateOf(await this.#snapshot(name, true));
  }

  /** @param {string} [name] */
  async details(name) {
    return detailedStateOf(await this.#snapshot(name, true));
  }

  /** Reads the holders at once, for messages only: they may have changed. @param {string} name */
  seenHolders(name) {
    if (this.closed || !this.#opened) return undefined;
    const snapshot = addon.hostHolders(this.#opened, name);
    if (typeof snapshot === 'number') return undefined;
    const clientId = addon.hostClientId(this.#opened);
    return findBlockers(detailsOf(snapshot), clientId, () => agent.tokensOf(this, name));
  }

  /**
   * @param {string} name @param {number} limit milliseconds
   * @returns {LockManagerSnapshot | undefined} undefined if the time ran out
   */
  querySync(name, limit) {
    const job = this.#startSnapshot(name, true);
    const end = now() + limit;
    try {
      while (job && !job.isDone) {
        const left = end - now();
        if (left <= 0) return undefined;
        exchange[TAG] = job.tag;
        addon.hostWaitForSnapshot(this.#open(), Math.ceil(Math.min(left, SLICE_MS)));
        agent.applyEvents();
      }
      return stateOf(this.#fetchSnapshot(job));
    } finally {
      if (job && !job.isDone) this.#discardSnapshot(job);
      // The loop may have applied events of other requests, which must be announced.
      this.announce();
    }
  }

  /** @param {string | undefined} name @param {boolean} pending whether to include requests */
  async #snapshot(name, pending) {
    const job = this.#startSnapshot(name, pending);
    await job?.done;
    return this.#fetchSnapshot(job);
  }

  /** Drops a snapshot for which nobody waits any longer. @param {Job} job */
  async #discardSnapshot(job) {
    try {
      await job.done;
      this.#fetchSnapshot(job);
    } catch {
      // Nobody waits for the error either.
    }
  }

  /** @param {string | undefined} name @param {boolean} pending */
  #startSnapshot(name, pending) {
    return this.#startJob(() => addon.hostSnapshot(this.#open(), name, pending), SNAPSHOT);
  }

  /** Also removes the job from the agent. @param {Job | undefined} job done @returns {Snapshot} */
  #fetchSnapshot(job) {
    if (this.closed) throw this.closed;
    exchange[TAG] = job?.tag ?? NO_TAG;
    const snapshot = addon.hostTakeSnapshot(this.#open());
    agent.remove(/** @type {any} */ (job));
    if (typeof snapshot === 'number') throw this.#error(snapshot, SNAPSHOT);
    return snapshot;
  }
}

/**
 * Reads the environment of this thread, because a worker can have its own. On Windows, an absolute
 * path is resolved here, as `openBucket` resolves its option: the addon puts `\\?\` before it, and
 * Windows takes `..` in such a path for a name. A path without a drive stays as it is, and the
 * addon refuses it, because it can mean another directory in each process.
 * @returns {string} '' if the environment names none
 */
function directoryOfEnvironment() {
  const { WEB_LOCKS_DIRECTORY: directory = '' } = process.env;
  const isResolved = process.platform === 'win32' && path.parse(directory).root.length > 2;
  return isResolved ? path.resolve(directory) : directory;
}

/**
 * The last part of the path is not resolved, because the addon refuses a link there.
 * @param {string} directory may not exist yet
 * @returns the path as given if its parent does not exist
 */
function realPathOf(directory) {
  try {
    return path.join(fs.realpathSync(path.dirname(directory)), path.basename(directory));
  } catch {
    return directory;
  }
}

/** The status that the event stands for. @param {number} news @param {number} number */
function statusOfEvent(news, number) {
  if (news & NEWS_NOT_AVAILABLE) return NOT_AVAILABLE;
  if (news & NEWS_OTHER_LIMIT) return OTHER_LIMIT;
  if (news & NEWS_QUEUE_FULL) return QUEUE_FULL;
  return news & NEWS_FAILED ? number : LOST;
}

module.exports = { HostBackend };
