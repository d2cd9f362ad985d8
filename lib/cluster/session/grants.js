'use strict';

/**
 * What becomes of the places of an open session: by answers, by hints, and by what the server has
 * when a renewal is answered. Tells the listener; asks and ends what the server has otherwise.
 *
 * A waiting group is treated as one: its user is told of no lock before all are there. If the
 * server does not have one of them any more, all are given back and asked for again, at once,
 * behind all others. So a group never has one lock while it waits for another one behind a later
 * request.
 */

const { ALLOTTED, ASKED, ENDING, HELD, WAITING } = require('./place.js');

/** @typedef {import('../adapter.js').Answer} Answer */
/** @typedef {import('../adapter.js').Op} Op */
/** @typedef {import('../adapter.js').Renewal} Renewal */
/** @typedef {InstanceType<typeof import('./place.js').Place>} Place */

class Grants {
  /** Ended since the last renewal was sent. @type {Set<number>} */
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
   * @param {import('../adapter.js').Seen} parts.seen gets the greatest token; of
   *   which life of the server news are
   * @param {() => void} parts.isQueued called when a request begins to wait
   * @param {(op: Op) => void} parts.isBusy called when an operation is to be asked for again, later
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

  /** A renewal is sent, or another session begins: what ended before cannot be in its answer. */
  forgetEnds() {
    this.#ended.clear();
  }

  /**
   * What the server has against what is known here; what came up while it was asked is left out.
   * @param {Renewal} renewal
   * @param {number} news
   */
  compare({ mine, stolen }, news) {
    // What was stolen stays so, whatever came up since; and it is told for so long only.
    for (const [ref, thief] of stolen ?? []) if (!mine.get(ref)) this.hintStolen(ref, thief);
    for (const place of this.#places.all()) {
      const { ref } = place.op;
      const token = mine.get(ref);
      if (place.news > news) continue;
      if (place.state === HELD && !token) {
        this.#places.leave(place);
        this.#listener.lost(place, 'failover', undefined);
        // It is in the queue again: not for anybody.
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
   * @param {number} ref of nobody here
   * @param {string | undefined} name
   */
  #forget(ref, name) {
    this.#ended.add(ref);
    this.#outbox.addFirst({ kind: 'end', ref, name, keep: 0 });
  }

  /**
   * @param {Op[]} ops
   * @param {Answer[]} answers
   */
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
   * What cannot be done while somebody has something in its way is asked for again by itself, so
   * that nothing waits behind it.
   * @param {Op} op
   * @param {Place | undefined} place
   * @param {unknown} error what is in the way, if that is known
   */
  #obstruct(op, place, error) {
    if (place) place.obstacle = error;
    if (op.kind === 'end' || place?.state === ASKED) this.#isBusy(op);
  }

  /**
   * @param {number} ref
   * @param {Place | undefined} place
   * @param {Answer} answer
   */
  #isEnded(ref, place, { code }) {
    this.#ended.add(ref);
    if (!place) return;
    const group = this.#places.groupOf(place);
    this.#places.leave(place);
    if (code === 'notMarked') this.#isNotMarked(place);
    // It may have been all that its group waited for.
    this.#holdWhole(group);
  }

  /**
   * The server does not do this operation, and never will.
   * @param {Op} op
   * @param {unknown} error why
   */
  isRefused(op, error) {
    const place = this.#places.get(op.ref);
    if (op.kind === 'end' && place) {
      const group = this.#places.groupOf(place);
      // If the server has it, the next comparison finds it.
      this.#places.leave(place);
      if (op.keep > 0) this.#listener.lost(place, 'unreachable', error);
      this.#holdWhole(group);
    } else if (place?.state === ASKED) {
      this.#places.leave(place);
      this.#listener.failed(place, error);
    }
  }

  /** @param {Place} place whose lock was not held any more when it ended */
  #isNotMarked(place) {
    if (this.#isStolen(place)) this.#listener.stolen(place, place.thief);
    else this.#listener.lost(place, 'failover', undefined);
  }

  /**
   * @param {Place} place
   * @param {Answer} answer
   */
  #answer(place, answer) {
    if (answer.code === 'granted') {
      this.#grant(place, answer.token);
    } else if (answer.code === 'queued') {
      this.#places.move(place, WAITING);
      this.#isQueued();
    } else {
      const group = this.#places.groupOf(place);
      this.#ended.add(place.op.ref);
      this.#places.leave(place);
      this.#listener.refused(place, answer);
      this.#holdWhole(group);
    }
  }

  /**
   * @param {Place} place
   * @param {bigint} token
   */
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

  /** @param {Place[]} group whose locks are held if none of it has to be waited for */
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

  /** @param {Place} place @returns {boolean} whether it was stolen before the answer came */
  #isStolen({ thief, thiefLife }) {
    return thief !== '' && thiefLife === this.#seen.life;
  }

  /** @param {Place} thief what it has stolen from this manager is known before it is told */
  #robOurselves(thief) {
    for (const place of this.#places.all()) {
      if (place.op.name !== thief.op.name || place.token >= thief.token) continue;
      if (place.state === HELD) this.#rob(place, this.#clientId);
      else if (place.state === ALLOTTED) this.#askGroupAgain(place);
    }
  }

  /**
   * @param {Place} place
   * @param {string} thief
   */
  #rob(place, thief) {
    this.#ended.add(place.op.ref);
    this.#places.leave(place);
    this.#listener.stolen(place, thief);
  }

  /**
   * @param {number} ref
   * @param {bigint} token
   */
  hintGranted(ref, token) {
    const place = this.#places.get(ref);
    if (place && (place.state === ASKED || place.state === WAITING)) this.#grant(place, token);
  }

  /**
   * @param {number} ref
   * @param {string} thief
   */
  hintStolen(ref, thief) {
    const place = this.#places.get(ref);
    if (place?.state === HELD) {
      this.#rob(place, thief);
    } else if (place?.state === ASKED || place?.state === ENDING) {
      place.thief = thief;
      place.thiefLife = this.#seen.life;
    } else if (place?.state === WAITING || place?.state === ALLOTTED) {
      // Nobody was told that it was granted: nobody has lost anything.
      this.#askGroupAgain(place);
    }
  }

  /**
   * Asks anew for a request whose place the server does not have any more, and for all that its
   * group has not got yet or was not told of.
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

  /**
   * @param {Place[]} places one, or several of a group, that are on no list
   */
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

/** @param {Place} place @returns {boolean} whether its lock is held with those of its group only */
function isOfWhole({ op }) {
  return op.group !== 0 && op.kind === 'request';
}

/** @param {Place} place */
function isNotTold({ state }) {
  return state === ASKED || state === WAITING || state === ALLOTTED;
}

module.exports = { Grants };
