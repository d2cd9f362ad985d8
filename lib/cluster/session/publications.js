'use strict';

/**
 * The data that users publish with their locks. Of each lock, at most one publication is unanswered
 * at a time. A later one replaces the one that is not sent yet, and shares its outcome. So the
 * server never executes an older publication after a newer one, whatever is sent again.
 *
 * A server of a new epoch may keep the lock and lack its last data, so these are published again.
 */

const { Promise, then } = require('../../platform/intrinsics.js');
const { HELD } = require('./tracked-request.js');

/** @import { Answer, PublishOp } from '../adapter.js' */
/** @typedef {InstanceType<typeof import('./tracked-request.js').TrackedRequest>} TrackedRequest */
/** @typedef {InstanceType<typeof import('./parts.js').SessionParts>} Parts */

/** What becomes of a text, or of the texts that replace it before they are sent. */
class Outcome {
  /** @type {(isPublished: boolean) => void} */
  resolve = () => {};
  /** @type {(error: unknown) => void} */
  reject = () => {};
  /** @type {Promise<boolean>} */
  promise;

  /** @param {string} text JSON; '' for none */
  constructor(text) {
    this.text = text;
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }
}

/**
 * @typedef {object} Publication of a lock
 * @property {PublishOp | undefined} op that was not answered
 * @property {Outcome | undefined} outcome of `op`; undefined if the user knows it already
 * @property {Outcome | undefined} next sent after the answer to `op`
 * @property {string | undefined} text that the server published last
 * @property {string} life the epoch in which it did
 * @property {boolean} isDoubted whether the server did not find the lock, although this session
 *   knows of no loss. The next renewal reports the loss or the theft
 */

class Publications {
  #parts;
  /** By lock, from its first publication to its end. @type {Map<TrackedRequest, Publication>} */
  #publications = new Map();

  /** @param {Parts} parts */
  constructor(parts) {
    this.#parts = parts;
  }

  /**
   * @param {TrackedRequest} tracked held @param {string} text JSON; '' for none
   * @returns {Promise<boolean>}
   */
  publish(tracked, text) {
    const publication = this.#publications.get(tracked) ?? this.#enter(tracked);
    const { op } = publication;
    if (op && this.#parts.sendQueue.isInFlight(op)) {
      publication.next ??= new Outcome(text);
      publication.next.text = text;
      return publication.next.promise;
    }
    publication.outcome ??= new Outcome(text);
    if (op) op.data = text;
    else this.#send(tracked, publication, text);
    return publication.outcome.promise;
  }

  /** @param {TrackedRequest} tracked */
  #enter(tracked) {
    /** @type {Publication} */
    const publication = {
      ...{ op: undefined, outcome: undefined, next: undefined, text: undefined },
      life: '',
      isDoubted: false,
    };
    this.#publications.set(tracked, publication);
    then(tracked.ended, () => {
      this.#publications.delete(tracked);
      publication.outcome?.resolve(false);
      publication.next?.resolve(false);
    });
    return publication;
  }

  /** @param {TrackedRequest} tracked @param {Publication} publication @param {string} data */
  #send(tracked, publication, data) {
    const { name, ref } = tracked.op;
    publication.op = { kind: 'publish', ref, name, data };
    this.#parts.sendQueue.add([publication.op]);
  }

  /** @param {PublishOp} op @param {Answer} answer */
  handleAnswer(op, { code, error }) {
    const tracked = this.#parts.requests.get(op.ref);
    const publication = tracked && this.#publications.get(tracked);
    if (!publication || publication.op !== op) return;
    if (code === 'notHeld' && tracked.state === HELD) {
      publication.isDoubted = true;
      this.#parts.renewing.renewIfOpen();
      return;
    }
    const { next, outcome } = publication;
    publication.op = publication.outcome = undefined;
    if (code === 'published') {
      publication.text = op.data;
      publication.life = this.#parts.status.seen.life;
    }
    if (code === 'failed') outcome?.reject(error);
    else outcome?.resolve(code === 'published');
    if (!next || tracked.state !== HELD) return;
    publication.outcome = next;
    publication.next = undefined;
    this.#send(tracked, publication, next.text);
  }

  /** @param {PublishOp} op @param {unknown} error */
  handleRefusal(op, error) {
    this.handleAnswer(op, { code: 'failed', token: 0n, limit: 0, error });
  }

  /**
   * Sends doubted publications again, and the last text of a lock that a new epoch lacks. Must be
   * called after a renewal has ended the locks that the server does not have.
   */
  handleRenewal() {
    for (const [tracked, publication] of this.#publications) {
      const { isDoubted, life, op, text } = publication;
      if (tracked.state !== HELD) continue;
      publication.isDoubted = false;
      if (op && isDoubted) this.#parts.sendQueue.add([op]);
      else if (!op && text !== undefined && life !== this.#parts.status.seen.life)
        this.#send(tracked, publication, text);
    }
  }
}

module.exports = { Publications };
