'use strict';

/** Leader election: the holder of the lock leads; a leader that loses it stands again. */

const { clearTimeout, now, setTimeout, Promise } = require('../platform/intrinsics.js');
const { AbortSignal } = require('../platform/realm.js');
const { abortedReason, follow, unfollow } = require('../standard/abort.js');
const { LOST } = require('../standard/lock-request.js');
const { Request } = require('./request.js');
const { withSites } = require('./sites.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('./options.js').RequestOptions} RequestOptions */

/** Milliseconds before standing again after a loss, twice as many after each further one. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 10_000;

/** A term of office: what the callback of `elect` gets. */
class Leader {
  #request;

  /**
   * @param {InstanceType<typeof Request>} request granted
   * @param {AbortSignal | undefined} signal of the election
   */
  constructor(request, signal) {
    this.#request = request;
    this.name = request.name;
    this.token = request.token;
    const lost = request.lossSignal;
    this.signal = signal ? AbortSignal.any([lost, signal]) : lost;
    Object.freeze(this);
  }

  /** @returns {boolean} whether it leads at this moment */
  get held() {
    return this.#request.holds;
  }

  /** For JSON.stringify, which does not take a bigint. */
  toJSON() {
    const { name, held, token } = this;
    return { name, held, token: `${token}` };
  }
}

/** Stands once. */
class Candidate extends Request {
  /** What the callback returned, once it was called. @type {any} */
  #term;
  /** When it was called, as `now()` tells it. */
  #began = 0;

  /**
   * @override
   * @param {(leader: Leader) => any} callback
   */
  call(callback) {
    this.#began = now();
    const leader = new Leader(this, this.options.signal);
    this.#term = (async () => super.call(callback, leader))();
    return this.#term;
  }

  /**
   * Waits until the callback of a term that was lost has come to its end: one at a time.
   * @param {unknown} loss why
   * @returns {Promise<number>} milliseconds that it led
   * @throws {unknown} what it failed with, if that is not the loss
   */
  async end(loss) {
    const led = now() - this.#began;
    try {
      await this.#term;
    } catch (error) {
      if (error !== loss && /** @type {any} */ (error)?.name !== 'AbortError') throw error;
    }
    return led;
  }
}

/**
 * @param {Backend} backend
 * @param {string} name the resource name
 * @param {Readonly<RequestOptions>} options valid together
 * @param {(leader: Leader) => any} callback called each time it is elected
 * @returns {Promise<any>} what the callback returned, unless it had lost by then
 */
async function elect(backend, name, options, callback) {
  let pause = FIRST_PAUSE;
  while (true) {
    const candidate = new Candidate(backend, name, options);
    try {
      return await candidate.start(/** @type {any} */ (callback));
    } catch (error) {
      if (candidate.state !== LOST) throw error;
      if ((await candidate.end(error)) > LONGEST_PAUSE) pause = FIRST_PAUSE;
    }
    // Not in step with others who lost at the same time.
    await sleep(pause * (0.5 + Math.random() / 2), options.signal);
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }
}

/**
 * @param {number} milliseconds
 * @param {AbortSignal | undefined} signal
 * @returns {Promise<void>} rejects with the signal's reason as soon as that aborts
 */
function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const aborted = signal && abortedReason(signal);
    if (aborted) {
      reject(aborted.reason);
      return;
    }
    const follower = {
      tag: 0,
      backend: { unfinished: [], undo() {} },
      finish() {},
      signalToAbort(/** @type {unknown} */ reason) {
        clearTimeout(timer);
        reject(reason);
      },
    };
    const timer = setTimeout(() => {
      if (signal) unfollow(signal, follower);
      resolve();
    }, milliseconds);
    if (signal) follow(signal, follower);
  });
}

/**
 * @param {Backend} backend
 * @param {string} name the resource name
 * @returns {Promise<import('../backend/contract.js').LockDetails | null>} who leads
 */
async function leaderOf(backend, name) {
  const { held } = await withSites(backend, backend.details(name));
  return held[0] ?? null;
}

module.exports = { elect, leaderOf };
