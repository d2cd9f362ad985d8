'use strict';

/**
 * Ends requests that the server does not serve, because their session is lost or closed, because
 * the server refuses this client, or because it has not answered them in time.
 */

const { waits } = require('../adapter.js');
const { unreachableError } = require('./outage.js');
const { ASKED, ENDING, GRANTED_PARTIAL, HELD, WAITING } = require('./tracked-request.js');

/** @import { Reason } from './session.js' */
/** @typedef {InstanceType<typeof import('./tracked-request.js').TrackedRequest>} TrackedRequest */
/** @typedef {InstanceType<typeof import('./parts.js').SessionParts>} Parts */

const UNKNOWN = 'The server did not say whether the lock was stolen';

/**
 * - `again`: the next session requests the lock again
 * - `lost`: the lock is lost, or it is unknown whether the name was marked
 * - `failed`: the request fails
 * - `over`: the user had already given up the request
 * - `kept`: the user had already given up the request, and it ends when the session is closed
 * @typedef {'again' | 'lost' | 'failed' | 'over' | 'kept'} Outcome
 */

/** @type {Record<'lost' | 'closed', Record<number, Outcome>>} */
const OUTCOMES = {
  lost: {
    [ASKED]: 'again',
    [WAITING]: 'again',
    [GRANTED_PARTIAL]: 'again',
    [HELD]: 'lost',
    [ENDING]: 'over',
  },
  closed: {
    [ASKED]: 'failed',
    [WAITING]: 'failed',
    [GRANTED_PARTIAL]: 'failed',
    [HELD]: 'lost',
    [ENDING]: 'kept',
  },
};

/**
 * What happens to a request when its session ends: because it is lost and the next one opens, or
 * because it is closed for good. A theft without an answer fails, because the server may have
 * executed it: a repetition could rob a second holder (R1).
 * @param {TrackedRequest} tracked @param {'lost' | 'closed'} end @param {boolean} isSent
 */
function outcomeOnSessionEnd({ op, state, markFor }, end, isSent) {
  if (state === ASKED && isSent && op.kind === 'steal') return 'failed';
  if (state === ENDING && markFor > 0) return 'lost';
  return OUTCOMES[end][state];
}

class Losses {
  #parts;

  /** @param {Parts} parts */
  constructor(parts) {
    this.#parts = parts;
  }

  /** What becomes of each request in the next session. Call this before `SendQueue.clear`. */
  plan() {
    return this.#parts.requests.all().map((tracked) => ({
      tracked,
      outcome: outcomeOnSessionEnd(tracked, 'lost', this.#parts.sendQueue.isInFlight(tracked.op)),
    }));
  }

  /**
   * Carries out what `plan` returned. Requests that were not held are made again in the next
   * session, or fail if the server refuses this client.
   * @param {{ tracked: TrackedRequest, outcome: Outcome }[]} planned
   * @param {Reason} reason @param {unknown} cause
   */
  carryOut(planned, reason, cause) {
    const { refusal } = this.#parts.outage;
    const pending = [];
    for (const { tracked, outcome } of planned) {
      this.#parts.requests.leave(tracked);
      if (outcome === 'lost') this.#parts.listener.lost(tracked, reason, cause);
      else if (outcome === 'failed')
        this.#parts.listener.failed(tracked, this.#parts.outage.timeoutError(UNKNOWN));
      else if (outcome !== 'again') continue;
      else if (refusal === undefined) pending.push(tracked);
      else this.#parts.listener.failed(tracked, refusal);
    }
    for (const group of grouped(pending)) this.#parts.grants.requestAgain(group);
  }

  /**
   * Ends all requests of a session that is closed for good.
   * @param {Reason} reason for locks @param {unknown} error for requests @param {unknown} cause
   * @returns {TrackedRequest[]} those that the user has given up, which end with the session
   */
  endAll(reason, error, cause) {
    const ending = [];
    for (const tracked of this.#parts.requests.all()) {
      const outcome = outcomeOnSessionEnd(tracked, 'closed', false);
      if (outcome === 'kept') {
        ending.push(tracked);
        continue;
      }
      this.#parts.requests.leave(tracked);
      if (outcome === 'lost') this.#parts.listener.lost(tracked, reason, cause);
      else this.#parts.listener.failed(tracked, error);
    }
    return ending;
  }

  /** Fails the requests that have no answer yet. @param {unknown} error of a server that refuses */
  refuse(error) {
    for (const tracked of this.#parts.requests.all())
      if (tracked.state === ASKED) this.#giveUp(tracked, error, error);
  }

  /** Rejects `ready` and fails requests that must not wait, each a `ttl` after it began. */
  failUnanswered() {
    const { clock, outage, readiness, requests, status, timers } = this.#parts;
    const { ttl } = status;
    const now = clock.monotonic();
    if (readiness.isAwaited && readiness.by <= now) {
      readiness.reject(outage.timeoutError(`The bucket could not be opened within ${ttl} ms`));
    } else if (readiness.isAwaited) {
      timers.setBy('unanswered', readiness.by);
    }
    for (const tracked of requests.all()) {
      if (waits(tracked.op) || tracked.state !== ASKED) continue;
      const end = tracked.asked + ttl;
      if (end > now) {
        timers.setBy('unanswered', end);
        continue;
      }
      const { obstacle = outage.reason } = tracked;
      const what = `The server did not execute the request within ${ttl} ms`;
      this.#giveUp(tracked, unreachableError(what, obstacle), obstacle);
    }
  }

  /**
   * Ends an unanswered request and fails it with `error`. If it is a theft that was sent, the
   * server may have executed it: then it fails with an error that says so and has this `cause`.
   * @param {TrackedRequest} tracked @param {unknown} error @param {unknown} cause
   */
  #giveUp(tracked, error, cause) {
    const isUnknown = tracked.op.kind === 'steal' && this.#parts.sendQueue.isInFlight(tracked.op);
    this.#parts.reactions.end(tracked);
    this.#parts.listener.failed(tracked, isUnknown ? unreachableError(UNKNOWN, cause) : error);
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
