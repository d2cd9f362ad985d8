// slow: 2

'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { threadId } = require('node:worker_threads');
const { LockTimeoutError, MANY, locks } = require('../helpers/scope.js');
const { freshName, hold, stateOf, timedOut } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const SHARED = { mode: 'shared' };

describe('the timeout option', () => {
  it('rejects with a TimeoutError that says how long, for what, and who holds it', async () => {
    const name = freshName('report');
    const held = await hold(locks, name, { label: 'nightly' });
    const error = await timedOut(() =>
      locks.request(name, { timeout: 200 }, () => assert.fail('called')),
    );
    assert.ok(error instanceof LockTimeoutError && error instanceof DOMException);
    assert.equal(error.name, 'TimeoutError');
    assert.equal(error.lockName, name);
    assert.ok(error.waited >= 199);
    const [{ clientId }] = (await locks.query()).held.filter((lock) => lock.name === name);
    assert.equal(error.holders[0].clientId, clientId);
    assert.match(error.message, /^Timed out after [\d,]+ ms waiting for lock "report/);
    assert.match(error.message, /\(held by this thread \("nightly"\), for [\d.]+ m?s\)\.$/);
    await held.release();
  });

  it('names another agent by its process or thread', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const there = await other.hold(name, { label: 'job' });
    const { message } = await timedOut(() => locks.acquire(name, { timeout: 200 }));
    let agent = `process ${other.pid}`;
    if (other.pid === process.pid) {
      agent =
        other.threadId === threadId ? 'this thread' : `thread ${other.threadId} of this process`;
    }
    assert.ok(message.includes(`(held by ${agent} ("job"), for `), message);
    there.release();
    await there.settled;
  });

  it('lists the first ten holders, frozen, and counts all', async () => {
    const name = freshName();
    const held = await Promise.all(Array.from({ length: 12 }, () => hold(locks, name, SHARED)));
    const all = (await locks.query({ name, details: true })).held;
    for (const timeout of [0, 200]) {
      const error = await timedOut(() => locks.request(name, { timeout }, () => {}));
      assert.equal(error.holderCount, 12);
      const tokens = (list) => list.map(({ token }) => token);
      assert.deepEqual(tokens(error.holders), tokens(all).slice(0, 10));
      assert.ok([error.holders, ...error.holders].every(Object.isFrozen));
      assert.match(error.message, /, and 11 more\)\.$/);
    }
    await Promise.all(held.map(({ release }) => release()));
  });

  it('ends before a timer that is due half a second later', async () => {
    // In the order of timers, so also in a thread that stood still. Elsewhere holders are asked for.
    const inThread = require('../../lib/index.js').locks;
    const name = freshName();
    const held = await hold(inThread, name);
    const order = [];
    const request = inThread.request(name, { timeout: 20 }, () => assert.fail('called'));
    const limited = request.catch(() => order.push('timeout'));
    const timer = new Promise((resolve) => setTimeout(resolve, 520));
    await Promise.all([limited, timer.then(() => order.push('timer'))]);
    assert.deepEqual(order, ['timeout', 'timer']);
    await held.release();
  });

  it('rejects what is not a number of milliseconds with a TypeError', async () => {
    for (const timeout of [Number.NaN, -1, Number.POSITIVE_INFINITY, '5', null, {}, 5n]) {
      await assert.rejects(
        locks.request('x', { timeout }, () => {}),
        TypeError,
      );
    }
  });

  it('a limit of more than a timer can count does not fire at once', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const handle = locks.acquire(name, { timeout: 2 ** 33 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    await held.release();
    (await handle).release();
  });

  it('thousands of waiters time out', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const waiters = Array.from({ length: MANY / 2 }, () => locks.acquire(name, { timeout: 20 }));
    const settled = await Promise.allSettled(waiters);
    assert.ok(settled.every(({ reason }) => reason instanceof LockTimeoutError));
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    await held.release();
  });
});
