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
   * Aborts all requests that are pending now, even one that the end of another grants. All of them
   * end before users are notified, who could otherwise get a lock that is released at once.
   * @param {unknown} reason
   */
  abort(reason) {
    /** @type {Request[]} */
    const pending = [];
    forEachOf(this.#requests, (/** @type {Request} */ request) => {
      // A request that was granted is not aborted, even if its answer was not announced yet.
      if (request.isPending) pending[pending.length] = request;
    });
    /** @type {Request[]} */
    const ended = [];
    for (let i = 0; i < pending.length; i++)
      if (pending[i].withdraw()) ended[ended.length] = pending[i];
    for (let i = 0; i < ended.length; i++) ended[i].announceAbort(reason);
  }
}

module.exports = { Waiting };
