'use strict';

/**
 * The open pages of `top --web`. One query a second serves all of them, and none runs while no page
 * is open. Each event carries the whole state, so nothing needs to be buffered for a page that does
 * not read.
 */

const { groupsOf, notesOf } = require('./view-model.js');
const { messageOf } = require('./bucket.js');
const { fingerprint } = require('./table.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */
/** @typedef {import('node:http').ServerResponse} ServerResponse */

const PERIOD_MS = 1000;

/** Makes the browser wait one second before it reconnects. */
const FIRST = 'retry: 1000\n\n';
/** Sent while the state stays the same, because a page warns if the server sends nothing. */
const SAME = 'event: same\ndata:\n\n';

/** @typedef {{ id: string, text: () => string }} PageEvent equal states have equal ids */

class EventClients {
  #look;
  #period;
  /** The pages, with the ids of their last events. @type {Map<ServerResponse, string>} */
  #clients = new Map();
  #isLooking = false;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;

  /** @param {() => Promise<DetailedSnapshot>} look @param {number} [period] milliseconds */
  constructor(look, period = PERIOD_MS) {
    this.#look = look;
    this.#period = period;
  }

  /** @param {ServerResponse} response its headers must have been written */
  add(response) {
    response.on('close', () => this.#drop(response));
    // 'close' follows every error, and its listener drops the response.
    response.on('error', () => {});
    this.#clients.set(response, '');
    response.write(FIRST);
    // Further new pages wait for the next query, so that many new pages cause only one query.
    if (this.#clients.size === 1 && !this.#isLooking) this.#poll();
  }

  /** @param {ServerResponse} response */
  #drop(response) {
    this.#clients.delete(response);
    if (this.#clients.size === 0) clearTimeout(this.#timer);
  }

  async #poll() {
    clearTimeout(this.#timer);
    this.#isLooking = true;
    const event = await this.#nextEvent();
    this.#isLooking = false;
    this.#send(event);
    if (this.#clients.size > 0) this.#timer = setTimeout(() => this.#poll(), this.#period);
  }

  /** Queries the state. If the query fails, the event says so. @returns {Promise<PageEvent>} */
  async #nextEvent() {
    try {
      const state = await this.#look();
      const data = () => JSON.stringify({ groups: groupsOf(state), notes: notesOf(state) });
      return { id: `state ${fingerprint(state)}`, text: () => `data: ${data()}\n\n` };
    } catch (error) {
      const message = messageOf(error);
      return {
        id: `failure ${message}`,
        text: () => `event: failure\ndata: ${JSON.stringify(message)}\n\n`,
      };
    }
  }

  /**
   * Sends SAME to a page that has this event already, and nothing to a page that does not read.
   * @param {PageEvent} event
   */
  #send({ id, text }) {
    /** @type {Buffer | undefined} */
    let event;
    for (const [page, has] of this.#clients) {
      if (page.writableNeedDrain) continue;
      if (has === id) {
        page.write(SAME);
      } else {
        event ??= Buffer.from(text());
        page.write(event);
        this.#clients.set(page, id);
      }
    }
  }
}

module.exports = { EventClients };
