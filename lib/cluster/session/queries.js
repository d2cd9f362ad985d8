'use strict';

/**
 * Sends queries, which change nothing on the server. `query` waits until the session is open. If
 * the connection is lost, the query is repeated over the next connection. It fails after a time
 * limit, or when the session closes or is refused. A query under way keeps the event loop alive.
 *
 * `query` is sent after all operations that were requested before it. If these operations take
 * longer than a quarter of a `ttl`, the query overtakes the ones that have not been sent yet. Its
 * result then lists their requests as waiting.
 */

const { Promise, then } = require('../../platform/intrinsics.js');
const { waits, whoOf } = require('../adapter.js');
const { SILENT_MS } = require('./in-flight-calls.js');
const { isRefusal } = require('./sending.js');
const { ENDING, GRANTED_PARTIAL, HELD } = require('./tracked-request.js');
const { within } = require('./within.js');

/** @import { Entry } from '../adapter.js' */
/** @import { Unit } from './send-queue.js' */
/** @typedef {InstanceType<typeof import('./tracked-request.js').TrackedRequest>} TrackedRequest */
/** @typedef {InstanceType<typeof import('./parts.js').SessionParts>} Parts */

/**
 * @typedef {object} Attempt
 * @property {Promise<Entry[]>} [answer] undefined if the session was not open, so nothing was sent
 * @property {number} connection over which the query was sent
 * @property {Unit[]} overtaken by the query
 */

/** A query overtakes unsent operations after `ttl / BEHIND`. */
const BEHIND = 4;

class Queries {
  #parts;
  /** @type {(() => void)[]} */
  #onChange = [];
  /** Functions that reject the queries under way. @type {Set<(error: unknown) => void>} */
  #underWay = new Set();
  /** Unanswered queries, even timed-out ones. @type {Set<{ asked: number, connection: number }>} */
  #holderQueries = new Set();

  /** @param {Parts} parts */
  constructor(parts) {
    this.#parts = parts;
  }

  /** Lets waiting queries try again; rejects all if the session is closed or refused. */
  handleChange() {
    const waiting = this.#onChange;
    this.#onChange = [];
    for (const resolve of waiting) resolve();
    if (!this.#parts.status.isOpen) this.#holderQueries.clear();
    const error = this.#parts.outage.rejection;
    if (error !== undefined) for (const end of this.#underWay) end(error);
  }

  /**
   * Returns the holders of a name, to report who blocks a request. Locks that the server has
   * granted to this client, but that it does not hold here, are left out: such a lock may belong to
   * the blocked request itself. The result is undefined if all holders were left out, or if the
   * server does not answer in time.
   * @param {string} name @param {number} milliseconds
   */
  async queryHolders(name, milliseconds) {
    const holders = await this.#fetchHolders(name, milliseconds);
    const others = holders?.filter((holder) => !this.#isOwnUnheld(holder));
    return others?.length || !holders?.length ? others : undefined;
  }

  /**
   * A lock of this client is not held here before its grant arrives, while its group is incomplete,
   * and after its end.
   * @param {Entry} entry
   */
  #isOwnUnheld({ clientId, ref, token }) {
    const tracked = this.#parts.requests.get(ref);
    const isKnown = tracked?.token === token && tracked.state !== GRANTED_PARTIAL;
    return clientId === this.#parts.info.clientId && !isKnown;
  }

  /**
   * The result is undefined if the session is not open or the answer is late. Never rejects.
   * @param {string} name @param {number} milliseconds @returns {Promise<Entry[] | undefined>}
   */
  async #fetchHolders(name, milliseconds) {
    const { connection } = this.#parts.calls;
    if (!this.#parts.status.isOpen) return undefined;
    const look = { asked: this.#parts.clock.monotonic(), connection };
    const forget = () => this.#holderQueries.delete(look);
    this.#holderQueries.add(look);
    const answer = this.#send(name, 'held');
    then(answer, forget, forget);
    try {
      return await this.#parts.keepAlive.during(() => this.#within(answer, milliseconds));
    } catch {
      return undefined;
    }
  }

  /** Whether a query for holders, over this connection, has had no answer for `SILENT_MS`. */
  get isServerSilent() {
    const { connection } = this.#parts.calls;
    const since = this.#parts.clock.monotonic() - SILENT_MS;
    return [...this.#holderQueries].some(
      (look) => look.connection === connection && look.asked <= since,
    );
  }

  /** Repeats failed attempts until a `ttl` has passed, and then rejects. @param {string} [name] */
  query(name) {
    const { clock, connection, keepAlive, outage, status } = this.#parts;
    return keepAlive.during(async () => {
      const end = clock.monotonic() + status.ttl;
      for (;;) {
        if (outage.rejection) throw outage.rejection;
        const attempt = await this.#attempt(name, end);
        if (outage.rejection) throw outage.rejection;
        const rest = end - clock.monotonic();
        if (attempt.answer) {
          try {
            const listed = await this.#within(attempt.answer, rest);
            return this.#addOvertaken(listed, attempt.overtaken, name);
          } catch (error) {
            if (clock.monotonic() >= end || this.#isFinal(error)) throw error;
            connection.handleDisconnectOf(attempt.connection, error);
          }
        } else if (!status.isOpen) {
          await this.#limit(this.#nextChange(), rest);
        }
      }
    });
  }

  /**
   * Sends the query once, at the place in the send queue where a barrier stands. So no operation
   * that is requested later is sent before the query.
   * @param {string | undefined} name @param {number} end the deadline @returns {Promise<Attempt>}
   */
  async #attempt(name, end) {
    /** @type {Attempt} */
    const attempt = { connection: 0, overtaken: [] };
    /** @type {Unit | undefined} */
    let barrier;
    const reached = new Promise((/** @type {(_?: any) => void} */ resolve) => {
      barrier = this.#parts.sendQueue.addBarrier((isDropped) => {
        attempt.connection = this.#parts.calls.connection;
        if (!isDropped && this.#parts.status.isOpen) attempt.answer = this.#send(name);
        resolve();
      });
    });
    const rest = () => end - this.#parts.clock.monotonic();
    try {
      await this.#within(reached, Math.min(this.#parts.status.ttl / BEHIND, rest()));
    } catch {
      if (barrier) attempt.overtaken = this.#parts.sendQueue.moveToFront(barrier);
      if (this.#parts.outage.rejection) throw this.#parts.outage.rejection;
      await this.#within(reached, rest());
    }
    return attempt;
  }

  /**
   * Marks a rejection as handled, because callers may handle it later.
   * @param {string} [name] @param {'held'[]} which
   */
  #send(name, ...which) {
    const { adapter } = this.#parts;
    const answer = (async () => await adapter.query(name, ...which))();
    then(answer, undefined, () => {});
    return answer;
  }

  /**
   * Whether the name of a held lock is marked; false if the lock ends meanwhile. The query is
   * repeated until the server answers it. Rejects if the session is closed or refused, or if the
   * query would fail on every connection.
   * @param {TrackedRequest} tracked
   */
  queryMark(tracked) {
    const { adapter, calls, connection, keepAlive, outage, status } = this.#parts;
    return keepAlive.during(async () => {
      while (tracked.state === HELD) {
        if (outage.rejection) throw outage.rejection;
        if (!status.isOpen) {
          await this.#nextChange();
          continue;
        }
        const current = calls.connection;
        try {
          const marked = /** @type {Promise<boolean>} */ (adapter.marked?.(tracked.op.name));
          return await this.#within(marked, status.ttl / 3);
        } catch (error) {
          if (tracked.state !== HELD) break;
          if (this.#isFinal(error)) throw error;
          connection.handleDisconnectOf(current, error);
        }
      }
      return false;
    });
  }

  /** Whether a query would fail with this error on every connection. @param {unknown} error */
  #isFinal(error) {
    const refusal = this.#parts.outage.rejection;
    const meaning = this.#parts.adapter.classify(error);
    return error === refusal || meaning === 'misuse' || isRefusal(meaning);
  }

  /** @template T @param {Promise<T>} promise @param {number} milliseconds */
  #limit(promise, milliseconds) {
    const late = () =>
      this.#parts.outage.timeoutError(
        `The server did not answer the query within ${milliseconds} ms`,
      );
    return within(this.#parts.clock, promise, milliseconds, late);
  }

  /**
   * Like `#limit`, but rejects also when the session closes or is refused.
   * @template T @param {Promise<T>} answer @param {number} milliseconds @returns {Promise<T>}
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
      return await this.#limit(ended, milliseconds);
    } finally {
      this.#underWay.delete(end);
    }
  }

  /** Resolves when the session changes its state. @returns {Promise<void>} */
  #nextChange() {
    return new Promise((resolve) => {
      this.#onChange.push(resolve);
    });
  }

  /**
   * Adds the requests of overtaken units as waiting ones, and removes requests that these units
   * end.
   * @param {Entry[]} listed @param {Unit[]} overtaken @param {string} [name]
   */
  #addOvertaken(listed, overtaken, name) {
    /** @type {Map<number, Entry>} */
    const asked = new Map();
    /** @type {Set<number>} */
    const ended = new Set();
    for (const op of overtaken.flatMap(({ ops }) => ops)) {
      if (op.kind === 'publish') continue;
      if (op.kind === 'end') ended.add(op.ref);
      else if ((name ?? op.name) === op.name && (waits(op) || op.kind === 'steal'))
        this.#addWaiting(op, asked);
    }
    const entries = [];
    for (const entry of listed) {
      const isOwn = entry.clientId === this.#parts.info.clientId;
      if (isOwn) asked.delete(entry.ref);
      if (!isOwn || !ended.has(entry.ref)) entries.push(entry);
    }
    const all = [...entries, ...asked.values()];
    if (!all.some(({ priority }) => priority)) return all;
    for (const entry of asked.values()) {
      const index = entries.findIndex((other) => isBehind(other, entry));
      entries.splice(index < 0 ? entries.length : index, 0, entry);
    }
    return entries;
  }

  /** @param {import('../adapter.js').RequestOp} op @param {Map<number, Entry>} asked */
  #addWaiting({ label, limit, mode, name, priority, ref, weight }, asked) {
    const tracked = this.#parts.requests.get(ref);
    // The request has ended since then, or the user has given it up, so it is not listed.
    if (!tracked || tracked.state === ENDING) return;
    const waited = this.#parts.clock.monotonic() - tracked.asked;
    asked.set(ref, {
      ...{ ref, name, mode, limit, weight, priority, label, token: 0n, waited, held: 0 },
      ...whoOf(this.#parts.info),
    });
  }
}

/**
 * Whether an entry waits for the same lock with less priority.
 * @param {Entry} entry @param {Entry} other
 */
const isBehind = ({ name, priority = 0, token }, other) =>
  name === other.name && token === 0n && priority < (other.priority ?? 0);

module.exports = { Queries };
