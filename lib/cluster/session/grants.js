'use strict';

/**
 * Applies answers, hints and renewals to the requests of an open session, notifies the listener,
 * and sends ends for what the server has and this session does not.
 *
 * A waiting group is one: its locks are held when all are granted. If the server loses one of them,
 * all are given back and requested again at once, behind all others. So a group never keeps one
 * lock while it waits for another behind a later request.
 */

const { ALLOTTED, ASKED, ENDING, HELD, WAITING } = require('./place.js');

/** @typedef {import('../adapter.js').Answer} Answer */
/** @typedef {import('../adapter.js').Op} Op */
/** @typedef {import('../adapter.js').Renewal} Renewal */
/** @typedef {InstanceType<typeof import('./place.js').Place>} Place */

class Grants {
  /** The `ref`s that ended since the last renewal was sent. @type {Set<number>} */
  #ended = new Set();
  #places;
  #outbox;
  #listener;
  #clientId;
  #seen;
  #isQueued;
  #isBusy;

  /**
   * @param {object} parts of the session
   * @param {InstanceType<typeof import('./places.js').Places>} parts.places
   * @param {InstanceType<typeof import('./outbox.js').Outbox>} parts.outbox
   * @param {import('./session.js').Listener} parts.listener
   * @param {string} parts.clientId of this manager
   * @param {import('../adapter.js').Seen} parts.seen receives the greatest token
   * @param {() => void} parts.isQueued called when a request begins to wait
   * @param {(op: Op) => void} parts.isBusy called to repeat an operation later
   */
  constructor({ places, outbox, listener, clientId, seen, isQueued, isBusy }) {
    this.#places = places;
    this.#outbox = outbox;
    this.#listener = listener;
    this.#clientId = clientId;
    this.#seen = seen;
    this.#isQueued = isQueued;
    this.#isBusy = isBusy;
  }

  /** Called when a renewal is sent, whose answer cannot list requests that ended before. */
  forgetEnds() {
    this.#ended.clear();
  }

  /**
   * Compares the server's list with ours. Requests that changed after the renewal was sent are
   * skipped.
   * @param {Renewal} renewal
   * @param {number} news the count of changes when the renewal was sent
   */
  compare({ mine, stolen }, news) {
    // Thefts are final, so later changes do not matter; and only this renewal may list them.
    for (const [ref, thief] of stolen ?? []) if (!mine.get(ref)) this.hintStolen(ref, thief);
    for (const place of this.#places.all()) {
      const { ref } = place.op;
      const token = mine.get(ref);
      if (place.news > news) continue;
      if (place.state === HELD && !token) {
        this.#places.leave(place);
        this.#listener.lost(place, 'failover', undefined);
        // The server put the lost lock back into the queue, where nobody waits for it.
        if (token === 0n) this.#forget(ref, place.op.name);
      } else if (place.state === WAITING && token) {
        this.#grant(place, token);
      } else if (place.state === WAITING && token === undefined) {
        this.#askGroupAgain(place);
      } else if (place.state === ALLOTTED && !token) {
        if (token === 0n) this.#forget(ref, place.op.name);
        this.#askGroupAgain(place);
      }
    }
    for (const ref of mine.keys()) {
      if (!this.#places.get(ref) && !this.#ended.has(ref)) this.#forget(ref, undefined);
    }
  }

  /**
   * Ends a request of the server's list that this session does not have.
   * @param {number} ref @param {string | undefined} name
   */
  #forget(ref, name) {
    this.#ended.add(ref);
    this.#outbox.addFirst({ kind: 'end', ref, name, keep: 0 });
  }

  /** @param {Op[]} ops @param {Answer[]} answers */
  stepped(ops, answers) {
    for (let i = 0; i < ops.length; i++) {
      const op = ops[i];
      const place = this.#places.get(op.ref);
      if (answers[i].code === 'busy') this.#obstruct(op, place, answers[i].error);
      else if (op.kind === 'end') this.#isEnded(op.ref, place, answers[i]);
      else if (place?.state === ASKED) this.#answer(place, answers[i]);
    }
  }

  /**
   * Repeats a BUSY operation on its own, so that nothing waits behind it.
   * @param {Op} op @param {Place | undefined} place
   * @param {unknown} error what is in the way, if the server knows
   */
  #obstruct(op, place, error) {
    if (place) place.obstacle = error;
    if (op.kind === 'end' || place?.state === ASKED) this.#isBusy(op);
  }

  /** @param {number} ref @param {Place | undefined} place @param {Answer} answer */
  #isEnded(ref, place, { code }) {
    this.#ended.add(ref);
    if (!place) return;
    const group = this.#places.groupOf(place);
    this.#places.leave(place);
    if (code === 'notMarked') this.#isNotMarked(place);
    // The group may have waited only for this one.
    this.#holdWhole(group);
  }

  /** The server will never do this operation. @param {Op} op @param {unknown} error */
  isRefused(op, error) {
    const place = this.#places.get(op.ref);
    if (op.kind === 'end' && place) {
      const group = this.#places.groupOf(place);
      // If the server still has the request, the next comparison ends it.
      this.#places.leave(place);
      if (op.keep > 0) this.#listener.lost(place, 'unreachable', error);
      this.#holdWhole(group);
    } else if (place?.state === ASKED) {
      this.#places.leave(place);
      this.#listener.failed(place, error);
    }
  }

  /** @param {Place} place whose lock was not held when its end arrived */
  #isNotMarked(place) {
    if (this.#isStolen(place)) this.#listener.stolen(place, place.thief);
    else this.#listener.lost(place, 'failover', undefined);
  }

  /** @param {Place} place @param {Answer} answer */
  #answer(place, answer) {
    if (answer.code === 'granted') {
      this.#grant(place, answer.token);
    } else if (answer.code === 'queued') {
      this.#places.move(place, WAITING);
      this.#isQueued();
    } else if (answer.code === 'passed') {
      this.#pass(place);
    } else {
      const group = this.#places.groupOf(place);
      this.#ended.add(place.op.ref);
      this.#places.leave(place);
      this.#listener.refused(place, answer);
      this.#holdWhole(group);
    }
  }

  /** The server has ended the request, because it would have been granted. @param {Place} place */
  #pass(place) {
    this.#ended.add(place.op.ref);
    this.#places.leave(place);
    this.#listener.passed(place);
  }

  /** @param {Place} place @param {bigint} token */
  #grant(place, token) {
    place.token = token;
    if (token > this.#seen.token) this.#seen.token = token;
    if (isOfWhole(place)) {
      this.#places.move(place, ALLOTTED);
      if (this.#isStolen(place)) this.#askGroupAgain(place);
      else this.#holdWhole(this.#places.groupOf(place));
    } else {
      this.#hold(place);
    }
  }

  /** @param {Place[]} group */
  #holdWhole(group) {
    if (group.some(({ state }) => state === ASKED || state === WAITING)) return;
    for (const place of group) if (place.state === ALLOTTED) this.#hold(place);
  }

  /** @param {Place} place */
  #hold(place) {
    this.#places.move(place, HELD);
    if (place.op.kind === 'steal') this.#robOurselves(place);
    this.#listener.granted(place);
    if (this.#isStolen(place)) this.#rob(place, place.thief);
  }

  /**
   * Whether the lock was stolen before its grant arrived, in the same epoch of the server.
   * @param {Place} place
   */
  #isStolen({ thief, thiefLife }) {
    return thief !== '' && thiefLife === this.#seen.life;
  }

  /** Own locks that a theft took are reported before the thief's grant. @param {Place} thief */
  #robOurselves(thief) {
    for (const place of this.#places.all()) {
      if (place.op.name !== thief.op.name || place.token >= thief.token) continue;
      if (place.state === HELD) this.#rob(place, this.#clientId);
      else if (place.state === ALLOTTED) this.#askGroupAgain(place);
    }
  }

  /** @param {Place} place @param {string} thief */
  #rob(place, thief) {
    this.#ended.add(place.op.ref);
    this.#places.leave(place);
    this.#listener.stolen(place, thief);
  }

  /** @param {number} ref @param {bigint} token */
  hintGranted(ref, token) {
    const place = this.#places.get(ref);
    if (place && (place.state === ASKED || place.state === WAITING)) this.#grant(place, token);
  }

  /** @param {number} ref @param {string} thief '' if the request has passed */
  hintStolen(ref, thief) {
    const place = this.#places.get(ref);
    if (thief === '') {
      if (place?.state === ASKED || place?.state === WAITING) this.#pass(place);
    } else if (place?.state === HELD) {
      this.#rob(place, thief);
    } else if (place?.state === ASKED || place?.state === ENDING) {
      place.thief = thief;
      place.thiefLife = this.#seen.life;
    } else if (place?.state === WAITING || place?.state === ALLOTTED) {
      // The user has not got this lock, so nothing is lost.
      this.#askGroupAgain(place);
    }
  }

  /**
   * Requests a lost place again, with the members of its group that the user has not got.
   * @param {Place} place
   */
  #askGroupAgain(place) {
    const places = isOfWhole(place) ? this.#places.groupOf(place).filter(isNotTold) : [place];
    for (const one of places) {
      const { ref, name } = one.op;
      this.#places.leave(one);
      if (one !== place && !this.#outbox.remove(one.op)) this.#forget(ref, name);
    }
    this.askAgain(places);
  }

  /** @param {Place[]} places one request, or several of a group, that are in no table */
  askAgain(places) {
    for (const place of places) {
      place.thief = '';
      place.token = 0n;
      place.op = { ...place.op, ref: 0 };
      this.#places.enter(place);
    }
    this.#outbox.add(places.map(({ op }) => op));
  }
}

/** Whether its lock is held only together with its group's. @param {Place} place */
function isOfWhole({ op }) {
  return op.group !== 0 && op.kind === 'request';
}

/** @param {Place} place */
function isNotTold({ state }) {
  return state === ASKED || state === WAITING || state === ALLOTTED;
}

module.exports = { Grants };
