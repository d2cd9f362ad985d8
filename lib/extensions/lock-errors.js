'use strict';

/** Errors about a lock: DOMExceptions that tell more. */

const { quote } = require('../platform/errors.js');
const { quoteName, theLock } = require('../platform/names.js');
const { DOMException } = require('../platform/realm.js');

/** @typedef {import('../backend/contract.js').CycleEntry} CycleEntry */
/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */

/** A lock could not be acquired, or was lost. The others below are kinds of it. */
class LockError extends DOMException {
  /**
   * @param {string} message
   * @param {string} lockName the resource name
   * @param {string} [name] of the error
   */
  constructor(message, lockName, name = 'LockError') {
    super(message, name);
    this.lockName = lockName;
  }
}

/** What the released promise of a stolen lock rejects with (4.1). */
class LockStolenError extends LockError {
  /**
   * @param {string} lockName
   * @param {string} clientId of the thief
   */
  constructor(lockName, clientId) {
    super(
      `${capitalized(theLock(lockName))} was stolen by a request with the 'steal' option (client ` +
        `${clientId}).`,
      lockName,
      'AbortError',
    );
    this.clientId = clientId;
  }
}

// As the specification has it: a DOMException and nothing else, for those who look there.
LockStolenError.prototype.constructor = DOMException;

/** What is said of a lock that was lost, by LossReason. @type {Record<string, string>} */
const LOSSES = {
  expired: 'its lease was not renewed in time',
  unreachable: 'the server did not answer until its lease had run out',
  failover: 'the server that took over does not know it',
  closed: 'its bucket was closed',
  destroyed: 'what keeps its state is gone',
  released: 'it was released',
};

/** The lock was lost, but not to a thief: others may hold it from now on. */
class LockLostError extends LockError {
  /**
   * @param {string} lockName
   * @param {string} reason a LossReason
   * @param {bigint} token that the lock had
   * @param {Error} [cause]
   */
  constructor(lockName, reason, token, cause) {
    const why = cause ? `${LOSSES[reason]} (${cause.message.replace(/\.$/, '')})` : LOSSES[reason];
    const what = reason === 'released' ? 'is not held any more' : 'was lost';
    super(`${capitalized(theLock(lockName))} ${what}: ${why}.`, lockName, 'AbortError');
    this.reason = reason;
    this.token = token;
    if (cause) this.cause = cause;
  }
}

/**
 * The lock was not granted within the `timeout` of its request, or not released within its
 * `holdTimeout`.
 */
class LockTimeoutError extends LockError {
  /**
   * @param {string} message
   * @param {string} lockName
   * @param {{ waited: number, held: number, holders: LockDetails[] }} details
   */
  constructor(message, lockName, { waited, held, holders }) {
    super(message, lockName, 'TimeoutError');
    this.waited = waited;
    this.held = held;
    this.holders = holders;
  }
}

/**
 * @param {string} lockName
 * @param {number} waited milliseconds
 * @param {LockDetails[]} [holders] of the lock; undefined: not known
 */
function waitTimeoutError(lockName, waited, holders) {
  const heldBy = describeHolders(holders);
  const message = `Waited ${waited.toFixed(0)} ms for ${theLock(lockName)}. ${heldBy}`;
  return new LockTimeoutError(message, lockName, { waited, held: 0, holders: holders ?? [] });
}

/**
 * @param {string} lockName
 * @param {number} waited milliseconds, before
 * @param {number} held milliseconds
 * @param {number} limit milliseconds
 */
function holdTimeoutError(lockName, waited, held, limit) {
  const message =
    `${capitalized(theLock(lockName))} was held too long, for ${held.toFixed(0)} ms, and is ` +
    `given up: its 'holdTimeout' is ${limit} ms.`;
  return new LockTimeoutError(message, lockName, { waited, held, holders: [] });
}

/** As many requests wait for the lock as the request's `maxPending` allows. */
class LockQueueFullError extends LockError {
  /**
   * @param {string} lockName
   * @param {number} maxPending
   */
  constructor(lockName, maxPending) {
    super(
      `${capitalized(theLock(lockName))} is not available, and ${maxPending} or more requests ` +
        "wait for it already: the request's 'maxPending'.",
      lockName,
      'QuotaExceededError',
    );
    this.maxPending = maxPending;
  }
}

/** The request would wait for itself, over any number of locks and threads. */
class DeadlockError extends LockError {
  /**
   * @param {string} lockName
   * @param {CycleEntry[]} cycle a request, a lock that it waits for, the request that this one
   *   waits for, and so on, back to the first; or two requests of a thread that would block, which
   *   the second one is ahead of
   */
  constructor(lockName, cycle) {
    let steps = '';
    /** @type {LockDetails[]} */
    const entries = [];
    for (let i = 0; i < cycle.length; i++) {
      const { isHeld, ...entry } = cycle[i];
      const what = isHeld ? 'held' : i % 2 ? 'wanted before' : 'wanted';
      steps += `${i ? '; ' : ''}${what} by ${describeLock(entry)}: ${quoteName(entry.name)}`;
      entries[i] = entry;
    }
    super(
      `The request for ${theLock(lockName)} closes a cycle: ${steps}.`,
      lockName,
      'DeadlockError',
    );
    this.cycle = entries;
  }
}

/** @param {string} text */
const capitalized = (text) => text[0].toUpperCase() + text.slice(1);
/** @param {number | undefined} limit */
const describeLimit = (limit) => (limit ? `the limit ${limit}` : 'no limit');

/**
 * @param {LockDetails} entry
 * @returns {string} who it is
 */
function describeLock({ clientId, threadName, label }) {
  const thread = threadName && `thread ${quote(threadName)}`;
  const known = thread && label ? `${thread}, ${quote(label)}` : thread || (label && quote(label));
  return known ? `${clientId} (${known})` : clientId;
}

/** How the message of a time limit ends if it is not known who holds the lock. */
const UNKNOWN_HOLDERS = 'Who holds it is not known.';

/**
 * @param {LockDetails[] | undefined} holders
 * @returns {string} a sentence
 */
function describeHolders(holders) {
  if (!holders) return UNKNOWN_HOLDERS;
  if (holders.length === 0) return 'It is not held any more.';
  const first = holders[0];
  const others = holders.length > 1 ? ` and ${holders.length - 1} more` : '';
  return `It is held by ${describeLock(first)}${others}, for ${first.held ?? 0} ms.`;
}

module.exports = {
  DeadlockError,
  LockError,
  LockLostError,
  LockQueueFullError,
  LockStolenError,
  LockTimeoutError,
  UNKNOWN_HOLDERS,
  capitalized,
  describeHolders,
  describeLimit,
  describeLock,
  holdTimeoutError,
  waitTimeoutError,
};
