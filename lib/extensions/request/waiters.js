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

  /** @param {Request} request a request that was made, and may already have its answer */
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
   * Rejects the requests, beginning with the last one, so that the end of a request does not grant
   * one of the others.
   * @param {unknown} reason
   */
  abort(reason) {
    /** @type {Request[]} */
    const requests = [];
    forEachOf(this.#requests, (/** @type {Request} */ request) => {
      requests[requests.length] = request;
    });
    // A request that is no longer pending already has its answer.
    for (let i = requests.length - 1; i >= 0; i--) {
      if (requests[i].state === PENDING) requests[i].signalToAbort(reason);
    }
  }
}

module.exports = { Waiting };
