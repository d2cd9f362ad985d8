'use strict';

/**
 * What becomes of the places of an open session: by answers, by hints, and by what the server has
 * when a renewal is answered. Tells the listener; asks and ends what the server has otherwise.
 */

const { ASKED, ENDING, HELD, WAITING } = require('./place.js');

/** @typedef {import('../adapter.js').Answer} Answer */
/** @typedef {import('../adapter.js').Op} Op */
/** @typedef {import('../adapter.js').Renewal} Renewal */
/** @typedef {InstanceType<typeof import('./place.js').Place>} Place */

class Grants {
  /** Ended since the last renewal was sent. @type {Set<number>} */
  #ended = new Set();
  #places;
  #outbox;
  #calls;
  #listener;
  #clientId;
  #isQueued;

  /**
   * @param {object} parts of the session
   * @param {InstanceType<typeof import('./places.js').Places>} parts.places
   * @param {InstanceType<typeof import('./outbox.js').Outbox>} parts.outbox
   * @param {{ readonly connection: number }} parts.calls
   * @param {import('./session.js').Listener} parts.listener
   * @param {string} parts.clientId of this manager
   * @param {() => void} parts.isQueued called when a request begins to wait
   */
  constructor({ places, outbox, calls, listener, clientId, isQueued }) {
    this.#places = places;
    this.#outbox = outbox;
    this.#calls = calls;
    this.#listener = listener;
    this.#clientId = clientId;
    this.#isQueued = isQueued;
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
    for (const place of this.#places.all()) {
      const { ref } = place.op;
      const token = mine.get(ref);
      if (place.news > news) continue;
      if (place.state === HELD && !token) {
        const thief = stolen?.get(ref);
        this.#places.leave(place);
        if (thief) this.#listener.stolen(place, thief);
        else this.#listener.lost(place, 'failover', undefined);
        // It is in the queue again: not for anybody.
        if (token === 0n) this.#forget(ref, place.op.name);
      } else if (place.state === WAITING && token) {
        this.#grant(place, token);
      } else if (place.state === WAITING && token === undefined) {
        this.#places.leave(place);
        this.askAgain([place]);
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
    this.#outbox.add([{ kind: 'end', ref, name, keep: 0 }]);
  }

  /**
   * @param {Op[]} ops
   * @param {Answer[]} answers
   */
  stepped(ops, answers) {
    for (let i = 0; i < ops.length; i++) {
      const op = ops[i];
      const place = this.#places.get(op.ref);
      if (op.kind === 'end') {
        this.#ended.add(op.ref);
        if (place) this.#places.leave(place);
        if (place && answers[i].code === 'notMarked') this.#isNotMarked(place);
      } else if (place?.state === ASKED) {
        this.#answer(place, answers[i]);
      }
    }
  }

  /** @param {Place} place whose lock was not held any more when it ended */
  #isNotMarked(place) {
    const { thief, thiefConnection } = place;
    if (thief && thiefConnection === this.#calls.connection) this.#listener.stolen(place, thief);
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
      this.#ended.add(place.op.ref);
      this.#places.leave(place);
      this.#listener.refused(place, answer);
    }
  }

  /**
   * @param {Place} place
   * @param {bigint} token
   */
  #grant(place, token) {
    place.token = token;
    this.#places.move(place, HELD);
    if (place.op.kind === 'steal') this.#robOurselves(place);
    this.#listener.granted(place);
    // It was stolen before the answer came.
    if (place.thief && place.thiefConnection === this.#calls.connection) {
      this.#rob(place, place.thief);
    }
  }

  /** @param {Place} thief what it has stolen from this manager is known before it is told */
  #robOurselves(thief) {
    for (const place of this.#places.all()) {
      if (place.state !== HELD || place.op.name !== thief.op.name) continue;
      if (place.token < thief.token) this.#rob(place, this.#clientId);
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
      place.thiefConnection = this.#calls.connection;
    } else if (place?.state === WAITING) {
      // That it was granted was not heard: nobody has lost anything.
      this.#places.leave(place);
      this.askAgain([place]);
    }
  }

  /**
   * @param {Place[]} places one, or several of a group, that are on no list
   */
  askAgain(places) {
    for (const place of places) {
      place.thief = '';
      place.op = { ...place.op, ref: 0 };
      this.#places.enter(place);
    }
    this.#outbox.add(places.map(({ op }) => op));
  }
}

module.exports = { Grants };
