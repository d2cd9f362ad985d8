'use strict';

/** The scope of the machine: the locks that all its processes share, in the host scope. */

const { TAG, addon } = require('./addon.js');
const { AddonBackend } = require('./addon-backend.js');
const { agent, exchange, threadName } = require('./agent.js');
const { NO_TAG } = require('./contract.js');
const { findBlockers } = require('./blockers.js');
const { HostBucket } = require('./host-bucket.js');
const { notOpenError } = require('./host-errors.js');
const { Jobs } = require('./jobs.js');
const { entryOf } = require('./local-details.js');
const { detailedStateOf, stateOf } = require('./snapshots.js');
const { now, then } = require('../platform/intrinsics.js');
const { hostname } = require('../platform/machine.js');
const { describeLock } = require('../platform/names.js');
const { programName } = require('../platform/program.js');
const process = require('node:process');
const { threadId } = require('node:worker_threads');

/** @import { ManagerHandle, Snapshot } from './addon.js' */
/** @import { Backend, LockManagerSnapshot, Requester } from './contract.js' */
/** @typedef {ReturnType<InstanceType<typeof Jobs>['start']>} Job */

const { FULL, NO_MEMORY, OK } = addon;

/**
 * A blocked thread returns to JavaScript after this many milliseconds, because Node.js can
 * terminate a thread only while it runs JavaScript.
 */
const SLICE_MS = 50;

const OPENING = 'opening a storage bucket';
const SNAPSHOT = 'taking a snapshot of the lock state';

/** The locks of one storage bucket, which is opened at the first use. @implements {Backend} */
class HostBackend extends AddonBackend {
  #bucket;
  /** How many calls of `#ready` wait until the file is open. */
  #openings = 0;

  /**
   * @param {string} bucketId
   * @param {string} directory an absolute path; '' for WEB_LOCKS_DIRECTORY, or else the default
   */
  constructor(bucketId, directory) {
    const bucket = new HostBucket(bucketId, directory);
    super(bucket);
    this.#bucket = bucket;
    this.jobs = new Jobs((status, doing) => bucket.errorOf(status, doing));
  }

  /**
   * Equal for all handles of a bucket, even if they spell its directory differently. Reading it
   * opens the bucket.
   */
  get id() {
    try {
      if (this.closed === undefined) this.#bucket.open();
    } catch {
      // A bucket that cannot be opened has no locks.
    }
    return this.#bucket.id;
  }

  /** The path of the bucket's directory, which may not exist yet. Reading it opens the bucket. */
  get place() {
    return String(addon.hostPlace(this.#bucket.open()));
  }

  get ready() {
    return this.#ready();
  }

  async #ready() {
    const job = this.#startJob(() => addon.hostReady(this.#bucket.open()), OPENING);
    if (!job) return;
    this.#openings++;
    const status = await job.done;
    this.#openings--;
    if (this.closed) throw this.closed;
    this.jobs.remove(job);
    if (status !== OK) throw this.#bucket.errorOf(status, OPENING);
  }

  /**
   * See contract.js. Only `hostReady` says whether the file is open, so this calls `#ready`: if the
   * file is not open, that call waits, and `#openings` counts it.
   * @returns {Error | undefined} undefined also if the bucket is closed or was never used
   */
  outage() {
    if (this.closed || !this.#bucket.handle) return undefined;
    then(this.#ready(), undefined, () => {});
    return this.#openings > 0 ? notOpenError() : undefined;
  }

  /** See Jobs. @param {() => number} call @param {string} doing */
  #startJob(call, doing) {
    if (this.closed) throw this.closed;
    return this.jobs.start(call, doing);
  }

  /**
   * Publishes as soon as the shared tables can be entered. A release waits for that, too.
   * @override @param {Requester} lock @param {string} text
   */
  async publishLater(lock, text) {
    const { name, tag } = lock;
    if (tag === NO_TAG) return false;
    const job = this.#startJob(
      () => addon.hostPublishLater(tag, text),
      `publishing what the holder of ${describeLock(name)} tells`,
    );
    if (!job) return true;
    const status = await job.done;
    if (this.closed) return false;
    this.jobs.remove(job);
    if (status === OK) return true;
    // The event of a theft may follow at once.
    agent.drainEvents(false);
    this.announce();
    if (status === FULL || status === NO_MEMORY) throw this.publishError(status, name);
    return false;
  }

  /** @override @param {ManagerHandle} handle */
  endJobs(handle) {
    this.#bucket.keepFailure();
    this.jobs.end(handle);
  }

  /**
   * Describes the deadlock of a thread that would block on itself: its request, and the lock or
   * request of the same thread for which it would wait.
   * @override @param {Requester} request
   */
  cycleOf(request) {
    const cycle = [this.entryOf(request, false)];
    const requests = agent.requestsOn(this, request.name);
    for (let i = 0; i < requests.length && cycle.length < 2; i++) {
      const other = requests[i];
      if (other !== request) cycle[1] = this.entryOf(other, other.isGranted);
    }
    return cycle;
  }

  /**
   * Describes a request of this thread for errors, without a query.
   * @param {Requester} request @param {boolean} isHeld
   */
  entryOf(request, isHeld) {
    const clientId = addon.hostClientId(this.#bucket.open());
    const who = { clientId, host: hostname(), pid: process.pid, threadId, threadName };
    return entryOf(who, request, programName(), isHeld);
  }

  /** @param {string} [name] */
  async query(name) {
    return stateOf(await this.#snapshot(name));
  }

  /** @param {string} [name] */
  async details(name) {
    return detailedStateOf(await this.#snapshot(name));
  }

  /** Reads the holders at once, for messages only: they may have changed. @param {string} name */
  seenHolders(name) {
    const holders = this.readHolders(name);
    if (!holders) return undefined;
    const clientId = addon.hostClientId(this.#bucket.open());
    return findBlockers(holders, clientId, () => agent.tokensOf(this, name));
  }

  /**
   * @param {string} name @param {number} limit milliseconds
   * @returns {LockManagerSnapshot | undefined} undefined if the time ran out
   */
  querySync(name, limit) {
    const job = this.#startSnapshot(name);
    const end = now() + limit;
    try {
      while (job && !job.isDone) {
        const left = end - now();
        if (left <= 0) return undefined;
        exchange[TAG] = job.tag;
        const slice = Math.ceil(Math.min(left, SLICE_MS));
        addon.hostWaitForSnapshot(this.#bucket.open(), slice);
        agent.applyEvents();
      }
      return stateOf(this.#fetchSnapshot(job));
    } finally {
      if (job && !job.isDone) this.#discardSnapshot(job);
      // The loop may have applied events of other requests, which must be announced.
      this.announce();
    }
  }

  /** @param {string | undefined} name */
  async #snapshot(name) {
    const job = this.#startSnapshot(name);
    await job?.done;
    return this.#fetchSnapshot(job);
  }

  /** @param {string | undefined} name */
  #startSnapshot(name) {
    return this.#startJob(() => addon.hostSnapshot(this.#bucket.open(), name), SNAPSHOT);
  }

  /** Drops a snapshot for which nobody waits any longer. @param {NonNullable<Job>} job */
  async #discardSnapshot(job) {
    try {
      await job.done;
      this.#fetchSnapshot(job);
    } catch {
      // Nobody waits for the error either.
    }
  }

  /** Ends the job, too. @param {Job} job done @returns {Snapshot} */
  #fetchSnapshot(job) {
    if (this.closed) throw this.closed;
    exchange[TAG] = job?.tag ?? NO_TAG;
    const snapshot = addon.hostTakeSnapshot(this.#bucket.open());
    this.jobs.remove(job);
    if (typeof snapshot === 'number') throw this.#bucket.errorOf(snapshot, SNAPSHOT);
    return snapshot;
  }
}

module.exports = { HostBackend };
