// slow: 9

'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { locks } = require('../../lib/index.js');
const { FREE, freshName, stateOf, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const COUNTER = path.join(__dirname, '..', 'fixtures', 'counter.js');

/** Runs test/fixtures/counter.js in `workers` threads. @returns the counts in shared memory */
async function count(t, { workers, rounds, sharedEvery }) {
  const memory = new Int32Array(new SharedArrayBuffer(16));
  const workerData = { memory, name: freshName(), rounds, sharedEvery };
  const threads = Array.from({ length: workers }, () => new Worker(COUNTER, { workerData }));
  for (const thread of threads) t.after(() => thread.terminate());
  const codes = await Promise.all(threads.map(async (thread) => (await once(thread, 'exit'))[0]));
  assert.deepEqual(
    codes,
    threads.map(() => 0),
  );
  const [, , total, violations] = memory;
  return { total, violations };
}

describe('mutual exclusion over threads', () => {
  for (const [title, workers, sharedEvery] of [
    ['exclusive locks of 2 threads', 2],
    ['exclusive locks of 3 threads', 3],
    ['exclusive locks of 8 threads', 8],
    ['shared and exclusive locks of 4 threads', 4, 3],
  ]) {
    it(`${title} never overlap, and all are granted`, async (t) => {
      const found = await count(t, { workers, rounds: 1000, sharedEvery });
      assert.deepEqual(found, { total: workers * 1000, violations: 0 });
    });
  }
});

describe('query() over threads', () => {
  it('shows the locks and requests of all threads, each with its clientId', async (t) => {
    const name = freshName();
    const remotes = await Promise.all([1, 2].map(() => RemoteAgent.start(t)));
    const held = await remotes[0].hold(name);
    const waiting = await remotes[1].request(name, { mode: 'shared' });
    const here = locks.request(name, () => {});
    const snapshots = await Promise.all([locks.query(), remotes[0].query(), remotes[1].query()]);
    const [mine] = snapshots.map(({ held: all, pending }) => ({
      held: all.filter((info) => info.name === name),
      pending: pending.filter((info) => info.name === name),
    }));
    for (const snapshot of snapshots) assert.deepEqual(snapshot, snapshots[0]);
    assert.deepEqual(valuesOf(mine.held, 'mode'), ['exclusive']);
    assert.deepEqual(valuesOf(mine.pending, 'mode'), ['shared', 'exclusive']);
    const ids = [...mine.held, ...mine.pending].map(({ clientId }) => clientId);
    const threadIds = [...remotes.map(({ worker }) => worker.threadId), 0];
    assert.deepEqual(
      ids.map((id) => id.split('-').slice(0, 3)),
      threadIds.map((id) => ['node', String(process.pid), String(id)]),
    );
    held.release();
    await waiting.granted;
    waiting.release();
    await Promise.all([here, held.settled, waiting.settled]);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });
});
