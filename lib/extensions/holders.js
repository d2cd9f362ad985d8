'use strict';

/**
 * Describes holders and waiters, and since when, in messages: by process ids, which people know.
 */

const process = require('node:process');
const { quote } = require('../platform/errors.js');
const { hostname } = require('../platform/machine.js');
const { threadId } = require('../platform/thread.js');

/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */

/** The text for an unknown holder. */
const UNKNOWN_HOLDERS = 'holder unknown';

/**
 * @param {LockDetails} details
 * @param {(text: string) => string} [quoted] puts what others have written into quotation marks
 * @returns {string} such as: process 4702, thread 1 ("child job")
 */
function describeAgent(details, quoted = quote) {
  const { label } = details;
  return `${placeOf(details, quoted)}${label ? ` (${quoted(label)})` : ''}`;
}

/**
 * @param {LockDetails} details
 * @param {(text: string) => string} quoted
 */
function placeOf({ clientId, host, pid, threadId: id, threadName }, quoted) {
  // The session may be gone that knew it.
  if (!pid) return clientId ? `client ${clientId}` : 'an unknown process';
  const isHere = host === hostname();
  const isOwn = isHere && pid === process.pid;
  if (isOwn && id === threadId) return 'this thread';
  const thread = `thread ${id}${threadName ? ` ${quoted(threadName)}` : ''}`;
  if (isOwn) return `${id ? thread : 'the main thread'} of this process`;
  const on = isHere ? '' : ` on host ${quoted(host)}`;
  return `process ${pid}${on}${id ? `, ${thread}` : ''}`;
}

/**
 * @param {LockDetails} details of a lock
 * @param {(text: string) => string} [quoted] see describeAgent
 * @returns {string} such as: process 4702, thread 1 ("child job"), for 3.2 s
 */
function describeHolder(details, quoted) {
  const { held = 0 } = details;
  const time = Number.isNaN(held) ? 'an unknown time' : duration(held);
  return `${describeAgent(details, quoted)}, for ${time}${describeSite(details)}`;
}

/**
 * @param {LockDetails} details of a lock
 * @returns {string} such as: , requested at save (store.js:12:5)
 */
function describeSite({ site = '' }) {
  const end = site.indexOf('\n');
  const place = (end < 0 ? site : site.slice(0, end)).trim();
  return place && `, requested ${place.startsWith('at ') ? place : `at ${place}`}`;
}

/**
 * @param {number} grantsIn milliseconds for which nothing is granted to anybody
 * @returns {string} of a server that was started, or has taken over, a moment ago
 */
const describePause = (grantsIn) =>
  `the server may have forgotten locks, and grants nothing for another ${duration(grantsIn)}`;

/**
 * @param {any} outage why something is not known; undefined: that is not known, either
 * @returns {string} to be put behind what is not known
 */
const because = (outage) =>
  outage === undefined ? '' : `: ${String(outage.message ?? outage).replace(/\.$/, '')}`;

/**
 * @param {unknown} outage why the holders are not known
 * @returns {string} for parentheses
 */
const describeOutage = (outage) => `${UNKNOWN_HOLDERS}${because(outage)}`;

/**
 * @param {readonly LockDetails[] | undefined} holders undefined: not known
 * @param {number} [grantsIn] milliseconds for which nothing is granted to anybody
 * @param {(text: string) => string} [quoted] see describeAgent
 * @param {number} [count] of all holders, of which `holders` has the first
 * @returns {string} for parentheses
 */
function describeHolders(holders, grantsIn = 0, quoted = undefined, count = holders?.length) {
  if (!holders?.length && grantsIn > 0) return describePause(grantsIn);
  if (!holders) return UNKNOWN_HOLDERS;
  if (holders.length === 0) return 'no longer held';
  return `held by ${describeHolder(holders[0], quoted)}${more(count)}`;
}

/**
 * @param {readonly LockDetails[] | undefined} waiting undefined: not known
 * @param {unknown} [outage] why not
 * @returns {string} for parentheses
 */
function describeWaiting(waiting, outage) {
  if (!waiting) return `waiters unknown${because(outage)}`;
  if (waiting.length === 0) return 'no waiters';
  return `${describeAgent(waiting[0])} is waiting${more(waiting.length)}`;
}

/** @param {number} [count] of all, the first of whom is named */
const more = (count = 0) => (count > 1 ? `, and ${count - 1} more` : '');

/**
 * Up to so many milliseconds: the unit, its length, the unit below it and its length.
 * @type {[number, string, number, string, number][]}
 */
const UNITS = [
  [3_600_000, 'min', 60_000, 's', 1000],
  [86_400_000, 'h', 3_600_000, 'min', 60_000],
  [Number.POSITIVE_INFINITY, 'd', 86_400_000, 'h', 3_600_000],
];

/**
 * @param {number} ms
 * @returns {string} such as 312 ms, 3.2 s, 3 min 5 s, 2 h 0 min, 4 d 7 h
 */
function duration(ms) {
  if (ms < 1000) return `${Math.floor(ms)} ms`;
  if (ms < 60_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  let i = 0;
  while (ms >= UNITS[i][0]) i++;
  const [, big, length, small, smallLength] = UNITS[i];
  return `${Math.floor(ms / length)} ${big} ${Math.floor((ms % length) / smallLength)} ${small}`;
}

/**
 * @param {number} ms
 * @returns {string} such as 5,002 ms
 */
const milliseconds = (ms) => `${ms.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ',')} ms`;

module.exports = {
  UNKNOWN_HOLDERS,
  because,
  describeAgent,
  describeHolder,
  describeHolders,
  describeOutage,
  describePause,
  describeSite,
  describeWaiting,
  duration,
  milliseconds,
};
