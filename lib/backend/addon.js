'use strict';

/** The native addon, and what its calls take and leave in numbers. */

const { loadBinary } = require('./binary.js');
const { closedError, noMemoryError, plainError } = require('../platform/errors.js');

/**
 * @typedef {object} Addon the exports of src/binding/addon.cc, which describes them
 * @property {(clientPrefix: string, threadId: number, threadName: string, exchange: ArrayBuffer,
 *   drain: () => void) => string | number} start
 * @property {(bucket: string) => ManagerHandle | number} openManager
 * @property {(manager: ManagerHandle) => number} closeManager no request is left on it
 * @property {(manager: ManagerHandle, name: string) => void} request
 * @property {(manager: ManagerHandle, name: string, label: string, inside: Uint32Array | undefined)
 *   => Snapshot | undefined} requestExtra
 * @property {(timeout: number) => Snapshot | undefined} wait
 * @property {() => void} release
 * @property {() => number} isMarked
 * @property {(keep: number) => number} releaseAndMark
 * @property {() => void} abort
 * @property {(tag: number) => number} undo
 * @property {(woken: boolean) => number} drain
 * @property {() => number} continuousNow milliseconds of a clock that goes on while the machine
 *   sleeps, and that nobody sets; negative where there is none
 * @property {(endsWithUs: boolean) => void} keepFamily see lib/cli/process-group.js
 * @property {() => void} endFamily
 * @property {(manager: ManagerHandle) => Snapshot | number} snapshot
 * @property {(manager: ManagerHandle, name: string, pending: boolean) => Snapshot | number}
 *   snapshotOf
 * @property {(bucket: string, version: string, threadId: number, threadName: string,
 *   directory: string) => ManagerHandle | number} hostOpen
 * @property {(opening: ManagerHandle) => number} hostClose
 * @property {(opening: ManagerHandle) => string} hostClientId
 * @property {(opening: ManagerHandle | undefined) => string} hostFailure
 * @property {(opening: ManagerHandle) => string | number} hostPlace
 * @property {(opening: ManagerHandle) => number} hostReady
 * @property {(opening: ManagerHandle, name: string) => number} hostRequest
 * @property {(opening: ManagerHandle, name: string, label: string) => number} hostRequestExtra
 * @property {(timeout: number) => number} hostWait
 * @property {() => number} hostRelease
 * @property {() => number} hostAbort
 * @property {() => number} hostEnd
 * @property {(opening: ManagerHandle, name: string | undefined, pending: boolean) => number}
 *   hostSnapshot
 * @property {(opening: ManagerHandle, timeout: number) => number} hostWaitForSnapshot
 * @property {(opening: ManagerHandle) => Snapshot | number} hostTakeSnapshot
 * @property {(opening: ManagerHandle, name: string) => Snapshot | number} hostHolders
 * @property {() => number} [liveBlocks] allocations of the core that are not freed; in checked
 *   builds only
 * @property {any} [agent] this thread's Agent, see agent.js
 * @property {number} CLOSED
 * @property {number} WLK_OK
 * @property {number} WLK_GRANTED
 * @property {number} WLK_PENDING
 * @property {number} WLK_NOT_AVAILABLE
 * @property {number} WLK_NO_MEMORY
 * @property {number} WLK_STOLEN
 * @property {number} WLK_OTHER_LIMIT
 * @property {number} WLK_QUEUE_FULL
 * @property {number} WLK_MARKED
 * @property {number} WLK_EXCLUSIVE
 * @property {number} WLK_SHARED
 * @property {number} WLK_WAIT
 * @property {number} WLK_IF_AVAILABLE
 * @property {number} WLK_STEAL
 * @property {number} WLK_PASS
 * @property {number} WLK_PASS_IF_AVAILABLE
 * @property {number} WLK_NEWS_GRANTED
 * @property {number} WLK_NEWS_STOLEN
 * @property {number} WLK_NEWS_PASSED
 * @property {number} WLH_OK
 * @property {number} WLH_GRANTED
 * @property {number} WLH_PENDING
 * @property {number} WLH_NOT_AVAILABLE
 * @property {number} WLH_STOLEN
 * @property {number} WLH_DEADLOCK
 * @property {number} WLH_OTHER_LIMIT
 * @property {number} WLH_QUEUE_FULL
 * @property {number} WLH_NO_MEMORY
 * @property {number} WLH_UNSUPPORTED
 * @property {number} WLH_VERSION
 * @property {number} WLH_FULL
 * @property {number} WLH_LOST
 * @property {number} WLH_CLOSED
 * @property {number} WLH_NEWS_NOT_AVAILABLE
 * @property {number} WLH_NEWS_OTHER_LIMIT
 * @property {number} WLH_NEWS_QUEUE_FULL
 * @property {number} WLH_NEWS_FAILED
 * @property {number} WLH_NEWS_LOST
 * @property {number} WLH_NEWS_RELEASED
 * @property {number} WLH_NEWS_SNAPSHOT
 * @property {number} WLH_NEWS_READY
 * @property {number} NEWS_OF_HOST in the news of every event that is not of the process's core
 * @property {number} AGREEMENT see binary.js
 * @property {number} EXCHANGE_EVENT_COUNT
 * @property {number} EXCHANGE_TAG
 * @property {number} EXCHANGE_MODE
 * @property {number} EXCHANGE_OPTION
 * @property {number} EXCHANGE_THIEF
 * @property {number} EXCHANGE_TOKEN
 * @property {number} EXCHANGE_LIMIT
 * @property {number} EXCHANGE_WEIGHT
 * @property {number} EXCHANGE_MAX_PENDING
 * @property {number} EXCHANGE_PRIORITY
 * @property {number} EXCHANGE_STATUS
 * @property {number} EXCHANGE_EVENTS
 * @property {number} EVENT_TAG
 * @property {number} EVENT_NEWS
 * @property {number} EVENT_THIEF
 * @property {number} EVENT_TOKEN
 * @property {number} EVENT_SIZE
 * @property {number} INFO_NAME
 * @property {number} INFO_CLIENT
 * @property {number} INFO_MODE
 * @property {number} INFO_HELD
 * @property {number} INFO_LABEL
 * @property {number} INFO_LIMIT
 * @property {number} INFO_WEIGHT
 * @property {number} INFO_PRIORITY
 * @property {number} INFO_AGE
 * @property {number} INFO_TOKEN
 * @property {number} INFO_SIZE
 */

/**
 * @typedef {{ readonly external: unique symbol }} ManagerHandle an open lock manager; closed when
 * collected
 */
/**
 * @typedef {{ names: string[], clientIds: string[], threadIds: number[], threadNames: string[],
 *   locks: ArrayBuffer, pids?: number[] }} Snapshot see src/binding/values.h
 */

/** @type {Addon} */
const addon = loadBinary();

/**
 * The exchange (src/binding/environment.h): 32-bit numbers that calls of the addon take and leave.
 * Where in it is what, as the addon says.
 */
const {
  EXCHANGE_EVENT_COUNT: EVENT_COUNT,
  EXCHANGE_TAG: TAG,
  EXCHANGE_MODE: MODE,
  EXCHANGE_OPTION: OPTION,
  /** Two numbers, if the call answers WLK_STOLEN. */
  EXCHANGE_THIEF: THIEF,
  /** Two halves, the lower one first, if the call answers WLK_GRANTED. */
  EXCHANGE_TOKEN: TOKEN,
  /** To requestExtra, and from it if it answers WLK_OTHER_LIMIT. */
  EXCHANGE_LIMIT: LIMIT,
  /** To requestExtra. */
  EXCHANGE_WEIGHT: WEIGHT,
  EXCHANGE_MAX_PENDING: MAX_PENDING,
  /** A number with a sign. */
  EXCHANGE_PRIORITY: PRIORITY,
  /** From a call about one request: what came of it. */
  EXCHANGE_STATUS: STATUS,
  /** The first event; then the next one. In each is, at so much from where it begins: */
  EXCHANGE_EVENTS: EVENTS,
  EVENT_SIZE,
  EVENT_TAG,
  EVENT_NEWS,
  /** Two numbers, if it tells of a theft. */
  EVENT_THIEF,
  /** Two halves. */
  EVENT_TOKEN,
} = addon;
const NO_MAXIMUM = 2 ** 32 - 1;

/** How many events one call of the addon can hand over; there is more where that is reached. */
const EVENT_CAPACITY = 256;

/**
 * @template T
 * @param {T | number} result of the addon: a value, or a status if there is none
 * @param {string} doing for the message
 * @returns {T}
 */
function checked(result, doing) {
  if (typeof result === 'number') throw errorOf(result, doing);
  return result;
}

/**
 * @param {number} status
 * @param {string} doing
 * @returns {Error}
 */
function errorOf(status, doing) {
  if (status === addon.CLOSED) return closedError();
  if (status === addon.WLK_NO_MEMORY) return noMemoryError(doing);
  return plainError(`web-locks: ${doing} failed with status ${status}.`, 'ERR_WEB_LOCKS_CORE');
}

module.exports = {
  EVENTS,
  EVENT_CAPACITY,
  EVENT_COUNT,
  EVENT_NEWS,
  EVENT_SIZE,
  EVENT_TAG,
  EVENT_THIEF,
  EVENT_TOKEN,
  LIMIT,
  MAX_PENDING,
  MODE,
  NO_MAXIMUM,
  OPTION,
  PRIORITY,
  STATUS,
  TAG,
  THIEF,
  TOKEN,
  WEIGHT,
  addon,
  checked,
  errorOf,
};
