'use strict';

/**
 * Writes recorded requests in the Trace Event format, for Perfetto and Chrome's tracing page. Each
 * thread has a track with its requests, and each name has a track with its holders. The slices of a
 * track must not overlap, so overlapping slices go to further tracks with the same title.
 */

const fs = require('node:fs');
const { describePrivate } = require('../platform/names.js');
const { Lanes } = require('./lanes.js');

/** @typedef {import('./requests.js').Recorded} Recorded */
/** @typedef {{ pid: number, tid: number }} Track */

/** The text is written in pieces of at least this many code units. */
const CHUNK = 2 ** 20;

/**
 * @param {string} file @param {Recorded[]} requests @param {object} about becomes `otherData`
 * @param {number} zero the time that is 0 in the file, in milliseconds
 */
function writeTrace(file, requests, about, zero) {
  const fd = fs.openSync(file, 'w');
  try {
    const head = { displayTimeUnit: 'ms', otherData: about };
    let text = `${JSON.stringify(head).slice(0, -1)},"traceEvents":[\n`;
    let separator = '';
    for (const event of eventsOf(requests, zero)) {
      text += separator + JSON.stringify(event);
      separator = ',\n';
      if (text.length < CHUNK) continue;
      fs.writeSync(fd, text);
      text = '';
    }
    fs.writeSync(fd, `${text}\n]}\n`);
  } finally {
    fs.closeSync(fd);
  }
}

/** @param {Recorded[]} requests @param {number} zero @returns {Generator<object>} */
function* eventsOf(requests, zero) {
  const ts = (/** @type {number} */ time) => Math.max(0, Math.round((time - zero) * 1e6)) / 1e3;
  const tracks = new Tracks();
  const timing = (/** @type {number} */ from, /** @type {number} */ to) => ({
    ts: ts(from),
    dur: Math.max(0, Math.round((ts(to) - ts(from)) * 1e3)) / 1e3,
  });
  /** @type {Map<Recorded, Track>} */
  const holds = new Map();
  for (const request of byGrant(requests)) {
    const { granted, ended } = request;
    const track = tracks.assign('locks', keyOf(request), titleOf(request), granted, ended);
    holds.set(request, track);
    const args = { id: request.id, mode: request.mode };
    yield {
      ph: 'X',
      cat: 'hold',
      name: holderOf(request),
      ...track,
      ...timing(granted, ended),
      args,
    };
  }
  let flow = 0;
  for (const request of requests) {
    const { asked, granted, ended, contended } = request;
    const got = Math.min(granted, ended);
    const title = titleOfThread(request.thread);
    const track = tracks.assign('threads', `${request.thread.id}`, title, asked, ended);
    const args = argsOf(request, got);
    yield {
      ph: 'X',
      cat: 'request',
      name: titleOf(request),
      ...track,
      ...timing(asked, ended),
      args,
    };
    if (!contended) continue;
    yield { ph: 'X', cat: 'wait', name: 'waiting', ...track, ...timing(asked, got) };
    for (const blocker of request.blockers) {
      const from = holds.get(blocker);
      const at = ts(Math.max(asked, blocker.granted));
      if (!from || at > ts(got) || at > ts(blocker.ended)) continue;
      const arrow = { cat: 'blocked', name: 'blocked', id: ++flow, ts: at };
      yield { ph: 's', ...arrow, ...from };
      yield { ph: 'f', bp: 'e', ...arrow, ...track };
    }
  }
  yield* queueLengths(requests, ts);
  yield* tracks.titles();
}

/** The granted requests, sorted by the time of the grant. @param {Recorded[]} requests */
const byGrant = (requests) =>
  requests
    .filter(({ granted }) => granted < Number.POSITIVE_INFINITY)
    .sort((a, b) => a.granted - b.granted);

/** @param {Recorded} request @param {number} got the time at which the wait of the request ended */
const argsOf = (request, got) => ({
  id: request.id,
  lock: request.name,
  manager: request.manager,
  mode: request.mode,
  label: request.label,
  site: request.site,
  thread: request.thread.id,
  outcome: request.outcome,
  error: request.error,
  token: request.token ? String(request.token) : undefined,
  contended: request.contended,
  waited: rounded(got - request.asked),
  held: request.granted < Number.POSITIVE_INFINITY ? rounded(request.ended - request.granted) : 0,
  blockers: request.blockers.map(({ id, label, site, thread }) => ({
    id,
    label,
    site,
    thread: thread.id,
  })),
});

/** Rounds to nanoseconds. A negative time becomes 0. @param {number} milliseconds */
const rounded = (milliseconds) => Math.round(Math.max(milliseconds, 0) * 1e6) / 1e6;

/** @param {Recorded} request */
const keyOf = ({ manager, name }) => JSON.stringify([manager, name]);
/** @param {Recorded} request */
const titleOf = ({ name }) => describePrivate(name) ?? (name || '""');
/** @param {Recorded} request */
const holderOf = ({ label, site, thread }) => label || site || titleOfThread(thread);
/** @param {Recorded['thread']} thread */
const titleOfThread = ({ id, name }) =>
  `${id === 0 ? 'main thread' : `thread ${id}`}${name ? ` (${name})` : ''}`;

/**
 * Yields the length of each queue whenever it changes.
 * @param {Recorded[]} requests @param {(time: number) => number} ts
 */
function* queueLengths(requests, ts) {
  const changes = requests
    .filter(({ contended }) => contended)
    .flatMap((request) => [
      { request, at: request.asked, by: 1 },
      { request, at: Math.min(request.granted, request.ended), by: -1 },
    ])
    .sort((a, b) => a.at - b.at || b.by - a.by);
  /** @type {Map<string, number>} */
  const lengths = new Map();
  for (const { request, at, by } of changes) {
    const key = keyOf(request);
    const waiting = (lengths.get(key) ?? 0) + by;
    lengths.set(key, waiting);
    const name = `waiting for ${titleOf(request)}`;
    yield { ph: 'C', name, id: key, pid: PIDS.locks, tid: 0, ts: ts(at), args: { waiting } };
  }
}

/** The groups of tracks, which the format calls processes. */
const PIDS = { threads: 1, locks: 2 };

class Tracks {
  /**
   * @type {Map<string,
   *   { title: string, pid: number, tids: number[], lanes: InstanceType<typeof Lanes> }>}
   */
  #groups = new Map();
  #count = 0;

  /**
   * Returns a track that has no other slice between `from` and `to`. The calls for a key must come
   * in the order of `from`.
   * @param {'threads' | 'locks'} kind @param {string} key @param {string} title
   * @param {number} from @param {number} to
   */
  assign(kind, key, title, from, to) {
    const groupKey = `${kind} ${key}`;
    let group = this.#groups.get(groupKey);
    if (!group) {
      group = { title, pid: PIDS[kind], tids: [], lanes: new Lanes() };
      this.#groups.set(groupKey, group);
    }
    const lane = group.lanes.assign(from, to);
    group.tids[lane] ??= ++this.#count;
    return { pid: group.pid, tid: group.tids[lane] };
  }

  /** Yields the events that give the tracks their titles. */
  *titles() {
    for (const [name, pid] of Object.entries(PIDS)) {
      yield { ph: 'M', name: 'process_name', pid, tid: 0, args: { name } };
    }
    for (const { title, pid, tids } of this.#groups.values()) {
      for (const tid of tids) {
        yield { ph: 'M', name: 'thread_name', pid, tid, args: { name: title } };
      }
    }
  }
}

module.exports = { writeTrace };
