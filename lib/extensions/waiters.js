'use strict';

/** The requests of an object that wait, so that it can give them up. */

const { uncurry } = require('../platform/intrinsics.js');
const { PENDING } = require('../standard/lock-request.js');

/** @typedef {InstanceType<typeof import('./request.js').Request>} Request */

/** Methods that nobody can replace. */
const addTo = uncurry(Set.prototype.add);
const removeFrom = uncurry(Set.prototype.delete);
const forEachOf = uncurry(Set.prototype.forEach);

class Waiting {
  /** @type {Set<Request>} */
  #requests = new Set();

  /** @param {Request} request that was made, and may be answered already */
  add(request) {
    if (request.state !== PENDING) return;
    addTo(this.#requests, request);
    request.among = this;
  }

  /** @param {Request} request */
  remove(request) {
    removeFrom(this.#requests, request);
  }

  /**
   * Rejects them. The last one first, so that no other one of them is granted meanwhile.
   * @param {unknown} reason
   */
  abort(reason) {
    /** @type {Request[]} */
    const requests = [];
    forEachOf(this.#requests, (/** @type {Request} */ request) => {
      requests[requests.length] = request;
    });
    // A request that is no longer pending has its answer.
    for (let i = requests.length - 1; i >= 0; i--) {
      if (requests[i].state === PENDING) requests[i].signalToAbort(reason);
    }
  }
}

module.exports = { Waiting };
