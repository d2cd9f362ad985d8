'use strict';

/**
 * Puts the profiles of several processes together: on one clock, with who of one process blocked
 * whom of another.
 *
 * Processes of a machine have one monotonic clock in common. Of others the time of day says when
 * they began, and the tokens of locks say better: of two locks that exclude each other the one with
 * the smaller token was over before the other one was granted, by whatever clock. So each pair of
 * processes gets bounds for the difference of their clocks, and their times of day count as far as
 * they are within them.
 */

const { findBlockers } = require('./requests.js');

/**
 * A request as it is in the file of a profile.
 * @typedef {object} FromFile
 * @property {number} id in its file
 * @property {string} lock
 * @property {string} manager
 * @property {number} thread
 * @property {'exclusive' | 'shared'} mode
 * @property {string} outcome
 * @property {boolean} contended
 * @property {number} waited milliseconds
 * @property {number} held milliseconds
 * @property {string} [label]
 * @property {string} site
 * @property {string} [error]
 * @property {string} [token]
 * @property {{ id: number }[]} blockers
 */

/**
 * @typedef {object} Merged a request of one of the processes
 * @property {FromFile} args
 * @property {string} title of its lock
 * @property {number} process index
 * @property {boolean} contended
 * @property {number} asked milliseconds on the clock of the first process, as the two below
 * @property {number} granted Infinity: never
 * @property {number} ended
 * @property {Merged[]} blockers
 */

/** @typedef {{ otherData: any, traceEvents: any[] }} Trace */

/** So far apart may be when two clocks of one machine seem to have been 0, in milliseconds. */
const SAME_MACHINE = 2000;

/**
 * @param {{ manager?: string }} args
 * @returns {boolean} whether its lock is within its process
 */
const isOwn = ({ manager = 'process ' }) => manager.startsWith('process ');

/**
 * @param {Trace[]} traces
 * @returns {{ requests: Merged[], offsets: Offset[] }} the requests in the order in which they were
 *   made
 */
function merge(traces) {
  const parts = traces.map(({ otherData, traceEvents }, index) => {
    const slices = traceEvents.filter(({ cat, ph }) => cat === 'request' && ph === 'X');
    return slices.map((slice) => requestOf(slice, index, Number(otherData.zero ?? 0)));
  });
  for (const part of parts) {
    const byId = new Map(part.map((request) => [request.args.id, request]));
    for (const request of part) {
      request.blockers = request.args.blockers.flatMap(({ id }) => byId.get(id) ?? []);
    }
  }
  const offsets = offsetsOf(traces, parts);
  for (const request of parts.flat()) {
    const { by } = offsets[request.process];
    request.asked += by;
    request.granted += by;
    request.ended += by;
  }
  const requests = parts.flat().sort((a, b) => a.asked - b.asked);
  for (const same of sharedNames(requests)) findBlockers(/** @type {any} */ (same));
  return { requests, offsets };
}

/**
 * @param {any} slice of the file
 * @param {number} process
 * @param {number} zero milliseconds that are 0 in the file
 * @returns {Merged}
 */
function requestOf({ ts, name, args }, process, zero) {
  const asked = zero + ts / 1e3;
  const answered = asked + args.waited;
  return {
    args,
    title: name,
    process,
    contended: args.contended,
    asked,
    granted: args.held > 0 ? answered : Number.POSITIVE_INFINITY,
    ended: answered + args.held,
    blockers: [],
  };
}

/**
 * @param {Merged[]} requests
 * @returns {Merged[][]} those of each name that several processes asked for
 */
function sharedNames(requests) {
  return [...grouped(requests).values()].filter((same) =>
    same.some(({ process }) => process !== same[0].process),
  );
}

/**
 * @param {Merged[]} requests
 * @returns {Map<string, Merged[]>} those of each name that exclude others of the name, in whatever
 *   process
 */
function grouped(requests) {
  /** @type {Map<string, Merged[]>} */
  const groups = new Map();
  for (const request of requests) {
    const { manager, lock } = request.args;
    if (isOwn(request.args)) continue;
    const key = JSON.stringify([manager, lock]);
    const same = groups.get(key);
    if (same) same.push(request);
    else groups.set(key, [request]);
  }
  return groups;
}

/**
 * @typedef {object} Offset
 * @property {number} by milliseconds to add to the clock of a process for that of the first
 * @property {'same' | 'tokens' | 'day'} from what it is known: the clock is the same; the tokens
 *   have bounds for it; the time of day only
 * @property {number} within milliseconds that it may be wrong; Infinity: not known
 */

/**
 * @param {Trace[]} traces
 * @param {Merged[][]} parts
 * @returns {Offset[]}
 */
function offsetsOf(traces, parts) {
  const [first] = traces;
  const least = bounds(parts);
  /** @type {Offset[]} */
  const offsets = [];
  for (const [index, trace] of traces.entries()) {
    const guess = epochOf(trace) - epochOf(first);
    const isSame = trace.otherData.host === first.otherData.host && Math.abs(guess) < SAME_MACHINE;
    // A machine's clock of the day is set now and then; its monotonic one is not.
    const by = isSame ? 0 : guess;
    let [low, high] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (const [other, { by: known }] of offsets.entries()) {
      low = Math.max(low, known + least[other][index]);
      high = Math.min(high, known - least[index][other]);
    }
    const isBound = low > Number.NEGATIVE_INFINITY || high < Number.POSITIVE_INFINITY;
    if (index === 0 || (isSame && low <= 0 && 0 <= high)) {
      offsets.push({ by: 0, from: 'same', within: 0 });
    } else if (isBound && low <= high) {
      const within = (high - low) / 2;
      offsets.push({ by: Math.min(Math.max(by, low), high), from: 'tokens', within });
    } else {
      offsets.push({ by, from: 'day', within: Number.POSITIVE_INFINITY });
    }
  }
  return offsets;
}

/**
 * @param {Trace} trace
 * @returns {number} the time of day at which its monotonic clock was 0, in milliseconds
 */
const epochOf = ({ otherData: { began, zero = 0 } }) => (Date.parse(began) || 0) - zero;

/**
 * @param {Merged[][]} parts of each process, by its own clock
 * @returns {number[][]} `[a][b]`: how much more, at least, is to be added to the clock of `b` than
 *   to that of `a`, whatever way from `a` to `b`
 */
function bounds(parts) {
  const { length } = parts;
  const least = parts.map((_, a) => parts.map((_, b) => (a === b ? 0 : Number.NEGATIVE_INFINITY)));
  for (const same of grouped(parts.flat()).values()) {
    for (const [before, after] of successive(same)) {
      const { process: a } = before;
      const { process: b } = after;
      if (a !== b) least[a][b] = Math.max(least[a][b], before.ended - after.granted);
    }
  }
  for (let via = 0; via < length; via++) {
    for (let a = 0; a < length; a++) {
      for (let b = 0; b < length; b++) {
        least[a][b] = Math.max(least[a][b], least[a][via] + least[via][b]);
      }
    }
  }
  return least;
}

/**
 * @param {Merged[]} same of one name
 * @returns {Generator<[before: Merged, after: Merged]>} locks that excluded each other: one was
 *   given back before the other was granted
 */
function* successive(same) {
  const granted = same
    .filter(({ args, granted }) => args.token !== undefined && granted < Number.POSITIVE_INFINITY)
    .map((request) => ({ request, token: BigInt(request.args.token ?? 0) }))
    .sort((a, b) => (a.token < b.token ? -1 : 1));
  /** @type {Merged | undefined} */
  let exclusive;
  /** @type {Merged[]} */
  let shared = [];
  for (const { request } of granted) {
    const isShared = request.args.mode === 'shared';
    if (exclusive && isWhole(exclusive)) yield [exclusive, request];
    if (!isShared) for (const one of shared) if (isWhole(one)) yield [one, request];
    if (isShared) {
      shared.push(request);
    } else {
      exclusive = request;
      shared = [];
    }
  }
}

/** A holder that was robbed, or lost the lock, heard of that later. @param {Merged} request */
const isWhole = ({ args: { outcome } }) => outcome === 'granted' || outcome === 'threw';

module.exports = { isOwn, merge };
