'use strict';

/**
 * Knows why the server does not answer, and how long to pause between attempts. It decides nothing:
 * the session does.
 */

const { plainError } = require('../../platform/errors.js');

/** @import { Clock } from './clock.js' */
/** @typedef {InstanceType<typeof import('./status.js').Status>} Status */

// The first and the longest pause between attempts to connect, in milliseconds. Each pause is twice
// as long as the one before.
const FIRST_RETRY = 50;
const LAST_RETRY = 2000;
/** The longest pause while the server refuses this client and there is no lease. */
const LAST_REFUSED = 60_000;

/** The errors that `unreachableError` has made. They contain no reason of their own. */
const made = new WeakSet();

/** Codes about a replaced session or connection. Users cannot do anything about these errors. */
const INTERNAL = ['ERR_WEB_LOCKS_SESSION_DEAD', 'ERR_WEB_LOCKS_STALE'];

/** Whether the cause has a code of this library that users can act on. @param {any} cause */
const givesReason = (cause) =>
  String(cause?.code).startsWith('ERR_WEB_LOCKS_') && !INTERNAL.includes(cause.code);

/**
 * Creates the error for a server that did not answer in time. If the cause has a code of this
 * library that users can act on, the error takes this code.
 * @param {string} what begins the message @param {any} cause the last error that gives a reason
 */
function unreachableError(what, cause) {
  const why = cause === undefined ? 'the lock server does not answer.' : (cause?.message ?? cause);
  const options = cause === undefined ? undefined : { cause };
  const code = givesReason(cause) ? cause.code : 'ERR_WEB_LOCKS_UNREACHABLE';
  const error = plainError(`${what}: ${why}`, code, options);
  made.add(error);
  return error;
}

/**
 * Returns `why` itself if users can act on its code, and otherwise an error about the server.
 * @param {unknown} why @returns {unknown}
 */
function reasonError(why) {
  if (givesReason(why)) return why;
  if (why !== undefined) return unreachableError('The lock server cannot be reached', why);
  return plainError('The lock server does not answer.', 'ERR_WEB_LOCKS_UNREACHABLE');
}

class Outage {
  /** Why the server refuses this client. @type {unknown} */
  refusal;
  /** Why the session is closed. @type {unknown} */
  closeReason;
  #refusals = 0;
  /** How many attempts in a row have not led to a session that was renewed. */
  #attempts = 0;
  /** How many attempts in a row to reconnect this session have failed. */
  #retries = 0;
  /** @type {unknown} */
  #lastError;
  #lastErrorAt = 0;
  #clock;
  #status;

  /** @param {Clock} clock @param {Status} status */
  constructor(clock, status) {
    this.#clock = clock;
    this.#status = status;
  }

  /** Ignores errors that contain no reason of their own. @param {unknown} error */
  noteError(error) {
    if (made.has(/** @type {any} */ (error))) return;
    this.#lastError = error;
    this.#lastErrorAt = this.#clock.monotonic();
  }

  /** Why the server does not answer; undefined if that is unknown. */
  get reason() {
    const age = this.#clock.monotonic() - this.#lastErrorAt;
    const isRecent = age <= Math.max(this.#status.ttl, 2 * LAST_RETRY);
    return this.refusal ?? (isRecent ? this.#lastError : undefined);
  }

  /** Why new requests fail at once; undefined if they do not. */
  get rejection() {
    return this.closeReason ?? this.refusal;
  }

  /** @param {string} what has not happened in time */
  timeoutError(what) {
    return unreachableError(what, this.reason);
  }

  endRefusal() {
    this.refusal = undefined;
    this.#refusals = 0;
  }

  /** Makes the pauses before reconnecting short again. */
  noteOpened() {
    this.#retries = 0;
  }

  /** Makes the pauses before reconnecting, and before opening a session, short again. */
  noteRenewed() {
    this.#attempts = this.#retries = 0;
  }

  /** Counts a lost session as an attempt; returns whether none has failed since a renewal. */
  noteLost() {
    return this.#attempts++ === 0;
  }

  /** Milliseconds until the next attempt to open a session; counts that attempt. */
  nextOpenDelay() {
    return this.#retryDelay(this.#attempts++);
  }

  /** Milliseconds until the next attempt to reconnect this session; counts that attempt. */
  nextReconnectDelay() {
    return this.#retryDelay(this.#retries++);
  }

  /** Milliseconds until an attempt that a user asks for. */
  soonDelay() {
    return this.#randomDelay(0, LAST_RETRY);
  }

  /**
   * While the server refuses this client, refusals are counted here and replace `failures`.
   * @param {number} failures how many attempts in a row have failed
   */
  #retryDelay(failures) {
    if (this.refusal === undefined) return this.#randomDelay(failures, LAST_RETRY);
    const { hasSession, ttl } = this.#status;
    const most = hasSession ? Math.max(ttl / 10, LAST_RETRY) : LAST_REFUSED;
    return this.#randomDelay(this.#refusals++, most);
  }

  /** @param {number} failures @param {number} most milliseconds */
  #randomDelay(failures, most) {
    const milliseconds = Math.min(FIRST_RETRY * 2 ** failures, most);
    return Math.min(milliseconds * (0.5 + this.#clock.random()), LAST_REFUSED);
  }
}

module.exports = { Outage, reasonError, unreachableError };
