'use strict';

/**
 * Ends requests that the server does not serve, because their session is lost or closed, because
 * the server refuses this client, or because it has not answered them in time.
 */

const { unreachableError } = require('../errors.js');
const { outcomeOnSessionEnd } = require('./outcomes.js');
const { ASKED, waits } = require('./tracked-request.js');

/** @import { Listener, Reason } from './session.js' */
/** @import { Outcome } from './outcomes.js' */
/** @typedef {InstanceType<typeof import('./tracked-request.js').TrackedRequest>} TrackedRequest */

const UNKNOWN = 'The server did not say whether the lock was stolen';

class Losses {
  #grants;
  #listener;
  #outage;
  #requests;
  #sendQueue;
  #status;
  #end;

  /**
   * @param {object} parts of the session
   * @param {InstanceType<typeof import('./grants.js').Grants>} parts.grants
   * @param {Listener} parts.listener
   * @param {InstanceType<typeof import('./outage.js').Outage>} parts.outage
   * @param {InstanceType<typeof import('./request-table.js').RequestTable>} parts.requests
   * @param {InstanceType<typeof import('./send-queue.js').SendQueue>} parts.sendQueue
   * @param {InstanceType<typeof import('./status.js').Status>} parts.status
   * @param {(tracked: TrackedRequest) => void} end withdraws a request
   */
  constructor(parts, end) {
    this.#grants = parts.grants;
    this.#listener = parts.listener;
    this.#outage = parts.outage;
    this.#requests = parts.requests;
    this.#sendQueue = parts.sendQueue;
    this.#status = parts.status;
    this.#end = end;
  }

  /** What becomes of each request in the next session. Call this before `SendQueue.clear`. */
  plan() {
    return this.#requests.all().map((tracked) => ({
      tracked,
      outcome: outcomeOnSessionEnd(tracked, 'lost', this.#sendQueue.isInFlight(tracked.op)),
    }));
  }

  /**
   * Carries out what `plan` returned. Requests that were not held are made again in the next
   * session, or fail if the server refuses this client.
   * @param {{ tracked: TrackedRequest, outcome: Outcome }[]} planned
   * @param {Reason} reason @param {unknown} cause
   */
  carryOut(planned, reason, cause) {
    const { refusal } = this.#outage;
    const pending = [];
    for (const { tracked, outcome } of planned) {
      this.#requests.leave(tracked);
      if (outcome === 'lost') this.#listener.lost(tracked, reason, cause);
      else if (outcome === 'failed')
        this.#listener.failed(tracked, this.#outage.timeoutError(UNKNOWN));
      else if (outcome !== 'again') continue;
      else if (refusal === undefined) pending.push(tracked);
      else this.#listener.failed(tracked, refusal);
    }
    for (const group of grouped(pending)) this.#grants.requestAgain(group);
  }

  /**
   * Ends all requests of a session that is closed for good.
   * @param {Reason} reason for locks @param {unknown} error for requests @param {unknown} cause
   * @returns {TrackedRequest[]} those that the user has given up, which end with the session
   */
  endAll(reason, error, cause) {
    const ending = [];
    for (const tracked of this.#requests.all()) {
      const outcome = outcomeOnSessionEnd(tracked, 'closed', false);
      if (outcome === 'kept') {
        ending.push(tracked);
        continue;
      }
      this.#requests.leave(tracked);
      if (outcome === 'lost') this.#listener.lost(tracked, reason, cause);
      else this.#listener.failed(tracked, error);
    }
    return ending;
  }

  /** Fails the requests that have no answer yet. @param {unknown} error of a server that refuses */
  refuse(error) {
    for (const tracked of this.#requests.all())
      if (tracked.state === ASKED) this.#giveUp(tracked, error, error);
  }

  /**
   * Fails each request that must not wait, such as an `ifAvailable`, if it has no answer a `ttl`
   * after it was made.
   * @param {number} now @returns {number} when the next request fails; Infinity for none
   */
  failUnanswered(now) {
    const { ttl } = this.#status;
    let next = Number.POSITIVE_INFINITY;
    for (const tracked of this.#requests.all()) {
      if (waits(tracked.op) || tracked.state !== ASKED) continue;
      const end = tracked.asked + ttl;
      if (end > now) {
        next = Math.min(next, end);
        continue;
      }
      const { obstacle = this.#outage.reason } = tracked;
      const what = `The server did not execute the request within ${ttl} ms`;
      this.#giveUp(tracked, unreachableError(what, obstacle), obstacle);
    }
    return next;
  }

  /**
   * Ends an unanswered request and fails it with `error`. If it is a theft that was sent, the
   * server may have executed it: then it fails with an error that says so and has this `cause`.
   * @param {TrackedRequest} tracked @param {unknown} error @param {unknown} cause
   */
  #giveUp(tracked, error, cause) {
    const isUnknown = tracked.op.kind === 'steal' && this.#sendQueue.isInFlight(tracked.op);
    this.#end(tracked);
    this.#listener.failed(tracked, isUnknown ? unreachableError(UNKNOWN, cause) : error);
  }
}

/** Puts the members of each group together. @param {TrackedRequest[]} requests */
function grouped(requests) {
  /** @type {TrackedRequest[][]} */
  const groups = [];
  for (const tracked of requests) {
    const last = groups.at(-1);
    if (last && tracked.op.group !== 0 && last[0].op.group === tracked.op.group) last.push(tracked);
    else groups.push([tracked]);
  }
  return groups;
}

module.exports = { Losses };
