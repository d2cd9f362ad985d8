'use strict';

/** Leader election: the holder of a lock leads, and is a candidate again if the lock is lost. */

const { clearTimeout, now, setTimeout, Promise } = require('../../platform/intrinsics.js');
const { AbortSignal } = require('../../platform/realm.js');
const { abortedReason, follow, unfollow } = require('../../standard/abort.js');
const { LOST } = require('../../standard/lock-request.js');
const { publish } = require('../request/publish.js');
const { Request, originOfCall } = require('../request/request.js');
const { withSites } = require('../sites/sites.js');

/** @import { Backend, LockDetails } from '../../backend/contract.js' */
/** @import { RequestOptions } from '../options.js' */

/**
 * The pause, in milliseconds, between a loss and the next attempt. Each further loss doubles it, up
 * to LONGEST_PAUSE; a term that is longer than LONGEST_PAUSE resets it.
 */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 10_000;

/** A term of office, which the callback of `elect` receives. */
class Leader {
  #request;

  /** @param {InstanceType<typeof Request>} request @param {AbortSignal | undefined} signal */
  constructor(request, signal) {
    this.#request = request;
    this.name = request.name;
    this.token = request.token;
    const lost = request.lossSignal;
    this.signal = signal ? AbortSignal.any([lost, signal]) : lost;
    Object.freeze(this);
  }

  get held() {
    return this.#request.checkHeld();
  }

  /** See `publish` of Lock. @param {unknown} value @returns {Promise<boolean>} */
  async publish(value) {
    return publish(this.#request, value, 'Leader');
  }

  /** JSON.stringify does not accept a bigint. */
  toJSON() {
    const { name, held, token } = this;
    return { name, held, token: `${token}` };
  }
}

/** The request of a candidate for one term. */
class Candidate extends Request {
  /** The promise of the callback, once the callback was called. @type {any} */
  #term;
  #began = 0;

  /**
   * @param {Backend} backend @param {string} name @param {RequestOptions} options
   * @param {import('../sites/origin.js').Origin | undefined} origin
   */
  constructor(backend, name, options, origin) {
    super(backend, name, options);
    if (origin) this.origin = origin;
  }

  /** The constructor sets `origin`. @override */
  get hasSite() {
    return true;
  }

  /** @override @param {(leader: Leader) => any} callback */
  callCallback(callback) {
    this.#began = now();
    const leader = new Leader(this, this.options.signal);
    this.#term = (async () => super.callCallback(callback, leader))();
    return this.#term;
  }

  /**
   * Waits for the end of the callback, so that the terms of this candidate never overlap.
   * @param {unknown} loss
   * @returns {Promise<number>} milliseconds that the term lasted
   * @throws {unknown} the error of the callback, unless it is the loss or an AbortError
   */
  async waitForCallback(loss) {
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
 * @param {Backend} backend @param {string} name @param {RequestOptions} options
 * @param {(leader: Leader) => any} callback @param {Function} callee see `originOf`
 * @returns {Promise<any>} the result of the first term that ends without a loss
 */
async function elect(backend, name, options, callback, callee) {
  const origin = originOfCall(options, callee);
  let pause = FIRST_PAUSE;
  while (true) {
    const candidate = new Candidate(backend, name, options, origin);
    try {
      return await candidate.start(/** @type {any} */ (callback));
    } catch (error) {
      if (candidate.state !== LOST) throw error;
      if ((await candidate.waitForCallback(error)) > LONGEST_PAUSE) pause = FIRST_PAUSE;
    }
    // The random part spreads the attempts of candidates that lost their locks at the same time.
    await sleep(pause * (0.5 + Math.random() / 2), options.signal);
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }
}

/**
 * @param {number} milliseconds @param {AbortSignal | undefined} signal
 * @returns {Promise<void>} rejects with the signal's reason as soon as the signal aborts
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

/** @param {Backend} backend @param {string} name @returns {Promise<LockDetails | null>} */
async function leaderOf(backend, name) {
  const { held } = await withSites(backend, backend.details(name));
  return held[0] ?? null;
}

module.exports = { elect, leaderOf };
