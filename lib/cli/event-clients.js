'use strict';

/**
 * The pages that are open, and the looks that are taken for them: one a second for all of them, and
 * none while there is no page.
 *
 * Each event has the whole state. So nothing is kept for a page that does not read: it gets the
 * state of then, when it reads again.
 */

const { groupsOf, notesOf } = require('./view-model.js');
const { messageOf } = require('./bucket.js');
const { identity } = require('./table.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */
/** @typedef {import('node:http').ServerResponse} ServerResponse */

/** From one look to the next. */
const PERIOD_MS = 1000;

/** Of a page whose connection breaks: when it makes another one. */
const FIRST = 'retry: 1000\n\n';
/** It is as it was. A page that hears nothing knows that nobody looks. */
const SAME = 'event: same\ndata:\n\n';

/**
 * What is told after a look.
 * @typedef {object} PageEvent
 * @property {string} id the same as long as nothing else is to be told
 * @property {() => string} text the event
 */

class EventClients {
  #look;
  #period;
  /** And the id of the event that each of them has. @type {Map<ServerResponse, string>} */
  #clients = new Map();
  #isLooking = false;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;

  /**
   * @param {() => Promise<DetailedSnapshot>} look
   * @param {number} [period] milliseconds
   */
  constructor(look, period = PERIOD_MS) {
    this.#look = look;
    this.#period = period;
  }

  /** @param {ServerResponse} response its head is written */
  add(response) {
    response.on('close', () => this.#drop(response));
    // It was closed: that is told, too.
    response.on('error', () => {});
    this.#clients.set(response, '');
    response.write(FIRST);
    // Those that come later have the next look: however many come, there is no more than one.
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

  /** @returns {Promise<PageEvent>} */
  async #nextEvent() {
    try {
      const state = await this.#look();
      const data = () => JSON.stringify({ groups: groupsOf(state), notes: notesOf(state) });
      return { id: `state ${identity(state)}`, text: () => `data: ${data()}\n\n` };
    } catch (error) {
      const message = messageOf(error);
      return {
        id: `failure ${message}`,
        text: () => `event: failure\ndata: ${JSON.stringify(message)}\n\n`,
      };
    }
  }

  /** @param {PageEvent} event */
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
