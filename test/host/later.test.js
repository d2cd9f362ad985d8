// slow: 5

'use strict';

/**
 * Calls of the host scope that are answered later, such as those after a query(); and thefts by
 * another process that a thread has not noticed yet. test/extensions/robbed.test.js has thefts that
 * a thread notices at once.
 */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { STATUS, THIEF, addon, calls } = require('../../lib/backend/addon.js');
const { agent, exchange } = require('../../lib/backend/agent.js');
const { LockLostError, LockStolenError, openBucket } = require('../../lib/host.js');
const { backendOf } = require('../../lib/standard/lock-manager.js');
const { deferred, hold, nothing, turn, valuesOf } = require('../helpers/locks.js');
const { freshBucket, freshDirectory } = require('../helpers/process.js');
const { run } = require('../helpers/program.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

const NOTHING = { held: [], pending: [] };
const CLOSED = { name: 'InvalidStateError' };

/** Limits a test that could wait forever; it needs far less. */
const LIMIT = { timeout: 60_000 };

/** Blocks the thread, so that what happens meanwhile arrives in one batch of events. */
const block = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);

const openAgain = ({ bucket, directory }) => openBucket(bucket, { directory });

describe('a call that comes after one that is not answered yet', { skip }, () => {
  it('is answered whatever became of Map', async (t) => {
    const { value } = await run(`
      const { openBucket } = require(${JSON.stringify(require.resolve('../../lib/host.js'))});
      const bucket = openBucket('bucket', { directory: ${JSON.stringify(freshDirectory(t))} });
      await bucket.ready;
      for (const name of ['get', 'set', 'has', 'delete']) {
        Map.prototype[name] = () => { throw new Error('of Map'); };
      }
      const controller = new AbortController();
      const { signal } = controller;
      const handle = await bucket.locks.acquire('a');
      const aborted = bucket.locks.request('a', { signal }, () => {}).catch(({ name }) => name);
      const before = bucket.locks.query();
      controller.abort();
      await handle.release();
      await before;
      return [await aborted, await bucket.locks.request('a', ({ name }) => name)];
    `);
    assert.deepEqual(value, ['AbortError', 'a']);
  });

  it('publishes or releases in its turn, and the lock goes to the next in line', async (t) => {
    const { locks } = freshBucket(t);
    for (let i = 0; i < 50; i++) {
      const handle = await locks.acquire('a');
      const next = locks.request('a', (lock) => lock.publish('next'));
      locks.query();
      const published = [handle.publish([i, 'first']), handle.publish([i, 'x'.repeat(i * 80)])];
      const seen = locks.query({ details: true });
      const released = handle.release();
      assert.equal(handle.released, true);
      assert.deepEqual(await Promise.all(published), [true, true]);
      assert.deepEqual((await seen).held[0].data, [i, 'x'.repeat(i * 80)]);
      assert.equal(await handle.publish('late'), false);
      await released;
      assert.equal(await next, true);
    }
    assert.deepEqual(await locks.query(), NOTHING);
  });

  it('marks in its turn; if close() comes first, once() rejects', async (t) => {
    const { locks, where } = freshBucket(t);
    const keep = { keep: 3_600_000 };
    const ask = () => void locks.query().catch(nothing);
    for (let i = 0; i < 50; i++) {
      assert.equal((await locks.once(`${i}`, keep, ask)).ran, true);
      assert.equal((await locks.once(`${i}`, keep, ask)).ran, false);
    }
    for (let turns = 0; turns < 20; turns++) {
      const opened = openAgain(where);
      const started = deferred();
      const done = opened.locks.once(`closed ${turns}`, keep, () => started.resolve(ask()));
      const outcome = done.catch(({ reason, name }) => reason ?? name);
      await started.promise;
      for (let i = 0; i < turns; i++) await undefined;
      await opened.close();
      const answer = await outcome;
      assert.ok(answer.ran || answer === 'closed', answer);
      const isMarked = !(await locks.once(`closed ${turns}`, keep, nothing)).ran;
      if (answer.ran) assert.ok(isMarked);
    }
  });
});

describe('close(), while calls are not answered,', { skip }, () => {
  it('settles them, and leaves later calls and another opening alone', async (t) => {
    const { locks, where } = freshBucket(t);
    for (let i = 0; i < 50; i++) {
      const mine = await hold(locks, 'mine');
      const second = openAgain(where);
      const controller = new AbortController();
      const { signal } = controller;
      const handle = await second.locks.acquire('a');
      const held = await hold(second.locks, 'b');
      // It is closed or stolen.
      const lost = assert.rejects(held.released, { name: 'AbortError' });
      const pending = assert.rejects(second.locks.request('mine', nothing), CLOSED);
      const asked = second.locks.query();
      const published = handle.publish('late');
      const isLate = agent.requestsOf(backendOf(second.locks).jobs).length === 2;
      const all = [
        ...[asked, published],
        second.locks.request('a', nothing),
        second.locks.request('a', { signal }, nothing),
        second.locks.request('b', { steal: true }, () => new Promise(nothing)).catch(nothing),
        second.locks.request('c', { timeout: 1 }, nothing),
        second.locks.request('c', { steal: true }, nothing),
        handle.release(),
      ];
      const settled = Promise.allSettled(all);
      controller.abort('no');
      if (i % 3 === 1) await null;
      if (i % 3 === 2) await turn();
      const closed = second.close();
      // They reuse the numbers of the requests that ended.
      const after = ['b', 'c', 'd'].map((name) => locks.request(name, (lock) => lock.name));
      await Promise.all([closed, lost, pending, settled]);
      if (isLate && i % 3 === 0) assert.equal(await published, false);
      assert.equal(await handle.publish('later'), false);
      assert.deepEqual(await Promise.all(after), ['b', 'c', 'd']);
      assert.equal(mine.lock.held, true);
      await mine.release();
      assert.deepEqual(await locks.query(), NOTHING);
    }
  });

  it('ends a lock and a release although neither can be done just then', async (t) => {
    const { locks, where } = freshBucket(t);
    const second = openAgain(where);
    const handle = await second.locks.acquire('a');
    const held = await hold(second.locks, 'b');
    const lost = assert.rejects(held.released, LockLostError);
    // The release is deferred, as if other processes owned the mutex.
    t.mock.method(calls, 'release', () => {
      exchange[STATUS] = addon.PENDING;
    });
    const released = handle.release();
    await second.close();
    await Promise.all([lost, released]);
    assert.deepEqual(await locks.query(), NOTHING);
  });

  it('drops an answer to a query that was not fetched', async (t) => {
    const { locks, where } = freshBucket(t);
    const second = openAgain(where);
    await second.ready;
    const asked = assert.rejects(second.locks.query(), CLOSED);
    // It waits for the answer to the query.
    const handle = locks.acquireSync('a', { timeout: 60_000 });
    await Promise.all([second.close(), asked]);
    // This query reuses the number of the other one.
    assert.deepEqual(valuesOf((await locks.query()).held, 'name'), ['a']);
    await handle.release();
  });

  it('announces a theft that comes before it', async (t) => {
    const { bucket, locks } = freshBucket(t);
    const handle = await locks.acquire('a');
    t.mock.method(calls, 'release', () => {
      calls.end();
      exchange[THIEF] = 0xab;
      exchange[THIEF + 1] = 7;
      exchange[STATUS] = addon.STOLEN;
    });
    await bucket.close();
    assert.equal(handle.signal.reason.clientId, '000000ab-7');
  });
});

describe('a batch of events', { skip }, () => {
  it('that refuses requests with the time limit 0 grants the others once each', async (t) => {
    const { locks } = freshBucket(t);
    const held = await hold(locks, 'taken');
    const called = [];
    const before = locks.query();
    const all = ['taken', 'one', 'taken', 'two', 'taken', 'three'].map((name) => {
      const options = name === 'taken' ? { timeout: 0 } : {};
      return locks.request(name, options, (lock) => called.push(lock.name));
    });
    block();
    const settled = await Promise.allSettled(all);
    const states = settled.map(({ reason }) => reason?.name ?? 'fulfilled');
    assert.deepEqual(states, Array(3).fill(['TimeoutError', 'fulfilled']).flat());
    assert.deepEqual(called.sort(), ['one', 'three', 'two']);
    await before;
    await held.release();
    assert.deepEqual(await locks.query(), NOTHING);
  });

  // These counts nearly fill the file, whose number of cells is a power of two.
  it('grants 230, 250, 480 and 500 requests although nothing else happens', LIMIT, async (t) => {
    for (const count of [230, 250, 480, 500]) {
      const { locks } = freshBucket(t, `${count}`);
      const held = await hold(locks, 'a');
      const granted = Array.from({ length: count }, async () => {
        const isCalled = deferred();
        const callback = () => {
          isCalled.resolve();
          return new Promise(nothing);
        };
        locks.request('a', { mode: 'shared' }, callback).catch(nothing);
        await isCalled.promise;
      });
      await locks.query();
      await held.release();
      await Promise.all(granted);
    }
  });
});

describe('querySync', { skip }, () => {
  it('blocks until there is an answer, and announces the events that come meanwhile', async (t) => {
    const { locks } = freshBucket(t);
    const backend = backendOf(locks);
    const { hostWaitForSnapshot: wait } = addon;
    const { mock } = t.mock.method(addon, 'hostWaitForSnapshot', wait);
    assert.deepEqual(backend.querySync('a', 1e4), NOTHING);
    const handle = await locks.acquire('a');
    // One call for each query, and one for each 50 ms in which the helper has not answered.
    const before = mock.callCount();
    const from = performance.now();
    for (let i = 0; i < 50; i++) assert.equal(backend.querySync('a', 1e4).held.length, 1);
    const most = 50 + (performance.now() - from) / 45;
    assert.ok(mock.callCount() - before <= most, `${mock.callCount() - before}, not ${most}`);
    const next = locks.request('a', ({ name }) => name);
    const released = handle.release();
    assert.equal(backend.querySync('a', 1e4).held.length, 1);
    assert.equal(await next, 'a');
    await released;
  });

  it('gives up when the time is over, and leaves nothing behind', async (t) => {
    const { locks } = freshBucket(t);
    const backend = backendOf(locks);
    assert.equal(backend.querySync('a', 0), undefined);
    assert.deepEqual(await locks.query(), NOTHING);
    await turn();
    assert.deepEqual(agent.requestsOf(backend.jobs), []);
  });

  it('throws if the bucket is closed, or cannot be opened', async () => {
    const bucket = openBucket('a', { directory: '/proc/web-locks' });
    const ask = () => backendOf(bucket.locks).querySync('a', 1e4);
    assert.throws(ask, { code: 'ERR_WEB_LOCKS_SCOPE_UNSUPPORTED' });
    await bucket.close();
    assert.throws(ask, CLOSED);
  });
});

const STEALING = `
  const { openBucket } = require(${JSON.stringify(require.resolve('../../lib/host.js'))});
  const { bucket, directory } = JSON.parse(process.argv[1]);
  openBucket(bucket, { directory }).locks.request('a', { steal: true }, () => {});
`;

/** Another process steals and releases "a" while this thread is blocked: an event is pending. */
function stealElsewhere(where) {
  execFileSync(process.execPath, ['-e', STEALING, JSON.stringify(where)], { stdio: 'inherit' });
}

describe('a lock that another process stole and gave back', { skip }, () => {
  for (const [what, options] of [
    ['a request', {}],
    ['a theft', { steal: true }],
  ]) {
    it(`is no longer held when ${what} is granted that waits for an answer`, async (t) => {
      const { locks, where } = freshBucket(t);
      const stolen = await hold(locks, 'a');
      stolen.released.catch(nothing);
      stealElsewhere(where);
      locks.query().catch(nothing);
      assert.equal(await locks.request('a', options, () => stolen.lock.held), false);
    });
  }
});

describe('a theft, and the grant of a waiting request, that a thread has not noticed', {
  skip,
}, () => {
  async function setUp(t, options = {}) {
    const { bucket, locks, where } = freshBucket(t);
    const stolen = await hold(locks, 'a');
    const seen = [];
    const next = locks.request('a', options, () => seen.push(stolen.lock.held));
    stealElsewhere(where);
    return { bucket, locks, where, stolen, next, seen };
  }

  it('are announced in their order, also if the stolen lock is released', async (t) => {
    for (const isReleased of [false, true]) {
      const { stolen, next, seen } = await setUp(t);
      if (isReleased) stolen.release();
      await assert.rejects(stolen.released, LockStolenError);
      await next;
      assert.deepEqual(seen, [false]);
    }
  });

  it('leave nothing behind if the request is aborted', async (t) => {
    const controller = new AbortController();
    const { locks, stolen, next, seen } = await setUp(t, { signal: controller.signal });
    controller.abort('no');
    await assert.rejects(next, (error) => error === 'no');
    await assert.rejects(stolen.released, LockStolenError);
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
    assert.deepEqual(seen, []);
  });

  it('end with the bucket if that is closed', async (t) => {
    const { bucket, where, stolen, next } = await setUp(t);
    const stolenFirst = assert.rejects(stolen.released, LockStolenError);
    await Promise.all([stolenFirst, assert.rejects(next, CLOSED), bucket.close()]);
    const again = openBucket(where.bucket, { directory: where.directory });
    assert.deepEqual(await again.locks.query(), { held: [], pending: [] });
    await again.close();
  });
});
