'use strict';

/** Keeps the waiting requests of an object, so that the object can cancel them. */

const { uncurry } = require('../../platform/intrinsics.js');
const { PENDING } = require('../../standard/lock-request.js');

/** @typedef {InstanceType<typeof import('./request.js').Request>} Request */

const addTo = uncurry(Set.prototype.add);
const removeFrom = uncurry(Set.prototype.delete);
const forEachOf = uncurry(Set.prototype.forEach);

class Waiting {
  /** @type {Set<Request>} */
  #requests = new Set();

  /** @param {Request} request is ignored if it has its answer already */
  add(request) {
    if (request.state !== PENDING) return;
    addTo(this.#requests, request);
    request.among = this;
  }

  /** @param {Request} request */
  remove(request) {
    removeFrom(this.#requests, request);
  }

  /** Begins with the last request, so that no abort grants another. @param {unknown} reason */
  abort(reason) {
    /** @type {Request[]} */
    const requests = [];
    forEachOf(this.#requests, (/** @type {Request} */ request) => {
      requests[requests.length] = request;
    });
    // A request that was granted is not aborted, even if its answer was not announced yet.
    for (let i = requests.length - 1; i >= 0; i--) {
      if (requests[i].state === PENDING) requests[i].signalToAbort(reason);
    }
  }
}

module.exports = { Waiting };
