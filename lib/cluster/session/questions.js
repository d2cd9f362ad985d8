'use strict';

/**
 * Questions to the server, which change nothing: they wait until the session is open again, are
 * asked anew by another connection, and are given up after a time, or when the session is closed.
 * They keep the event loop alive.
 *
 * A query is asked after all that was asked before it. If that is more than the server does in a
 * part of that time, what it has not come to then is told from here, as a request that waits.
 */

const { Promise, then } = require('../../platform/intrinsics.js');
const { SILENT_MS } = require('./calls.js');
const { ENDING, HELD } = require('./place.js');

/** @typedef {import('../adapter.js').Adapter} Adapter */
/** @typedef {import('../adapter.js').Entry} Entry */
/** @typedef {import('../adapter.js').SessionInfo} SessionInfo */
/** @typedef {InstanceType<typeof import('./place.js').Place>} Place */
/** @typedef {import('./outbox.js').Unit} Unit */

/**
 * When a query was asked.
 * @typedef {object} Turn
 * @property {Promise<Entry[]>} [answer] unless there was nobody to ask, or another session begins
 * @property {number} connection by which it was
 * @property {Unit[]} passed what was asked before, and is not waited for
 */

/** A query waits for what was asked before it for a quarter of a `ttl` at most. */
const BEHIND = 4;

/**
 * What is asked of the session.
 * @typedef {object} Session
 * @property {import('./session.js').State} state
 * @property {unknown} error why it is closed, or the server refuses
 * @property {number} ttl milliseconds
 * @property {number} connection
 * @property {<T>(promise: Promise<T>, milliseconds: number) => Promise<T>} within rejects if that
 *   takes longer
 * @property {(error: unknown, connection: number) => void} isDown what a question on a connection
 *   was answered with, if that connection is still the one there is
 */

class Questions {
  #adapter;
  #info;
  #clock;
  #places;
  #outbox;
  #keepAlive;
  #session;
  /** Called at the next change of state. @type {(() => void)[]} */
  #onChange = [];
  /** What ends each that is under way. @type {Set<(error: unknown) => void>} */
  #underWay = new Set();
  /**
   * Looks that the server has not answered, also those that were given up here.
   * @type {Set<{ asked: number, connection: number }>}
   */
  #looks = new Set();

  /**
   * @param {object} parts
   * @param {Adapter} parts.adapter
   * @param {SessionInfo} parts.info
   * @param {import('./clock.js').Clock} parts.clock
   * @param {InstanceType<typeof import('./places.js').Places>} parts.places
   * @param {InstanceType<typeof import('./outbox.js').Outbox>} parts.outbox
   * @param {InstanceType<typeof import('./keep-alive.js').KeepAlive>} parts.keepAlive
   * @param {Session} session
   */
  constructor({ adapter, info, clock, places, outbox, keepAlive }, session) {
    this.#adapter = adapter;
    this.#info = info;
    this.#clock = clock;
    this.#places = places;
    this.#outbox = outbox;
    this.#keepAlive = keepAlive;
    this.#session = session;
  }

  /** The session is in another state. */
  changed() {
    const waiting = this.#onChange;
    this.#onChange = [];
    for (const resolve of waiting) resolve();
    if (this.#session.state !== 'open') this.#looks.clear();
    const { error } = this.#session;
    if (error !== undefined) for (const end of this.#underWay) end(error);
  }

  /**
   * @param {string} [name]
   * @returns {Promise<Entry[]>} what there is after all that was asked so far; rejects if the
   *   server does not tell within a `ttl`
   */
  query(name) {
    return this.#keepAlive.during(() => this.#query(name));
  }

  /**
   * @param {string} name
   * @param {number} milliseconds
   * @returns {Promise<Entry[] | undefined>} who holds it; undefined if it is not known in that
   *   time. Never rejects
   */
  async lookAt(name, milliseconds) {
    const { connection, state } = this.#session;
    if (state !== 'open') return undefined;
    const look = { asked: this.#clock.monotonic(), connection };
    const forget = () => this.#looks.delete(look);
    this.#looks.add(look);
    const answer = this.#told(name, 'held');
    then(answer, forget, forget);
    try {
      return await this.#keepAlive.during(() => this.#within(answer, milliseconds));
    } catch {
      return undefined;
    }
  }

  /** Whether the server has left a look unanswered for so long that it seems to be down. */
  get isServerSilent() {
    const { connection } = this.#session;
    const since = this.#clock.monotonic() - SILENT_MS;
    return [...this.#looks].some((look) => look.connection === connection && look.asked <= since);
  }

  /**
   * @param {Place} place held
   * @returns {Promise<boolean>} whether its name is marked; false, too, if it is no longer held;
   *   rejects if the server cannot tell
   */
  isMarked(place) {
    return this.#keepAlive.during(() => this.#isMarked(place));
  }

  /** @param {string} [name] */
  async #query(name) {
    const session = this.#session;
    const end = this.#clock.monotonic() + session.ttl;
    for (;;) {
      if (session.error) throw session.error;
      const { answer, connection, passed } = await this.#turn(name, end);
      if (session.error) throw session.error;
      const rest = end - this.#clock.monotonic();
      if (answer) {
        try {
          return this.#withPassed(await this.#within(answer, rest), passed, name);
        } catch (error) {
          const isLate = this.#clock.monotonic() >= end;
          if (isLate || this.#isFinal(error)) throw error;
          session.isDown(error, connection);
        }
      } else if (session.state !== 'open') {
        await session.within(this.#change(), rest);
      }
    }
  }

  /**
   * A query comes after what was asked before, and before what is asked later.
   * @param {string | undefined} name
   * @param {number} end until when it is of use
   * @returns {Promise<Turn>}
   */
  async #turn(name, end) {
    const session = this.#session;
    /** @type {Turn} */
    const turn = { connection: 0, passed: [] };
    /** @type {Unit | undefined} */
    let barrier;
    const reached = new Promise((/** @type {(_?: any) => void} */ resolve) => {
      barrier = this.#outbox.barrier((isDropped) => {
        turn.connection = session.connection;
        if (!isDropped && session.state === 'open') turn.answer = this.#ask(name);
        resolve();
      });
    });
    const rest = () => end - this.#clock.monotonic();
    try {
      await this.#within(reached, Math.min(session.ttl / BEHIND, rest()));
    } catch {
      if (barrier) turn.passed = this.#outbox.hurry(barrier);
      if (session.error) throw session.error;
      await this.#within(reached, rest());
    }
    return turn;
  }

  /**
   * @param {string} [name]
   * @returns {Promise<Entry[]>} whose rejection is looked at later
   */
  #ask(name) {
    const answer = this.#told(name);
    then(answer, undefined, () => {});
    return answer;
  }

  /**
   * @param {string} [name]
   * @param {'held'[]} which
   */
  async #told(name, ...which) {
    return await this.#adapter.query(name, ...which);
  }

  /** @param {Place} place */
  async #isMarked(place) {
    const session = this.#session;
    const { name } = place.op;
    const marked = /** @type {NonNullable<Adapter['marked']>} */ (this.#adapter.marked);
    while (place.state === HELD) {
      if (session.error) throw session.error;
      if (session.state !== 'open') {
        await this.#change();
        continue;
      }
      const { connection } = session;
      try {
        return await this.#within(marked.call(this.#adapter, name), session.ttl / 3);
      } catch (error) {
        if (place.state !== HELD) break;
        if (this.#isFinal(error)) throw error;
        session.isDown(error, connection);
      }
    }
    return false;
  }

  /**
   * @param {unknown} error of a question
   * @returns {boolean} whether it would not be answered by another connection, either
   */
  #isFinal(error) {
    const { error: refusal } = this.#session;
    const kind = this.#adapter.classify(error);
    return error === refusal || kind === 'fatal' || kind === 'misuse' || kind === 'refused';
  }

  /**
   * @template T
   * @param {Promise<T>} answer
   * @param {number} milliseconds
   * @returns {Promise<T>} rejects if that takes longer, or when the session is closed or refused
   */
  async #within(answer, milliseconds) {
    /** @type {(error: unknown) => void} */
    let end = () => {};
    /** @type {Promise<T>} */
    const ended = new Promise((resolve, reject) => {
      end = reject;
      then(answer, resolve, reject);
    });
    this.#underWay.add(end);
    try {
      return await this.#session.within(ended, milliseconds);
    } finally {
      this.#underWay.delete(end);
    }
  }

  /** @returns {Promise<void>} resolves at the next change of state */
  #change() {
    return new Promise((resolve) => {
      this.#onChange.push(resolve);
    });
  }

  /**
   * @param {Entry[]} told by the server
   * @param {Unit[]} passed that it may not have come to then: requests that may have to wait, and
   *   ends
   * @param {string} [name]
   */
  #withPassed(told, passed, name) {
    /** @type {Map<number, Entry>} */
    const asked = new Map();
    /** @type {Set<number>} */
    const ended = new Set();
    for (const op of passed.flatMap(({ ops }) => ops)) {
      if (op.kind === 'end') ended.add(op.ref);
      else if (op.kind !== 'ifAvailable' && (name ?? op.name) === op.name) this.#tell(op, asked);
    }
    /** @type {Entry[]} */
    const entries = [];
    for (const entry of told) {
      const isOwn = entry.clientId === this.#info.clientId;
      if (isOwn) asked.delete(entry.ref);
      if (!isOwn || !ended.has(entry.ref)) entries.push(entry);
    }
    const all = [...entries, ...asked.values()];
    if (!all.some(({ priority }) => priority)) return all;
    for (const entry of asked.values()) {
      const place = entries.findIndex((other) => isBehind(other, entry));
      entries.splice(place < 0 ? entries.length : place, 0, entry);
    }
    return entries;
  }

  /**
   * @param {import('../adapter.js').RequestOp} op
   * @param {Map<number, Entry>} asked
   */
  #tell({ label, limit, mode, name, priority, ref, weight }, asked) {
    const place = this.#places.get(ref);
    // If it was answered since, that was after what the server told.
    if (!place || place.state === ENDING) return;
    const { clientId, host, pid, threadId, threadName, program } = this.#info;
    const waited = this.#clock.monotonic() - place.asked;
    asked.set(ref, {
      ...{ ref, name, mode, limit, weight, priority, label, token: 0n, waited, held: 0 },
      ...{ clientId, host, pid, threadId, threadName, program },
    });
  }
}

/**
 * @param {Entry} entry in a queue
 * @param {Entry} other that will come into one
 * @returns {boolean} whether it waits behind the other then
 */
const isBehind = ({ name, priority = 0, token }, other) =>
  name === other.name && token === 0n && priority < (other.priority ?? 0);

module.exports = { Questions };
