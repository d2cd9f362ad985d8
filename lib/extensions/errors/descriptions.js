'use strict';

/** Describes holders and waiters in messages. */

const process = require('node:process');
const { quote } = require('../../platform/errors.js');
const { hostname } = require('../../platform/machine.js');
const { threadId } = require('../../platform/thread.js');

/** @import { LockDetails } from '../../backend/contract.js' */

const UNKNOWN_HOLDERS = 'holder unknown';

/**
 * For example: process 4702, thread 1 ("child job").
 * @param {LockDetails} details @param {(text: string) => string} [quoted] quotes labels and names
 */
function describeAgent(details, quoted = quote) {
  const { label } = details;
  return `${describeThread(details, quoted)}${label ? ` (${quoted(label)})` : ''}`;
}

/** @param {LockDetails} details @param {(text: string) => string} quoted */
function describeThread({ clientId, host, pid, threadId: id, threadName }, quoted) {
  // If the client's session has ended, its process id is unknown.
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
 * For example: process 4702, thread 1 ("child job"), for 3.2 s.
 * @param {LockDetails} details @param {(text: string) => string} [quoted] see describeAgent
 */
function describeHolder(details, quoted) {
  const { held = 0 } = details;
  const time = Number.isNaN(held) ? 'an unknown time' : duration(held);
  return `${describeAgent(details, quoted)}, for ${time}${describeSite(details)}`;
}

/** For example: , requested at save (store.js:12:5). @param {LockDetails} details */
function describeSite({ site = '' }) {
  const end = site.indexOf('\n');
  const place = (end < 0 ? site : site.slice(0, end)).trim();
  return place && `, requested ${place.startsWith('at ') ? place : `at ${place}`}`;
}

/** @param {number} grantsIn milliseconds */
const describePause = (grantsIn) =>
  `the server may have forgotten locks, and grants nothing for another ${duration(grantsIn)}`;

/** For example: ": connection refused"; '' without an outage. @param {any} outage the reason */
const because = (outage) =>
  outage === undefined ? '' : `: ${String(outage.message ?? outage).replace(/\.$/, '')}`;

/** @param {unknown} outage why the holders are unknown */
const describeOutage = (outage) => `${UNKNOWN_HOLDERS}${because(outage)}`;

/**
 * @param {readonly LockDetails[] | undefined} holders undefined if they are unknown
 * @param {number} [grantsIn] milliseconds @param {(text: string) => string} [quoted]
 * @param {number} [count] of all holders, if `holders` lists only the first
 */
function describeHolders(holders, grantsIn = 0, quoted = undefined, count = holders?.length) {
  if (!holders?.length && grantsIn > 0) return describePause(grantsIn);
  if (!holders) return UNKNOWN_HOLDERS;
  if (holders.length === 0) return 'no longer held';
  return `held by ${describeHolder(holders[0], quoted)}${andMore(count)}`;
}

/**
 * @param {readonly LockDetails[] | undefined} waiting undefined if they are unknown
 * @param {unknown} [outage] why they are unknown
 */
function describeWaiting(waiting, outage) {
  if (!waiting) return `waiters unknown${because(outage)}`;
  if (waiting.length === 0) return 'no waiters';
  return `${describeAgent(waiting[0])} is waiting${andMore(waiting.length)}`;
}

/** @param {number} [count] of all holders or waiters, of which the text names the first */
const andMore = (count = 0) => (count > 1 ? `, and ${count - 1} more` : '');

/**
 * Each row is for times below a limit. It has the limit, the unit and its length, and the next
 * smaller unit and its length. Limits and lengths are in milliseconds.
 * @type {[number, string, number, string, number][]}
 */
const UNITS = [
  [3_600_000, 'min', 60_000, 's', 1000],
  [86_400_000, 'h', 3_600_000, 'min', 60_000],
  [Number.POSITIVE_INFINITY, 'd', 86_400_000, 'h', 3_600_000],
];

/** For example: 312 ms, 3.2 s, 3 min 5 s, 2 h 0 min, 4 d 7 h. @param {number} ms */
function duration(ms) {
  if (ms < 1000) return `${Math.floor(ms)} ms`;
  if (ms < 60_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  let i = 0;
  while (ms >= UNITS[i][0]) i++;
  const [, big, length, small, smallLength] = UNITS[i];
  return `${Math.floor(ms / length)} ${big} ${Math.floor((ms % length) / smallLength)} ${small}`;
}

/** For example: 5,002 ms. @param {number} ms */
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
