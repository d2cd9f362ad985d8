'use strict';

/** Declares the types of the native addon, and names the numbers that its calls use. */

const { loadBinary } = require('./binary.js');
const { closedError, noMemoryError, plainError } = require('../platform/errors.js');

/**
 * The functions of src/binding/addon.cc, which describes them.
 * @typedef {object} AddonCalls
 * @property {(clientPrefix: string, threadId: number, threadName: string, exchange: ArrayBuffer,
 *   drain: () => void) => string | number} start
 * @property {(bucket: string) => ManagerHandle | number} openManager
 * @property {(handle: ManagerHandle) => number} close requires that it has no requests
 * @property {(handle: ManagerHandle, name: string) => void} request
 * @property {(handle: ManagerHandle, name: string, label: string, inside: Uint32Array | undefined)
 *   => Snapshot | undefined} requestExtra
 * @property {(timeout: number) => Snapshot | undefined} wait
 * @property {() => void} release @property {() => void} abort @property {() => void} end
 * @property {() => void} isMarked @property {(keep: number) => void} releaseAndMark
 * @property {(text: string) => void} publish '' removes what was published
 * @property {(tag: number) => number} undo @property {(woken: boolean) => number} drain
 * @property {(handle: ManagerHandle, name: string | undefined) => Snapshot | number} snapshot
 * @property {(handle: ManagerHandle, name: string) => Snapshot | number} holders
 * @property {(bucket: string, version: string, threadId: number, threadName: string,
 *   directory: string, hasLibuv: boolean) => ManagerHandle | number} hostOpen
 * @property {(handle: ManagerHandle) => string} hostClientId
 * @property {(handle: ManagerHandle | undefined) => string} hostFailure
 * @property {(handle: ManagerHandle) => string | number} hostPlace
 * @property {(handle: ManagerHandle) => number} hostReady
 * @property {(lock: number, text: string) => number} hostPublishLater
 * @property {(handle: ManagerHandle, name: string | undefined) => number} hostSnapshot
 * @property {(handle: ManagerHandle, timeout: number) => number} hostWaitForSnapshot
 * @property {(handle: ManagerHandle) => Snapshot | number} hostTakeSnapshot
 * @property {() => number} hostEndJob
 * @property {() => number} continuousNow milliseconds of a clock that also counts while the machine
 *   sleeps and that nobody can set; negative if there is none
 * @property {(endsWithUs: boolean) => void} keepProcessGroup see lib/cli/process-group.js
 * @property {() => void} endProcessGroup @property {(child: number) => void} watchChild
 * @property {() => number} signalOfChild
 * @property {() => number} [liveBlocks] counts allocations of the core; in checked builds
 * @property {any} [agent] this thread's Agent, see agent.js
 */
/**
 * The constants of the addon. Core and host scope share the statuses. The bit `NEWS_OF_HOST` marks
 * the events of the host scope. binary.js checks `AGREEMENT`.
 * @typedef {'OK' | 'GRANTED' | 'PENDING' | 'NOT_AVAILABLE' | 'STOLEN' | 'NOT_HELD' | 'DEADLOCK' |
 *   'OTHER_LIMIT' | 'QUEUE_FULL' | 'MARKED' | 'NO_MEMORY' | 'UNSUPPORTED' | 'VERSION' | 'FULL' |
 *   'LOST' | 'BUCKET_CLOSED' | 'CLOSED' | 'EXCLUSIVE' | 'SHARED' | 'WAIT' | 'IF_AVAILABLE' |
 *   'STEAL' | 'PASS' | 'PASS_IF_AVAILABLE' | 'NEWS_GRANTED' | 'NEWS_STOLEN' | 'NEWS_PASSED' |
 *   'NEWS_NOT_AVAILABLE' | 'NEWS_OTHER_LIMIT' | 'NEWS_QUEUE_FULL' | 'NEWS_FAILED' | 'NEWS_LOST' |
 *   'NEWS_RELEASED' | 'NEWS_SNAPSHOT' | 'NEWS_READY' | 'NEWS_OF_HOST' | 'AGREEMENT' |
 *   'EXCHANGE_EVENT_COUNT' | 'EXCHANGE_TAG' | 'EXCHANGE_MODE' | 'EXCHANGE_OPTION' |
 *   'EXCHANGE_THIEF' | 'EXCHANGE_TOKEN' | 'EXCHANGE_LIMIT' | 'EXCHANGE_WEIGHT' |
 *   'EXCHANGE_MAX_PENDING' | 'EXCHANGE_PRIORITY' | 'EXCHANGE_STATUS' | 'EXCHANGE_EVENTS' |
 *   'EVENT_TAG' | 'EVENT_NEWS' | 'EVENT_THIEF' | 'EVENT_TOKEN' | 'EVENT_SIZE' |
 *   'INFO_NAME' | 'INFO_CLIENT' | 'INFO_MODE' | 'INFO_HELD' | 'INFO_LABEL' | 'INFO_DATA' |
 *   'INFO_LIMIT' | 'INFO_WEIGHT' | 'INFO_PRIORITY' | 'INFO_AGE' | 'INFO_TOKEN' |
 *   'INFO_SIZE'} Constant
 */
/** @typedef {AddonCalls & Record<Constant, number>} Addon */

/**
 * A handle of an open manager or host bucket, which closes when the handle is garbage-collected.
 * @typedef {{ readonly external: unique symbol }} ManagerHandle
 */
/**
 * See src/binding/values.h.
 * @typedef {{ names: string[], clientIds: string[], threadIds: number[], threadNames: string[],
 *   locks: ArrayBuffer, pids?: number[] }} Snapshot
 */

/** @type {Addon} */
const addon = loadBinary();

/** Reading these functions from the addon at each request would take longer than the request. */
const calls = { request: addon.request, release: addon.release, end: addon.end };

/**
 * The offsets in the exchange (src/binding/environment.h), an array of 32-bit numbers through which
 * calls of the addon pass arguments and results.
 */
const {
  EXCHANGE_EVENT_COUNT: EVENT_COUNT,
  EXCHANGE_TAG: TAG,
  EXCHANGE_MODE: MODE,
  EXCHANGE_OPTION: OPTION,
  /** On STOLEN: the two numbers of the thief's client id, and its pid (as in EVENT_THIEF). */
  EXCHANGE_THIEF: THIEF,
  /** On GRANTED: the token in two halves, the lower one first (as in EVENT_TOKEN). */
  EXCHANGE_TOKEN: TOKEN,
  /** The limit of a request or, on OTHER_LIMIT, the limit of its name. */
  EXCHANGE_LIMIT: LIMIT,
  EXCHANGE_WEIGHT: WEIGHT,
  EXCHANGE_MAX_PENDING: MAX_PENDING,
  EXCHANGE_PRIORITY: PRIORITY,
  EXCHANGE_STATUS: STATUS,
  /** The first event begins here; the EVENT_ constants are offsets within an event. */
  EXCHANGE_EVENTS: EVENTS,
  EVENT_SIZE,
  EVENT_TAG,
  EVENT_NEWS,
  EVENT_THIEF,
  EVENT_TOKEN,
} = addon;
const NO_MAXIMUM = 2 ** 32 - 1;

/** The most events that the exchange holds. If it is full, the addon may have further events. */
const EVENT_CAPACITY = 256;

/** @template T @param {T | number} result T, or a status @param {string} doing @returns {T} */
function valueOrThrow(result, doing) {
  if (typeof result === 'number') throw errorOf(result, doing);
  return result;
}

/** @param {number} status @param {string} doing */
function errorOf(status, doing) {
  if (status === addon.CLOSED) return closedError();
  if (status === addon.NO_MEMORY) return noMemoryError(doing);
  return plainError(
    `web-locks: ${doing} failed with the unknown status ${status}. This is a bug in web-locks; ` +
      'please report it.',
    'ERR_WEB_LOCKS_CORE',
  );
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
  calls,
  valueOrThrow,
  errorOf,
};
