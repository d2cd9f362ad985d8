'use strict';

/**
 * Merges the profiles of several processes: converts their times to one clock, and finds which
 * requests of one process blocked requests of another. Processes of one machine share a monotonic
 * clock. Between machines, the times of day give a first guess of the clock difference, and the
 * tokens of locks bound it: of two locks that exclude each other, the lock with the smaller token
 * ended before the other was granted.
 */

const { setBlockers } = require('./requests.js');

/**
 * A request as trace.js writes it to a file. `waited` and `held` are in milliseconds.
 * @typedef {{ id: number, lock: string, manager: string, thread: number, outcome: string,
 *   mode: 'exclusive' | 'shared', contended: boolean, waited: number, held: number, label?: string,
 *   site: string, error?: string, token?: string, blockers: { id: number }[] }} FromFile
 */

/**
 * @typedef {object} Merged a request of one of the processes
 * @property {FromFile} args
 * @property {string} title how the page names its lock
 * @property {number} process the index of its process
 * @property {boolean} contended whether it had to wait
 * @property {number} asked milliseconds on the clock of the first process
 * @property {number} granted on the same clock; Infinity if it was never granted
 * @property {number} ended on the same clock
 * @property {Merged[]} blockers
 */

/** @typedef {{ otherData: any, traceEvents: any[] }} Trace */

/**
 * On one machine, the times of day at which the clocks of two processes were 0 (`epochOf`) differ
 * by less than this many milliseconds.
 */
const SAME_MACHINE = 2000;

/** Whether no other process can use the lock. @param {{ manager?: string }} args */
const isLocalToProcess = ({ manager = 'process ' }) => manager.startsWith('process ');

/**
 * @param {Trace[]} traces
 * @returns {{ requests: Merged[], offsets: Offset[] }} requests by `asked`, offsets by process
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
  for (const same of groupsSharedByProcesses(requests)) setBlockers(/** @type {any} */ (same));
  return { requests, offsets };
}

/**
 * @param {any} slice an event of the file @param {number} process
 * @param {number} zero the time that is 0 in the file, in milliseconds @returns {Merged}
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

/** Groups the requests of each lock that several processes requested. @param {Merged[]} requests */
function groupsSharedByProcesses(requests) {
  return [...groupedByLock(requests).values()].filter((same) =>
    same.some(({ process }) => process !== same[0].process),
  );
}

/** Leaves out the locks that processes cannot share. @param {Merged[]} requests */
function groupedByLock(requests) {
  /** @type {Map<string, Merged[]>} */
  const groups = new Map();
  for (const request of requests) {
    const { manager, lock } = request.args;
    if (isLocalToProcess(request.args)) continue;
    const key = JSON.stringify([manager, lock]);
    const same = groups.get(key);
    if (same) same.push(request);
    else groups.set(key, [request]);
  }
  return groups;
}

/**
 * @typedef {object} Offset
 * @property {number} by the milliseconds to add to get a time of the first process
 * @property {'same' | 'tokens' | 'day'} from `same`: the two processes share a clock; `tokens`:
 *   tokens bound the difference; `day`: only the times of day are known
 * @property {number} within the greatest error of `by` in milliseconds; Infinity if unknown
 */

/** @param {Trace[]} traces @param {Merged[][]} parts @returns {Offset[]} */
function offsetsOf(traces, parts) {
  const [first] = traces;
  const least = offsetBounds(parts);
  /** @type {Offset[]} */
  const offsets = [];
  for (const [index, trace] of traces.entries()) {
    const guess = epochOf(trace) - epochOf(first);
    const isSame = trace.otherData.host === first.otherData.host && Math.abs(guess) < SAME_MACHINE;
    // On one machine the clocks are the same, even if their epochs differ a little.
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

/** The `Date.now()` at which the clock of a profile was 0. @param {Trace} trace */
const epochOf = ({ otherData: { began, zero = 0 } }) => (Date.parse(began) || 0) - zero;

/**
 * Lower bounds on clock differences: the offset of `b` minus that of `a` is at least `[a][b]`. A
 * bound from a to c and one from c to b also bound a to b, so all paths are combined
 * (Floyd–Warshall).
 * @param {Merged[][]} parts the requests of each process, on its own clock
 */
function offsetBounds(parts) {
  const { length } = parts;
  const least = parts.map((_, a) => parts.map((_, b) => (a === b ? 0 : Number.NEGATIVE_INFINITY)));
  for (const same of groupedByLock(parts.flat()).values()) {
    for (const [before, after] of successivePairs(same)) {
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
 * Yields pairs of locks that excluded each other: `before` ended before `after` was granted.
 * @param {Merged[]} same the requests of one lock
 * @returns {Generator<[before: Merged, after: Merged]>}
 */
function* successivePairs(same) {
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
    if (exclusive && hasExactEnd(exclusive)) yield [exclusive, request];
    if (!isShared) for (const one of shared) if (hasExactEnd(one)) yield [one, request];
    if (isShared) {
      shared.push(request);
    } else {
      exclusive = request;
      shared = [];
    }
  }
}

/**
 * Whether the recorded end of a lock is exact. The recorded end of a stolen or lost lock is late,
 * because its holder is notified with a delay.
 * @param {Merged} request
 */
const hasExactEnd = ({ args: { outcome } }) => outcome === 'granted' || outcome === 'threw';

module.exports = { isLocalToProcess, merge };
