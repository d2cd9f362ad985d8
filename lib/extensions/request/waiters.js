'use strict';

/** Keeps the waiting requests of an object, so that the object can cancel them. */

const { uncurry } = require('../../platform/intrinsics.js');

/** @typedef {InstanceType<typeof import('./request.js').Request>} Request */

const addTo = uncurry(Set.prototype.add);
const removeFrom = uncurry(Set.prototype.delete);
const forEachOf = uncurry(Set.prototype.forEach);

class Waiting {
  /** @type {Set<Request>} */
  #requests = new Set();

  /** @param {Request} request is ignored if it has its answer already */
  add(request) {
    if (!request.isPending) return;
    addTo(this.#requests, request);
    request.among = this;
  }

  /** @param {Request} request */
  remove(request) {
    removeFrom(this.#requests, request);
  }

  /**
   * Aborts all requests that are pending now, even one that the abort of another grants.
   * @param {unknown} reason
   */
  abort(reason) {
    /** @type {Request[]} */
    const requests = [];
    forEachOf(this.#requests, (/** @type {Request} */ request) => {
      // A request that was granted is not aborted, even if its answer was not announced yet.
      if (request.isPending) requests[requests.length] = request;
    });
    for (let i = 0; i < requests.length; i++) requests[i].signalToAbort(reason);
  }
}

module.exports = { Waiting };
