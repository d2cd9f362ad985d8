// slow: 2

'use strict';

/** timeout, holdTimeout and maxTotal. When they end what: programs.test.js. */

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { once } = require('node:events');
const { after, describe, it } = require('node:test');
const { threadId } = require('node:worker_threads');
const { LockTimeoutError, MANY, locks, needs, openBucket } = require('../helpers/scope.js');
const { FREE, HELD, deferred, freshName, hold, notCalled } = require('../helpers/locks.js');
const { rejectionOf, stateOf, timedOut, valuesOf } = require('../helpers/locks.js');
const { run } = require('../helpers/program.js');
const { RemoteAgent } = require('../helpers/remote.js');
const { start } = require('../helpers/worker.js');

/** Nothing else keeps the event loop alive while a lock is held. */
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

  it('names the holder of its own bucket, beside a request of the same name in another', async () => {
    const name = freshName();
    const buckets = [openBucket(freshName('a')), openBucket(freshName('b'))];
    await Promise.all(buckets.map(({ ready }) => ready));
    const labels = ['of a', 'of b'];
    const held = await Promise.all(
      buckets.map((bucket, i) => hold(bucket.locks, name, { label: labels[i] })),
    );
    for (const timeout of [0, 300]) {
      const asked = buckets.map((bucket) =>
        timedOut(() => bucket.locks.acquire(name, { timeout })),
      );
      // Both are over in one turn of the event loop.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, timeout);
      const errors = await Promise.all(asked);
      assert.deepEqual(
        errors.map(({ holders }) => holders[0].label),
        labels,
      );
    }
    for (const lock of held) await lock.release();
    await Promise.all(buckets.map((bucket) => bucket.close()));
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

  it('of more than a timer can count does not fire at once, nor does a limit on holding', async () => {
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

describe('holdTimeout', () => {
  it('gives the lock up, rejects, aborts the signal, and lets the callback go on', async () => {
    const name = freshName('report');
    const end = deferred();
    const reason = deferred();
    const asked = locks.request(name, { holdTimeout: 20, label: 'mine' }, async (lock) => {
      await lost(lock);
      reason.resolve(lock.signal.reason);
      await end.promise;
      return 'ignored';
    });
    const next = locks.request(name, () => 'next');
    const error = await rejectionOf(asked);
    assert.ok(error instanceof LockTimeoutError && error instanceof DOMException);
    assert.deepEqual([error.name, error.lockName, error.holders], ['TimeoutError', name, []]);
    assert.match(
      error.message,
      /^Lock "report.*" was released after [\d,]+ ms: its 'holdTimeout' is 20 ms\.$/,
    );
    assert.ok(error.held >= 19);
    assert.match(error.stack, /time-limits\.test\.js/);
    assert.equal(await reason.promise, error);
    assert.equal(await next, 'next');
    end.resolve();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('tells subscribers of the channels', async (t) => {
    const name = freshName();
    const told = [];
    for (const channel of ['timeout', 'steal', 'end']) {
      const listener = (message) => message.name === name && told.push([channel, message.error]);
      subscribe(`locks.request.${channel}`, listener);
      t.after(() => unsubscribe(`locks.request.${channel}`, listener));
    }
    const asked = locks.request(name, { holdTimeout: 5 }, () => new Promise(() => {}));
    const error = await rejectionOf(asked);
    assert.deepEqual(told, [
      ['timeout', error],
      ['end', error],
    ]);
  });

  it('lets another thread have the lock', needs('threads'), async (t) => {
    const name = freshName();
    const held = await hold(locks, name, { holdTimeout: 50 });
    const worker = start("locks.request(name, () => post('mine'));", name);
    t.after(() => worker.terminate());
    assert.deepEqual(await once(worker, 'message'), ['mine']);
    await assert.rejects(held.released, LockTimeoutError);
  });

  it('does not keep the event loop alive', needs('entry'), () =>
    run(`
      const worker = new Worker(\`
        const { locks } = require(\${JSON.stringify(entry)});
        locks.acquire('x', { holdTimeout: 1e9 }).then((handle) => { globalThis.handle = handle; });
      \`, { eval: true });
      await once(worker, 'exit');`),
  );

  it(
    'leaves no timer behind, nor do other limits, however the request ends',
    needs('entry'),
    async () => {
      const before = `
      const timers = require('node:timers');
      const { clearTimeout, setTimeout } = timers;
      const alive = new Set();
      timers.setTimeout = (then, milliseconds) => {
        const timer = setTimeout(() => {
          alive.delete(timer);
          then();
        }, milliseconds);
        alive.add(timer);
        return timer;
      };
      timers.clearTimeout = (timer) => {
        alive.delete(timer);
        clearTimeout(timer);
      };`;
      const { value } = await run(
        `
      const options = { holdTimeout: 1e6, timeout: 1e6, warnAfter: 1e6 };
      const release = async (handle, check) => {
        await turn();
        check();
        handle.release();
      };
      const ways = {
        callback: (name, check) => locks.request(name, options, () => turn().then(check)),
        handle: async (name, check) => release(await locks.acquire(name, options), check),
        sync: (name, check) => release(locks.tryAcquireSync(name, { holdTimeout: 1e6 }), check),
        several: async (name, check) => release(await locks.acquireAll([name, 'y'], options), check),
        async theft(name, check) {
          const held = await hold(locks, name, options);
          await turn();
          check();
          await locks.request(name, { steal: true }, () => {});
          await held.released.catch(() => {});
        },
        async abort(name, check) {
          const held = await hold(locks, name);
          const controller = new AbortController();
          const { timeout, holdTimeout } = options;
          const given = { timeout, holdTimeout, signal: controller.signal };
          const asked = locks.request(name, given, () => {});
          await turn();
          check();
          controller.abort();
          await asked.catch(() => {});
          await held.release();
        },
      };
      const left = {};
      for (const [way, end] of Object.entries(ways)) {
        await end(way, () => assert.ok(alive.size > 0, 'no timer of ' + way));
        await turn();
        left[way] = alive.size;
      }
      return left;`,
        { before },
      );
      assert.deepEqual(value, { callback: 0, handle: 0, sync: 0, several: 0, theft: 0, abort: 0 });
    },
  );
});

describe('maxTotal', () => {
  it('ends the hold, as a holdTimeout does, and says which of both it was', async () => {
    const options = ['maxTotal', 'holdTimeout'];
    const reasons = options.map((option) =>
      rejectionOf(
        locks.request(freshName(), { maxTotal: 1e6, holdTimeout: 1e6, [option]: 500 }, lost),
      ),
    );
    for (const [i, { message }] of (await Promise.all(reasons)).entries()) {
      assert.match(
        message,
        new RegExp(` was released after [\\d,]+ ms: its '${options[i]}' is 500 ms`),
      );
    }
  });

  for (const limits of [
    { timeout: 300, maxTotal: 1e8 },
    { timeout: 1e8, maxTotal: 300 },
  ])
    it(`and timeout, the shorter one ends the wait: ${JSON.stringify(limits)}`, async () => {
      const name = freshName();
      const held = await hold(locks, name);
      assert.match((await timedOut(() => locks.acquire(name, limits))).message, /after \d{3} ms/);
      await held.release();
    });

  it('is about the whole of several locks', async () => {
    const [one, other] = [freshName('a'), freshName('b')];
    const held = await hold(locks, other);
    const asked = locks.requestAll([one, other], { maxTotal: 20 }, notCalled);
    await assert.rejects(asked, LockTimeoutError);
    await held.release();
    // So long that a server grants them in it.
    const handles = await locks.acquireAll([one, other], { maxTotal: 500 });
    await Promise.all(handles.locks.map(lost));
    // Which also keeps the handles from being collected, and so released, before.
    assert.ok(handles.locks.every(({ held }) => !held));
    assert.deepEqual(await stateOf(locks, one), FREE);
  });

  it('limits how long acquireSync blocks, in place of a timeout', needs('sync'), async () => {
    const name = freshName();
    const held = await hold(locks, name, { mode: 'shared' });
    assert.throws(() => locks.acquireSync(name, { maxTotal: 5 }), { name: 'DeadlockError' });
    await held.release();
    const handle = locks.acquireSync(name, { maxTotal: 5 });
    await lost(handle);
    assert.equal(handle.released, true);
  });
});
