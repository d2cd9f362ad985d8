'use strict';

/**
 * Combines the rings of all threads into requests, and finds which requests blocked which. The
 * blockers of a request held the name when it began to wait. But threads record a grant slightly
 * late and a release slightly early, so the records may show no holder at that time. If the next
 * grant then belongs to another request that was made no later, it was recorded late, and that
 * request is the blocker. Otherwise the request that released last is the blocker: its release was
 * recorded early.
 */

const { OUTCOMES } = require('./recorder.js');
const { END, GRANT, START, entriesOf, textOf } = require('./ring.js');

/**
 * A request, with times in milliseconds; `granted` is Infinity if it was never granted. `manager`
 * identifies its lock manager, `contended` says whether it had to wait. `site` is '' and `token` is
 * 0 if unknown. `error` is what the callback threw, or why the request failed.
 * @typedef {{ id: number, thread: { id: number, name?: string }, name: string, manager: string,
 *   mode: 'exclusive' | 'shared', label: string | undefined, site: string, contended: boolean,
 *   asked: number, granted: number, ended: number, outcome: import('./recorder.js').Outcome,
 *   token: bigint, error: string | undefined, blockers: Recorded[] }} Recorded
 */

/** At most this many blockers of a request are listed. */
const MOST = 10;

/**
 * @param {{ thread: { id: number, name?: string }, words: Float64Array, end: number }[]} parts the
 *   record of each thread, and the time at which the thread or the profile ended
 * @returns {Recorded[]} sorted by `asked`
 */
function requestsOf(parts) {
  const all = parts.flatMap(readPart);
  all.sort((a, b) => a.asked - b.asked);
  for (let i = 0; i < all.length; i++) all[i].id = i + 1;
  /** @type {Map<string, Recorded[]>} */
  const byName = new Map();
  for (const request of all) {
    const key = JSON.stringify([request.manager, request.name]);
    const same = byName.get(key);
    if (same) same.push(request);
    else byName.set(key, [request]);
  }
  for (const requests of byName.values()) setBlockers(requests);
  return all;
}

/** @param {{ thread: { id: number, name?: string }, words: Float64Array, end: number }} part */
function readPart({ thread, words, end }) {
  /** @type {Map<number, Recorded>} */
  const requests = new Map();
  for (const { kind, numbers } of entriesOf(words)) {
    if (kind === START)
      requests.set(numbers[0], { ...requestFromStart(numbers), thread, ended: end });
    const request = requests.get(numbers[0]);
    if (!request) continue;
    if (kind === GRANT) {
      request.granted = numbers[1];
      request.outcome = 'held';
      request.token = tokenOf(numbers[2], numbers[3]);
    } else if (kind === END) {
      const [, outcome, waited, held, high, low, length] = numbers;
      request.outcome = OUTCOMES[outcome];
      request.token = tokenOf(high, low);
      [request.error] = textOf(numbers, 7, [length || -1]);
      request.granted = held > 0 ? request.asked + waited : Number.POSITIVE_INFINITY;
      request.ended = request.asked + waited + held;
    }
  }
  return [...requests.values()];
}

/** @param {number} [high] @param {number} [low] */
const tokenOf = (high = 0, low = 0) => (BigInt(high) << 32n) | BigInt(low);

/** @param {Float64Array} numbers @returns {Omit<Recorded, 'thread' | 'ended'>} */
function requestFromStart(numbers) {
  const [, asked, answered, flags, ...lengths] = numbers.subarray(0, 8);
  const [name = '', label, manager = '', site = ''] = textOf(numbers, 8, lengths);
  const contended = Boolean(flags & 2);
  return {
    id: 0,
    name,
    manager,
    mode: flags & 1 ? 'shared' : 'exclusive',
    label,
    site,
    contended,
    asked,
    // If the lock was not available, the END entry changes this to Infinity.
    granted: contended ? Number.POSITIVE_INFINITY : answered,
    outcome: contended ? 'pending' : 'held',
    token: 0n,
    error: undefined,
    blockers: [],
  };
}

/**
 * Sets the `blockers` of all requests that had to wait.
 * @param {Recorded[]} requests of one name, in the order in which they were made
 */
function setBlockers(requests) {
  const byGrant = requests.filter(({ granted }) => granted < Number.POSITIVE_INFINITY);
  byGrant.sort((a, b) => a.granted - b.granted);
  let next = 0;
  /** @type {Recorded[]} */
  let holders = [];
  /** The request that released last. @type {Recorded | undefined} */
  let last;
  /** If the holder has released by this time, it may become `last`. */
  const holds = (/** @type {Recorded} */ holder, /** @type {number} */ time) => {
    if (holder.ended > time) return true;
    if (!last || holder.ended >= last.ended) last = holder;
    return false;
  };
  for (const request of requests) {
    if (!request.contended) continue;
    const { asked } = request;
    while (byGrant[next]?.granted <= asked) holders.push(byGrant[next++]);
    holders = holders.filter((holder) => holds(holder, asked));
    const blocker = holders.length > 0 ? undefined : (nextGranted(byGrant, next, request) ?? last);
    request.blockers = blocker ? [blocker] : holders.slice(0, MOST);
  }
}

/**
 * The first request in `byGrant` from the index `from` that was made no later than `request`;
 * undefined if `request` itself comes first.
 * @param {Recorded[]} byGrant @param {number} from @param {Recorded} request
 */
function nextGranted(byGrant, from, request) {
  for (let i = from; i < byGrant.length && byGrant[i] !== request; i++) {
    if (byGrant[i].asked <= request.asked) return byGrant[i];
  }
  return undefined;
}

module.exports = { setBlockers, requestsOf };
