'use strict';

/**
 * Applies answers, hints and renewals to the requests of an open session, and notifies the
 * listener. It also ends requests that the server lists but this session does not have.
 *
 * The user holds the locks of a waiting group once all are granted. If the server loses a lock of
 * the group before that, the session gives back the others and requests all of them together,
 * behind all other requests. Otherwise the group could keep one lock while it waits for another one
 * behind a later request, and cause a deadlock.
 */

const { GRANTED_PARTIAL, ASKED, ENDING, HELD, WAITING } = require('./tracked-request.js');
const { isWanted } = require('./tracked-request.js');

/** @import { Answer, Op, Renewal } from '../adapter.js' */
/** @typedef {InstanceType<typeof import('./tracked-request.js').TrackedRequest>} TrackedRequest */
/** @typedef {InstanceType<typeof import('./parts.js').SessionParts>} Parts */

class Grants {
  #parts;
  /** The `ref`s that ended since the last renewal was sent. @type {Set<number>} */
  #ended = new Set();

  /** @param {Parts} parts */
  constructor(parts) {
    this.#parts = parts;
  }

  /** Called when a renewal is sent: its answer cannot list requests that have already ended. */
  forgetEnds() {
    this.#ended.clear();
  }

  /**
   * Compares the server's list with ours, and applies the grants and losses that it shows. It also
   * repeats requests that the server lacks, and ends those that are unknown here. `changes` is what
   * `RequestTable.changes` was when the renewal was sent. Requests that changed after that are
   * skipped, since the list may be older than the change.
   * @param {Renewal} renewal @param {number} changes
   */
  compareWithServer({ mine, stolen }, changes) {
    // Thefts are final, and the next renewal may not list them, so they are applied even to
    // requests that changed later.
    for (const [ref, thief] of stolen ?? []) if (!mine.get(ref)) this.handleTheftHint(ref, thief);
    /** @type {{ tracked: TrackedRequest, token: bigint }[]} */
    const granted = [];
    for (const tracked of this.#parts.requests.all()) {
      const { ref } = tracked.op;
      const token = mine.get(ref);
      if (tracked.lastChange > changes) continue;
      if ((tracked.state === HELD || tracked.isUnmarked) && !token) {
        this.#parts.requests.leave(tracked);
        this.#parts.listener.lost(tracked, 'failover', undefined);
        // After a failover, the server may queue a request for the lost lock, although nobody waits
        // for it.
        if (token === 0n) this.#endUnknown(ref, tracked.op.name);
      } else if (tracked.state === WAITING && token) {
        granted.push({ tracked, token });
      } else if (tracked.state === WAITING && token === undefined) {
        this.#requestGroupAgain(tracked);
      } else if (tracked.state === GRANTED_PARTIAL && !token) {
        if (token === 0n) this.#endUnknown(ref, tracked.op.name);
        this.#requestGroupAgain(tracked);
      }
    }
    // With priorities, the server may have granted a later request first.
    granted.sort((a, b) => (a.token < b.token ? -1 : 1));
    for (const { tracked, token } of granted)
      if (tracked.state === WAITING) this.#handleGrant(tracked, token);
    for (const ref of mine.keys()) {
      if (!this.#parts.requests.get(ref) && !this.#ended.has(ref)) this.#endUnknown(ref, undefined);
    }
    this.#parts.publications.handleRenewal();
  }

  /**
   * Has the server end a request that only the server still has.
   * @param {number} ref @param {string | undefined} name
   */
  #endUnknown(ref, name) {
    this.#ended.add(ref);
    this.#parts.sendQueue.addFirst({ kind: 'end', ref, name, markFor: 0 });
  }

  /** @param {Op[]} ops @param {Answer[]} answers */
  handleAnswers(ops, answers) {
    for (let i = 0; i < ops.length; i++) {
      const op = ops[i];
      const tracked = this.#parts.requests.get(op.ref);
      if (answers[i].code === 'busy') this.#repeatLater(op, tracked, answers[i].error);
      else if (op.kind === 'end') this.#handleEnd(op.ref, tracked, answers[i]);
      else if (op.kind === 'publish') this.#parts.publications.handleAnswer(op, answers[i]);
      else if (tracked?.state === ASKED) this.#handleAnswer(tracked, answers[i]);
    }
  }

  /**
   * Notes why the operation is busy, and has it repeated if it is still wanted.
   * @param {Op} op @param {TrackedRequest | undefined} tracked @param {unknown} error
   */
  #repeatLater(op, tracked, error) {
    if (tracked) tracked.obstacle = error;
    if (isWanted(op, tracked)) this.#parts.sending.repeatLater(op);
  }

  /** @param {number} ref @param {TrackedRequest | undefined} tracked @param {Answer} answer */
  #handleEnd(ref, tracked, { code }) {
    this.#ended.add(ref);
    if (!tracked) return;
    if (code === 'notMarked' && tracked.thief === '') {
      this.#awaitThief(tracked);
      return;
    }
    const group = this.#parts.requests.groupOf(tracked);
    if (code === 'notMarked') this.#reportUnmarked(tracked);
    else this.#parts.requests.leave(tracked);
    // The group may have waited only for this request.
    this.#holdIfComplete(group);
  }

  /**
   * Fails the request of an operation that never succeeds. A refused end counts as executed, but
   * its missing mark is a loss.
   * @param {Op} op @param {unknown} error
   */
  handleRefusal(op, error) {
    const tracked = this.#parts.requests.get(op.ref);
    if (op.kind === 'publish') {
      this.#parts.publications.handleRefusal(op, error);
    } else if (op.kind === 'end' && tracked) {
      const group = this.#parts.requests.groupOf(tracked);
      // If the server still has the request, `compareWithServer` ends it after the next renewal.
      this.#parts.requests.leave(tracked);
      if (op.markFor > 0) this.#parts.listener.lost(tracked, 'unreachable', error);
      this.#holdIfComplete(group);
    } else if (tracked?.state === ASKED) {
      this.#parts.requests.leave(tracked);
      this.#parts.listener.failed(tracked, error);
    }
  }

  /**
   * The lock of an end with `markFor` was no longer held. The answer can come before the hint of a
   * theft, but the next renewal lists the theft.
   * @param {TrackedRequest} tracked
   */
  #awaitThief(tracked) {
    tracked.isUnmarked = true;
    // A renewal under way may be older than the theft.
    this.#parts.requests.move(tracked, ENDING);
    this.#parts.renewing.renewIfOpen();
  }

  /** Reports why an end could not mark the name. @param {TrackedRequest} tracked */
  #reportUnmarked(tracked) {
    this.#parts.requests.leave(tracked);
    if (this.#wasStolen(tracked)) this.#parts.listener.stolen(tracked, tracked.thief);
    else this.#parts.listener.lost(tracked, 'failover', undefined);
  }

  /** @param {TrackedRequest} tracked @param {Answer} answer */
  #handleAnswer(tracked, answer) {
    if (answer.code === 'granted') {
      this.#handleGrant(tracked, answer.token);
    } else if (answer.code === 'queued') {
      this.#parts.requests.move(tracked, WAITING);
      this.#parts.renewing.checkExpirySoon();
    } else if (answer.code === 'passed') {
      this.#handlePass(tracked);
    } else {
      const group = this.#parts.requests.groupOf(tracked);
      this.#ended.add(tracked.op.ref);
      this.#parts.requests.leave(tracked);
      this.#parts.listener.denied(tracked, answer);
      this.#holdIfComplete(group);
    }
  }

  /** The server ended the request instead of granting it. @param {TrackedRequest} tracked */
  #handlePass(tracked) {
    this.#ended.add(tracked.op.ref);
    this.#parts.requests.leave(tracked);
    this.#parts.listener.passed(tracked);
  }

  /** @param {TrackedRequest} tracked @param {bigint} token */
  #handleGrant(tracked, token) {
    tracked.token = token;
    if (token > this.#parts.status.seen.token) this.#parts.status.seen.token = token;
    if (needsGroup(tracked)) {
      this.#parts.requests.move(tracked, GRANTED_PARTIAL);
      if (this.#wasStolen(tracked)) this.#requestGroupAgain(tracked);
      else this.#holdIfComplete(this.#parts.requests.groupOf(tracked));
    } else {
      this.#hold(tracked);
    }
  }

  /** @param {TrackedRequest[]} group */
  #holdIfComplete(group) {
    if (group.some(({ state }) => state === ASKED || state === WAITING)) return;
    for (const tracked of group) if (tracked.state === GRANTED_PARTIAL) this.#hold(tracked);
  }

  /** Reports the grant, and then a theft that came before it. @param {TrackedRequest} tracked */
  #hold(tracked) {
    this.#parts.requests.move(tracked, HELD);
    if (tracked.op.kind === 'steal') this.#loseOwnLocks(tracked);
    this.#parts.listener.granted(tracked);
    if (this.#wasStolen(tracked)) this.#handleTheft(tracked, tracked.thief);
  }

  /**
   * Whether the lock was stolen before its grant, or the answer to its end, arrived. A theft of an
   * earlier epoch does not count, since a failover may have undone it.
   * @param {TrackedRequest} tracked
   */
  #wasStolen({ thief, thiefLife }) {
    return thief !== '' && thiefLife === this.#parts.status.seen.life;
  }

  /**
   * The listener must receive these losses before the grant. A waiting request may also have been
   * granted and stolen: a hint, or a renewal that is under way, may still report that grant.
   * @param {TrackedRequest} thief
   */
  #loseOwnLocks(thief) {
    for (const tracked of this.#parts.requests.all()) {
      if (tracked.op.name !== thief.op.name || tracked.token >= thief.token) continue;
      tracked.lastTheft = thief.token;
      if (tracked.state === WAITING) this.#parts.requests.move(tracked, WAITING);
      else if (tracked.state === HELD) this.#handleTheft(tracked, this.#parts.info.clientId);
      else if (tracked.state === ENDING) this.#rememberTheft(tracked, this.#parts.info.clientId);
      else if (tracked.state === GRANTED_PARTIAL) this.#requestGroupAgain(tracked);
    }
  }

  /** @param {TrackedRequest} tracked @param {string} thief */
  #handleTheft(tracked, thief) {
    this.#ended.add(tracked.op.ref);
    this.#parts.requests.leave(tracked);
    this.#parts.listener.stolen(tracked, thief);
  }

  /** @param {number} ref @param {bigint} token */
  handleGrantHint(ref, token) {
    const tracked = this.#parts.requests.get(ref);
    if (!tracked || token < tracked.lastTheft) return;
    if (tracked.state === ASKED || tracked.state === WAITING) this.#handleGrant(tracked, token);
  }

  /** @param {number} ref @param {string} thief '' if the request has passed */
  handleTheftHint(ref, thief) {
    const tracked = this.#parts.requests.get(ref);
    if (thief === '') {
      if (tracked?.state === ASKED || tracked?.state === WAITING) this.#handlePass(tracked);
    } else if (tracked?.state === HELD) {
      this.#handleTheft(tracked, thief);
    } else if (tracked?.state === ASKED || tracked?.state === ENDING) {
      this.#rememberTheft(tracked, thief);
    } else if (tracked?.state === WAITING || tracked?.state === GRANTED_PARTIAL) {
      // The user does not hold this lock yet, so nothing is lost.
      this.#requestGroupAgain(tracked);
    }
  }

  /**
   * If the answer to the request, or to its end, is still to come, the theft is reported with it.
   * @param {TrackedRequest} tracked @param {string} thief
   */
  #rememberTheft(tracked, thief) {
    tracked.thief = thief;
    tracked.thiefLife = this.#parts.status.seen.life;
    if (tracked.isUnmarked) this.#reportUnmarked(tracked);
  }

  /** Repeats a lost request with its group's unheld requests. @param {TrackedRequest} tracked */
  #requestGroupAgain(tracked) {
    const requests = needsGroup(tracked)
      ? this.#parts.requests.groupOf(tracked).filter(isUnannounced)
      : [tracked];
    for (const one of requests) {
      const { ref, name } = one.op;
      this.#parts.requests.leave(one);
      if (one !== tracked && !this.#parts.sendQueue.remove(one.op)) this.#endUnknown(ref, name);
    }
    this.requestAgain(requests);
  }

  /** Repeats a group that has left the request table. @param {TrackedRequest[]} requests */
  requestAgain(requests) {
    for (const tracked of requests) {
      tracked.thief = '';
      tracked.token = 0n;
      tracked.op = { ...tracked.op, ref: 0 };
      this.#parts.requests.enter(tracked);
    }
    this.#parts.sendQueue.add(requests.map(({ op }) => op));
  }
}

/** Whether the user gets the lock only with the whole group. @param {TrackedRequest} tracked */
function needsGroup({ op }) {
  return op.group !== 0 && op.kind === 'request';
}

/** @param {TrackedRequest} tracked */
function isUnannounced({ state }) {
  return state === ASKED || state === WAITING || state === GRANTED_PARTIAL;
}

module.exports = { Grants };
