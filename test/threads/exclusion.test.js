// slow: 16

'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { locks } = require('../../lib/index.js');
const { FREE, freshName, hold, stateOf, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const COUNTER = path.join(__dirname, '..', 'fixtures', 'counter.js');

/**
 * Runs test/fixtures/counter.js in `workers` threads and returns what they found in shared memory.
 */
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
  for (const workers of [2, 3, 8]) {
    it(`exclusive locks of ${workers} threads never overlap, and all are granted`, async (t) => {
      const rounds = 2000;
      const { total, violations } = await count(t, { workers, rounds });
      assert.deepEqual({ total, violations }, { total: workers * rounds, violations: 0 });
    });
  }

  it('shared and exclusive locks of 4 threads never overlap', async (t) => {
    const { total, violations } = await count(t, { workers: 4, rounds: 2000, sharedEvery: 3 });
    assert.deepEqual({ total, violations }, { total: 8000, violations: 0 });
  });

  it('shared locks are held by several threads at once', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    const here = await hold(locks, name, { mode: 'shared' });
    const there = await remote.hold(name, { mode: 'shared' });
    assert.deepEqual(await stateOf(locks, name), { held: ['shared', 'shared'], pending: [] });
    there.release();
    await Promise.all([there.settled, here.release()]);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('grants in the order of the requests, whichever thread made them', async (t) => {
    const name = freshName();
    const remotes = await Promise.all([1, 2, 3].map(() => RemoteAgent.start(t)));
    const held = await hold(locks, name);
    const order = [];
    const requests = [];
    for (let i = 0; i < 12; i++) {
      if (i % 4 === 3) {
        requests.push(locks.request(name, () => order.push(i)));
        continue;
      }
      const request = await remotes[i % 4].request(name);
      requests.push(request.settled);
      request.granted.then(() => {
        order.push(i);
        request.release();
      });
    }
    await held.release();
    await Promise.all(requests);
    assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  });

  it('ifAvailable sees locks of other threads', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    const there = await remote.hold(name);
    assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock), null);
    there.release();
    await there.settled;
    assert.notEqual(await locks.request(name, { ifAvailable: true }, (lock) => lock), null);
  });

  it('an abort in one thread lets in the request of another behind it', async (t) => {
    const name = freshName();
    const [one, other] = await Promise.all([RemoteAgent.start(t), RemoteAgent.start(t)]);
    const held = await hold(locks, name, { mode: 'shared' });
    const writer = await one.request(name, { signal: true });
    const reader = await other.request(name, { mode: 'shared' });
    assert.deepEqual(await stateOf(locks, name), {
      held: ['shared'],
      pending: ['exclusive', 'shared'],
    });
    writer.abort();
    await reader.granted;
    assert.equal((await writer.settled).error.name, 'AbortError');
    reader.release();
    await Promise.all([reader.settled, held.release()]);
  });

  it('names with lone surrogates and NUL are the same in every thread', async (t) => {
    const remote = await RemoteAgent.start(t);
    for (const name of ['', '\uD800', 'a\0b', `${freshName()}${'x'.repeat(2 ** 20)}`]) {
      const there = await remote.hold(name);
      assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock), null);
      there.release();
      await there.settled;
    }
  });
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
