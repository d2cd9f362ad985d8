// slow: 2

'use strict';

/** The messages of time limits. programs.test.js tests when limits end a request. */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { after, describe, it } = require('node:test');
const { threadId } = require('node:worker_threads');
const { LockTimeoutError, MANY, locks, openBucket } = require('../helpers/scope.js');
const { HELD, freshName, hold, notCalled } = require('../helpers/locks.js');
const { rejectionOf, stateOf, timedOut, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

/** Keeps the event loop alive, which a held lock does not. */
const awake = setInterval(() => {}, 2 ** 30);
after(() => clearInterval(awake));

const lost = async ({ signal }) => signal.aborted || once(signal, 'abort');

describe('timeout', () => {
  it('rejects with a TimeoutError that says how long, for what, and who holds it', async () => {
    const name = freshName('report');
    const held = await hold(locks, name, { label: 'nightly' });
    const error = await timedOut(() => locks.request(name, { timeout: 200 }, notCalled));
    assert.ok(error instanceof LockTimeoutError && error instanceof DOMException);
    assert.deepEqual([error.name, error.lockName], ['TimeoutError', name]);
    assert.ok(error.waited >= 199);
    assert.equal(error.holders[0].clientId, (await locks.query({ name })).held[0].clientId);
    assert.match(error.message, /^Timed out after [\d,]+ ms waiting for lock "report/);
    assert.match(error.message, /\(held by this thread \("nightly"\), for [\d.]+ m?s\)\.$/);
    await held.release();
  });

  it('names another agent by its process or thread', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const there = await other.hold(name, { label: 'job' });
    const { message } = await timedOut(() => locks.acquire(name, { timeout: 200 }));
    const thread =
      other.threadId === threadId ? 'this thread' : `thread ${other.threadId} of this process`;
    const agent = other.pid === process.pid ? thread : `process ${other.pid}`;
    assert.ok(message.includes(`(held by ${agent} ("job"), for `), message);
    there.release();
    await there.settled;
  });

  it('names the holder in its own bucket, beside the same name in another one', async () => {
    const name = freshName();
    const labels = ['of a', 'of b'];
    const buckets = labels.map(() => openBucket(freshName()));
    const held = await Promise.all(
      buckets.map((bucket, i) => hold(bucket.locks, name, { label: labels[i] })),
    );
    for (const timeout of [0, 300]) {
      const asked = buckets.map((bucket) =>
        timedOut(() => bucket.locks.acquire(name, { timeout })),
      );
      // Both time out in one turn of the event loop.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, timeout);
      const holders = (await Promise.all(asked)).map((error) => error.holders[0]);
      assert.deepEqual(valuesOf(holders, 'label'), labels);
    }
    for (const lock of held) await lock.release();
  });

  it('lists the first ten holders, frozen, and counts all', async () => {
    const name = freshName();
    const shared = { mode: 'shared' };
    const held = await Promise.all(Array.from({ length: 12 }, () => hold(locks, name, shared)));
    const all = (await locks.query({ name, details: true })).held;
    for (const timeout of [0, 200]) {
      const error = await timedOut(() => locks.request(name, { timeout }, notCalled));
      assert.equal(error.holderCount, 12);
      assert.deepEqual(valuesOf(error.holders, 'token'), valuesOf(all.slice(0, 10), 'token'));
      assert.ok([error.holders, ...error.holders].every(Object.isFrozen));
      assert.match(error.message, /, and 11 more\)\.$/);
    }
    await Promise.all(held.map(({ release }) => release()));
  });

  it('of more than a timer can count does not fire at once, nor does holdTimeout', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const waiting = locks.acquire(name, { timeout: 2 ** 33, holdTimeout: 2 ** 40 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    await held.release();
    const handle = await waiting;
    await new Promise((resolve) => setTimeout(resolve, 10));
    assert.equal(handle.released, false);
    handle.release();
  });

  it('ends thousands of waiters', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const waiters = Array.from({ length: MANY / 2 }, () => locks.acquire(name, { timeout: 20 }));
    const settled = await Promise.allSettled(waiters);
    assert.ok(settled.every(({ reason }) => reason instanceof LockTimeoutError));
    assert.deepEqual(await stateOf(locks, name), HELD);
    await held.release();
  });
});

describe('holdTimeout and maxTotal', () => {
  for (const option of ['holdTimeout', 'maxTotal']) {
    it(`give the lock up with an error that names the option: ${option}`, async () => {
      const name = freshName('report');
      const options = { holdTimeout: 1e6, maxTotal: 1e6, [option]: 500 };
      let reason;
      const asked = locks.request(name, options, async (lock) => {
        await lost(lock);
        reason = lock.signal.reason;
      });
      const next = locks.request(name, () => 'next');
      const error = await rejectionOf(asked);
      assert.ok(error instanceof LockTimeoutError && error instanceof DOMException);
      assert.deepEqual([error.name, error.lockName, error.holders], ['TimeoutError', name, []]);
      const end = `after [\\d,]+ ms: its '${option}' is 500 ms\\.$`;
      assert.match(error.message, new RegExp(`^Lock "report.*" was released ${end}`));
      assert.match(error.stack, /time-limits\.test\.js/);
      assert.equal(await next, 'next');
      assert.equal(reason, error);
    });
  }
});
