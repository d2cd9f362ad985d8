'use strict';

/**
 * Records in a ring what the diagnostics channels publish about the requests of this thread: when a
 * request is made, when it is granted after a wait, and when it ends. So the ring shows which
 * requests are pending or held even if the thread dies. The times are milliseconds on a clock that
 * all threads share, taken after the grant and before the release. So recorded exclusive holds do
 * not overlap, with one exception: a theft is recorded only when the former holder is notified.
 */

const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { END, GRANT, START } = require('./ring.js');
const { callSite } = require('./site.js');
const { recordSites } = require('../extensions/sites/sites.js');

/** The ring stores an index into this list. `threw` means that the callback of a grant threw. */
const OUTCOMES = /** @type {const} */ ([
  'failed',
  'granted',
  'not available',
  'aborted',
  'timed out',
  'held too long',
  'stolen',
  'lost',
  'threw',
]);
/** @typedef {typeof OUTCOMES[number] | 'pending' | 'held'} Outcome */

/** Recorded texts are truncated to this many UTF-16 code units. */
const LONGEST = 1000;

/** The outcomes for which the error is recorded. */
const TELLING = ['failed', 'threw'];

/** @typedef {{ number: number, waits: boolean, outcome: number }} Live */

class Recorder {
  #ring;
  #sites;
  #count = 0;
  /** Pending and held requests by the `id` of their messages. @type {Map<symbol, Live>} */
  #live = new Map();
  /** @type {Record<string, (message: any) => void>} */
  #listeners;

  /** @param {InstanceType<typeof import('./ring.js').Ring>} ring @param {boolean} sites */
  constructor(ring, sites) {
    this.#ring = ring;
    this.#sites = sites;
    if (sites) recordSites(true);
    const outcomeSetter = (/** @type {Outcome} */ outcome) => (/** @type {any} */ message) =>
      this.#setOutcome(message, outcome);
    this.#listeners = {
      start: (message) => this.#handleStart(message),
      grant: (message) => this.#handleGrant(message),
      miss: outcomeSetter('not available'),
      abort: outcomeSetter('aborted'),
      steal: outcomeSetter('stolen'),
      lost: outcomeSetter('lost'),
      timeout: (message) => this.#setOutcome(message, message.held ? 'held too long' : 'timed out'),
      end: (message) => this.#handleEnd(message),
    };
    for (const event in this.#listeners) {
      subscribe(`locks.request.${event}`, this.#listeners[event]);
    }
  }

  stop() {
    for (const event in this.#listeners) {
      unsubscribe(`locks.request.${event}`, this.#listeners[event]);
    }
    this.#live.clear();
    recordSites(false);
  }

  /**
   * Stops this recorder instead if the ring is stopped.
   * @param {number} kind @param {number[]} numbers @param {string} [text]
   */
  #write(kind, numbers, text) {
    if (this.#ring.stopped) this.stop();
    else this.#ring.write(kind, numbers, text);
  }

  /** @param {any} message */
  #handleStart({ id, name, mode, label, manager, asked, waited, pending }) {
    // Node.js's own locks publish to the same channels, but without this field.
    if (asked === undefined) return;
    const number = ++this.#count;
    this.#live.set(id, { number, waits: pending, outcome: OUTCOMES.indexOf('failed') });
    const theName = cut(name);
    const theLabel = label === undefined ? '' : cut(label);
    const theManager = cut(manager);
    const site = this.#sites ? cut(callSite()) : '';
    const flags = (mode === 'shared' ? 1 : 0) | (pending ? 2 : 0);
    const labelLength = label === undefined ? -1 : theLabel.length;
    this.#write(
      START,
      [
        number,
        asked,
        asked + waited,
        flags,
        theName.length,
        labelLength,
        theManager.length,
        site.length,
      ],
      theName + theLabel + theManager + site,
    );
  }

  /** @param {any} message */
  #handleGrant({ id, asked, waited, token }) {
    const live = this.#live.get(id);
    if (!live) return;
    live.outcome = OUTCOMES.indexOf('granted');
    if (live.waits) this.#write(GRANT, [live.number, asked + waited, ...halvesOf(token)]);
  }

  /** @param {any} message @param {Outcome} outcome */
  #setOutcome({ id }, outcome) {
    const live = this.#live.get(id);
    if (live) live.outcome = OUTCOMES.indexOf(/** @type {any} */ (outcome));
  }

  /** @param {any} message */
  #handleEnd({ id, waited, held, token, error }) {
    const live = this.#live.get(id);
    if (!live) return;
    this.#live.delete(id);
    const isThrown = OUTCOMES[live.outcome] === 'granted' && error !== undefined;
    if (isThrown) live.outcome = OUTCOMES.indexOf('threw');
    const why = TELLING.includes(OUTCOMES[live.outcome]) ? describe(error) : '';
    const numbers = [live.number, live.outcome, waited, held, ...halvesOf(token), why.length];
    this.#write(END, numbers, why);
  }
}

/** @param {bigint | undefined} token @returns {[high: number, low: number]} 0, 0 for no token */
const halvesOf = (token) =>
  token === undefined ? [0, 0] : [Number(token >> 32n), Number(token & 0xffff_ffffn)];

/**
 * @param {any} error any value that a callback threw
 * @returns {string} one line; '' unless it is an error or a string
 */
function describe(error) {
  try {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : error;
    return typeof text === 'string' ? cut(text.split('\n', 1)[0]) : '';
  } catch {
    return '';
  }
}

/** @param {string} text */
const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);

module.exports = { OUTCOMES, Recorder };
