'use strict';

const { follow, unfollow } = require('./abort.js');
const { stolenError } = require('./errors.js');
const { createLock } = require('./lock.js');

/**
 * One lock request (2.5), from `LockManager.request` until its released promise is settled. It is
 * what a backend calls (`Requester` in backend.js) and what an abort signal calls.
 *
 * Its callback runs in a microtask, in the async context of the `request()` call: `#serve` begins
 * in that call and continues after an `await`.
 */
class LockRequest {
  /** For the backend's use. */
  tag = 0;

  #backend;
  #callback;
  #signal;
  /** Settle the released promise; calls after the first do nothing. */
  #resolve;
  #reject;
  /** Ends the wait for an answer. @type {(() => void) | undefined} */
  #proceed;
  /** Whether the backend answered: `granted` or `unavailable`. */
  #answered = false;
  #granted = false;
  #stolen = false;
  /** Whether there is nothing to do any more: aborted, or failed. */
  #ended = false;

  /**
   * @param {import('./backend.js').Backend} backend
   * @param {string} name the resource name
   * @param {import('./webidl.js').LockOptions} options valid together (3.2.1)
   * @param {(lock: any) => any} callback
   * @param {(value: any) => void} resolve of the released promise
   * @param {(reason: unknown) => void} reject of the released promise
   */
  constructor(backend, name, options, callback, resolve, reject) {
    this.name = name;
    this.mode = options.mode;
    /** @type {import('./backend.js').Disposition} */
    this.disposition = options.steal ? 'steal' : options.ifAvailable ? 'ifAvailable' : 'wait';
    this.#backend = backend;
    this.#callback = callback;
    this.#signal = options.signal;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** Request a lock (4.1). */
  start() {
    if (this.#signal) follow(this.#signal, this);
    this.#backend.request(this);
    if (!this.#ended) this.#serve();
  }

  // What a backend calls.

  granted() {
    this.#granted = true;
    this.#answer();
  }

  unavailable() {
    this.#answer();
  }

  stolen() {
    this.#stolen = true;
    this.#reject(stolenError(this.name));
  }

  /** @param {unknown} error */
  failed(error) {
    this.#end(error);
    this.#stopFollowing();
  }

  #answer() {
    this.#answered = true;
    this.#proceed?.();
  }

  // What an abort signal calls.

  /**
   * Signal to abort the request (4.3). The signal is followed until the callback is invoked.
   * @param {unknown} reason
   */
  signalToAbort(reason) {
    this.#end(reason);
    if (!this.#stolen) this.#backend.withdraw(this);
  }

  /** @param {unknown} reason */
  #end(reason) {
    this.#ended = true;
    this.#reject(reason);
  }

  #stopFollowing() {
    if (this.#signal) unfollow(this.#signal, this);
  }

  // From the answer to the settled promise.

  /** Never rejects. */
  async #serve() {
    if (this.#answered) await undefined;
    else await new Promise((resolve) => (this.#proceed = () => resolve(undefined)));
    if (this.#ended) return;
    this.#stopFollowing();
    const callback = this.#callback;
    let settle = this.#resolve;
    let result;
    try {
      result = await callback(this.#granted ? createLock(this.name, this.mode) : null);
    } catch (error) {
      settle = this.#reject;
      result = error;
    }
    // The waiting promise has settled (2.4): release the lock, then resolve the released promise.
    if (this.#granted && !this.#stolen) {
      const released = this.#backend.release(this);
      if (!(typeof released === 'boolean' ? released : await released)) this.stolen();
    }
    settle(result);
  }
}

module.exports = { LockRequest };
