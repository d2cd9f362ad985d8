'use strict';

/** Errors about a lock: DOMExceptions with details. */

const { lockDetails } = require('../../backend/details.js');
const { capitalize, withErrorCode } = require('../../platform/errors.js');
const { quoteName, describeLock } = require('../../platform/names.js');
const { DOMException } = require('../../platform/realm.js');
const {
  because,
  describeAgent,
  describeHolders,
  describeOutage,
  describeSite,
  milliseconds,
} = require('./descriptions.js');

/** @import { CycleEntry, LockDetails } from '../../backend/contract.js' */
/** @import { Holders } from '../watch/holder-queries.js' */

const { defineProperty } = Object;

/**
 * Keeps a long field, which the message already describes, out of printed errors.
 * @param {LockError} error @param {string} field @param {unknown} value
 */
function defineHidden(error, field, value) {
  const attributes = { __proto__: null, value, writable: true, configurable: true };
  defineProperty(error, field, /** @type {any} */ (attributes));
}

/** The error of a lock that could not be acquired or was lost. */
class LockError extends DOMException {
  /**
   * @param {string} message @param {string} lockName @param {string} name @param {string} errorCode
   */
  constructor(message, lockName, name, errorCode) {
    super(message, name);
    this.lockName = lockName;
    withErrorCode(this, errorCode);
  }

  /** Includes properties that are inherited or not enumerable, and the token as a string. */
  toJSON() {
    const { name, message } = this;
    const { cycle, holders } = /** @type {any} */ (this);
    const { cause, token, ...fields } = /** @type {any} */ ({ ...this });
    const json = { name, message, ...fields, cycle, holders };
    if (token !== undefined) json.token = `${token}`;
    if (cause !== undefined) json.cause = `${cause}`;
    return json;
  }
}

/** @param {string} lockName @param {Holders} [holders] undefined if they are unknown */
function notFreeError(lockName, holders) {
  const who = holders?.count
    ? `${describeHolders(holders.list, 0, undefined, holders.count)}; `
    : '';
  const message = `${capitalize(describeLock(lockName))} is not free (${who}'blocking' is false).`;
  return new LockError(message, lockName, 'LockError', 'ERR_WEB_LOCKS_NOT_FREE');
}

/** The released promise of a stolen lock rejects with this error (section 4.1). */
class LockStolenError extends LockError {
  /** @param {string} lockName @param {string} clientId of the thief @param {number} [pid] */
  constructor(lockName, clientId, pid) {
    super(
      `${capitalize(describeLock(lockName))} was stolen by a request with the 'steal' option ` +
        `(${pid ? `process ${pid}, ` : ''}client ${clientId}).`,
      lockName,
      'AbortError',
      'ERR_WEB_LOCKS_STOLEN',
    );
    this.clientId = clientId;
  }
}

// The specification requires a plain DOMException, and some code compares constructors.
LockStolenError.prototype.constructor = DOMException;

/** The text for each LossReason, and for a released lock. @type {Record<string, string>} */
const LOSSES = {
  expired: 'its lease was not renewed in time',
  unreachable: 'the server did not answer in time, or rejected the request',
  failover: 'the server that took over does not know it',
  closed: 'its bucket was closed',
  destroyed: 'its state was deleted or damaged',
  released: 'it was released',
};

/** The error of a lock that was lost but not stolen. Somebody else may hold the lock already. */
class LockLostError extends LockError {
  /**
   * @param {string} lockName @param {string} reason a LossReason, or 'released' (see `guard`)
   * @param {bigint} token @param {Error} [cause]
   */
  constructor(lockName, reason, token, cause) {
    const why = cause ? `${LOSSES[reason]} (${cause.message.replace(/\.$/, '')})` : LOSSES[reason];
    const what = reason === 'released' ? 'is no longer held' : 'was lost';
    super(
      `${capitalize(describeLock(lockName))} ${what}: ${why}.`,
      lockName,
      'AbortError',
      'ERR_WEB_LOCKS_LOST',
    );
    this.reason = reason;
    this.token = token;
    if (cause) this.cause = cause;
  }
}

/** @type {Holders} */
const NO_HOLDERS = { list: Object.freeze([]), count: 0 };

/**
 * @typedef {{ waited: number, held: number, holders?: Holders, grantsIn?: number,
 *   cause?: unknown }} TimeoutDetails `cause` is why the holders are unknown
 */

/** The error of a wait or a hold that took longer than `timeout`, `holdTimeout` or `maxTotal`. */
class LockTimeoutError extends LockError {
  /** @param {string} message @param {string} lockName @param {TimeoutDetails} details */
  constructor(message, lockName, { waited, held, holders = NO_HOLDERS, grantsIn = 0, cause }) {
    super(message, lockName, 'TimeoutError', 'ERR_WEB_LOCKS_TIMEOUT');
    this.waited = waited;
    this.held = held;
    defineHidden(this, 'holders', holders.list);
    this.holderCount = holders.count;
    if (grantsIn > 0) this.grantsIn = Math.ceil(grantsIn);
    if (cause !== undefined) this.cause = cause;
  }
}

/**
 * @param {string} lockName @param {number} waited milliseconds @param {Holders} [holders]
 * @param {number} [grantsIn] milliseconds for which the server grants nothing
 * @param {unknown} [outage] why the holders are unknown
 */
function waitTimeoutError(lockName, waited, holders, grantsIn, outage) {
  const cause = holders ? undefined : outage;
  const who =
    cause === undefined
      ? describeHolders(holders?.list, grantsIn, undefined, holders?.count)
      : describeOutage(cause);
  const lock = describeLock(lockName);
  const message = `Timed out after ${milliseconds(waited)} waiting for ${lock} (${who}).`;
  return new LockTimeoutError(message, lockName, { waited, held: 0, holders, grantsIn, cause });
}

/**
 * @param {string} lockName @param {number} waited milliseconds
 * @param {boolean} mayBeDone @param {unknown} [cause] why the server has not answered
 */
function theftTimeoutError(lockName, waited, mayBeDone, cause) {
  const lock = describeLock(lockName);
  const what = mayBeDone
    ? `the server did not answer, so ${lock} may have been stolen from its holder; if so, it was ` +
      'released again'
    : `${lock} was not stolen`;
  const message = `Timed out after ${milliseconds(waited)}: ${what}${because(cause)}.`;
  return new LockTimeoutError(message, lockName, { waited, held: 0, cause });
}

/**
 * @param {string} lockName @param {number} waited milliseconds before the grant
 * @param {number} held milliseconds @param {{ option: string, limit: number }} why
 */
function holdTimeoutError(lockName, waited, held, { option, limit }) {
  const message =
    `${capitalize(describeLock(lockName))} was released after ${milliseconds(held)}: its ` +
    `'${option}' is ${limit} ms.`;
  return new LockTimeoutError(message, lockName, { waited, held });
}

/** The error of a request that would wait behind `maxPending` or more other requests. */
class LockQueueFullError extends LockError {
  /** @param {string} lockName @param {number} maxPending */
  constructor(lockName, maxPending) {
    super(
      `${capitalize(describeLock(lockName))} is not available, and ${whyNotToWait(maxPending)} ` +
        `('maxPending' is ${maxPending}).`,
      lockName,
      'QuotaExceededError',
      'ERR_WEB_LOCKS_QUEUE_FULL',
    );
    this.maxPending = maxPending;
  }
}

/** @param {number} maxPending */
function whyNotToWait(maxPending) {
  if (maxPending === 0) return 'the request may not wait';
  const waiting = maxPending === 1 ? 'a request is' : `${maxPending} or more requests are`;
  return `${waiting} waiting already`;
}

/** The error of a request whose wait would be a deadlock. */
class DeadlockError extends LockError {
  /**
   * @param {string} lockName
   * @param {CycleEntry[]} cycle alternately a request and a lock for which it waits. The request
   *   after a lock must end before that lock can be released; after the last lock, this is the
   *   first request. If a thread would block itself, the second entry can instead be another
   *   request of the thread, which is ahead of the first in the queue
   */
  constructor(lockName, cycle) {
    let steps = '';
    /** @type {LockDetails[]} */
    const entries = [];
    for (let i = 0; i < cycle.length; i++) {
      const { isHeld } = cycle[i];
      const entry = lockDetails(cycle[i]);
      const agent = describeAgent(entry);
      if (i % 2 === 0) steps += `${i ? '; ' : ': '}${agent} waits for ${quoteName(entry.name)}`;
      else steps += `, ${isHeld ? 'held' : 'requested before'} by ${agent}${describeSite(entry)}`;
      entries[i] = entry;
    }
    super(
      `The request for ${describeLock(lockName)} would wait for itself${steps}.`,
      lockName,
      'DeadlockError',
      'ERR_WEB_LOCKS_DEADLOCK',
    );
    defineHidden(this, 'cycle', entries);
  }
}

/** @param {number | undefined} limit */
const describeLimit = (limit) => (limit ? `the limit ${limit}` : 'no limit');

module.exports = {
  DeadlockError,
  LockError,
  LockLostError,
  LockQueueFullError,
  LockStolenError,
  LockTimeoutError,
  capitalize,
  describeLimit,
  holdTimeoutError,
  notFreeError,
  theftTimeoutError,
  waitTimeoutError,
};
