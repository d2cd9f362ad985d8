'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { profileOf } = require('./run.js');

const PROGRAM = `
  const names = ['a', 'b', '</script>', '', '\\ud800'];
  if (isMainThread) for (let i = 0; i < 2; i++) new Worker(__filename);
  const all = [];
  for (let i = 0; i < 60; i++) {
    const mode = i % 3 ? 'shared' : 'exclusive';
    all.push(locks.request(names[i % 5], { mode }, turn));
    if (i % 7 === 0) await turn();
  }
  await Promise.all(all);`;

const nanoseconds = (microseconds) => Math.round(microseconds * 1e3);

describe('the file is in the Trace Event format', () => {
  const state = {};
  const trace = async (t) => {
    state.trace ??= (await profileOf(t, PROGRAM)).trace;
    return state.trace;
  };

  it('every event has the fields of its kind', async (t) => {
    const { traceEvents, displayTimeUnit, otherData } = await trace(t);
    assert.equal(displayTimeUnit, 'ms');
    assert.equal(otherData.requests, 180);
    assert.equal([...new Set(traceEvents.map(({ ph }) => ph))].sort().join(), 'C,M,X,f,s');
    for (const event of traceEvents) {
      assert.equal(typeof event.name, 'string');
      assert.ok(Number.isInteger(event.pid) && Number.isInteger(event.tid));
      if (event.ph === 'M') continue;
      assert.ok(Number.isFinite(event.ts) && event.ts >= 0);
      if (event.ph === 'X') assert.ok(Number.isFinite(event.dur) && event.dur >= 0);
    }
  });

  it('slices of a track nest or are apart', async (t) => {
    const { traceEvents } = await trace(t);
    const tracks = new Map();
    for (const event of traceEvents.filter(({ ph }) => ph === 'X')) {
      const key = `${event.pid} ${event.tid}`;
      tracks.set(key, [...(tracks.get(key) ?? []), event]);
    }
    assert.ok(tracks.size > 8);
    for (const slices of tracks.values()) {
      slices.sort((a, b) => a.ts - b.ts || b.dur - a.dur);
      const open = [];
      for (const { ts, dur } of slices) {
        const [from, to] = [nanoseconds(ts), nanoseconds(ts) + nanoseconds(dur)];
        while (open.length > 0 && open.at(-1) <= from) open.pop();
        if (open.length > 0) assert.ok(to <= open.at(-1), `${from} ${to} ${open}`);
        open.push(to);
      }
    }
  });

  it('each track has the title of a thread or a lock', async (t) => {
    const { traceEvents } = await trace(t);
    const titles = new Map();
    for (const { ph, name, pid, tid, args } of traceEvents) {
      if (ph === 'M' && name === 'thread_name') titles.set(`${pid} ${tid}`, args.name);
    }
    for (const { ph, pid, tid } of traceEvents) {
      if (ph === 'X') assert.ok(titles.has(`${pid} ${tid}`));
    }
    const expected = ['main thread', 'thread 1', 'thread 2', 'a', 'b', '</script>', '""', '\ud800'];
    assert.deepEqual([...new Set(titles.values())].sort(), expected.sort());
  });

  it('flows lead from the slice of a holder to the slice of a waiter', async (t) => {
    const { traceEvents } = await trace(t);
    const flows = traceEvents.filter(({ ph }) => ph === 's' || ph === 'f');
    assert.ok(flows.length > 0);
    const covers = (cat, { pid, tid, ts }) =>
      traceEvents.some(
        (slice) =>
          slice.cat === cat &&
          slice.pid === pid &&
          slice.tid === tid &&
          nanoseconds(slice.ts) <= nanoseconds(ts) &&
          nanoseconds(ts) <= nanoseconds(slice.ts) + nanoseconds(slice.dur),
      );
    for (const flow of flows) {
      assert.ok(covers(flow.ph === 's' ? 'hold' : 'wait', flow), JSON.stringify(flow));
      assert.equal(flows.filter(({ id, ts }) => id === flow.id && ts === flow.ts).length, 2);
    }
  });

  it('the queue of a name becomes empty', async (t) => {
    const { traceEvents } = await trace(t);
    const last = new Map();
    for (const { ph, id, args } of traceEvents) if (ph === 'C') last.set(id, args.waiting);
    assert.equal(last.size, 5);
    assert.deepEqual([...new Set(last.values())], [0]);
  });
});
