'use strict';

/** Acquires and releases the locks of files, and keeps the table of this thread's file locks. */

const { idOfBucket } = require('../backend/bucket-ids.js');
const { HostBackend } = require('../backend/host.js');
const { LockTimeoutError } = require('../extensions/errors/lock-errors.js');
const { HeldRequest } = require('../extensions/request/lock-handle.js');
const { defaultOptions } = require('../extensions/options.js');
const { ANSWER_MS } = require('../extensions/watch/time-limits.js');
const { report } = require('../platform/intrinsics.js');
const { LOST } = require('../standard/lock-request.js');
const { compromisedError, lockedError } = require('./errors.js');

/** @typedef {import('./path.js').Place} Place */

/** All programs share this bucket. `openBucket('web-locks/lockfile')` opens it, too. */
const backend = new HostBackend(idOfBucket('web-locks/lockfile'), '');

/** The locks of this thread, by name. @type {Map<string, FileLock>} */
const locks = new Map();

/** @param {number} wait milliseconds */
function requestOptions(wait) {
  if (wait === 0) return { ...defaultOptions, ifAvailable: true };
  return wait === Number.POSITIVE_INFINITY ? defaultOptions : { ...defaultOptions, timeout: wait };
}

class FileLock extends HeldRequest {
  #file;
  #onCompromised;

  /** @param {Place} place @param {import('./options.js').Options} options */
  constructor({ file, name }, { wait, onCompromised }) {
    super(backend, name, requestOptions(wait));
    this.#file = file;
    this.#onCompromised = onCompromised;
  }

  /** @throws {Error} if the lock is not acquired */
  async take() {
    try {
      this.#register(await this.acquire());
    } catch (error) {
      throw this.#toError(error);
    }
  }

  /** Like `take`, but never waits for a holder. @throws {Error} if the lock is not acquired */
  takeSync() {
    try {
      this.#register(this.acquireSync(0));
    } catch (error) {
      throw this.#toError(error);
    }
  }

  /** Throws if the lock was not granted, or is lost again. @param {FileLock | null} granted */
  #register(granted) {
    if (!granted) throw lockedError(this.#file);
    // The lock can be lost between the grant and this point.
    this.#throwIfLost();
    locks.set(this.name, this);
  }

  /** Replaces a timeout, and returns any other error unchanged. @param {unknown} error */
  #toError(error) {
    return error instanceof LockTimeoutError ? lockedError(this.#file, error) : error;
  }

  /** @returns {boolean} whether the lock was still registered: not released and not lost */
  unregister() {
    return locks.get(this.name) === this && locks.delete(this.name);
  }

  /** Releases the lock. @throws {Error} if the lock was lost */
  async end() {
    await this.giveBack();
    this.#throwIfLost();
  }

  /**
   * Like `end`, but does not wait. If the release is deferred, it is still executed before any
   * later request of this thread.
   */
  endSync() {
    this.giveBack();
    this.#throwIfLost();
  }

  #throwIfLost() {
    if (this.state === LOST) throw compromisedError(this.#file, this.lossReason());
  }

  /**
   * If the lock is still registered, this unregisters it and calls `onCompromised`.
   * @override @param {boolean} fromEvents
   */
  publishLoss(fromEvents) {
    super.publishLoss(fromEvents);
    if (locks.get(this.name) !== this) return;
    const error = compromisedError(this.#file, this.lossReason());
    this.unregister();
    try {
      this.#onCompromised(error);
    } catch (thrown) {
      report(thrown);
    }
  }
}

/** @param {Place} place @returns {FileLock | undefined} */
const heldHere = ({ name }) => locks.get(name);

/** @param {Place} place @returns {Promise<boolean>} whether anybody holds the lock */
const isLocked = async ({ name }) => (await backend.query(name)).held.length > 0;

/**
 * Throws `ELOCKED` if the state of the lock cannot be read in time.
 * @param {Place} place @returns {boolean} whether anybody holds the lock
 */
function isLockedSync({ file, name }) {
  const state = backend.querySync(name, ANSWER_MS);
  // If there is no answer, a process was stopped while it changed the locks.
  if (!state) throw lockedError(file);
  return state.held.length > 0;
}

module.exports = { FileLock, heldHere, isLocked, isLockedSync };
