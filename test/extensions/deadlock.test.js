'use strict';

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { DeadlockError, locks, needs, turn } = require('../helpers/scope.js');
const { FREE, deferred, freshName, nothing, stateOf, valuesOf } = require('../helpers/locks.js');

const REJECT = { deadlock: 'reject' };

describe("deadlock: 'reject'", needs('deadlock'), () => {
  it('who leads is inside of its lock, too', async () => {
    const name = freshName();
    const asked = locks.elect(name, REJECT, () => locks.request(name, REJECT, () => {}));
    await assert.rejects(asked, { name: 'DeadlockError', lockName: name });
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('asking again for a lock one is inside of rejects', async () => {
    const name = freshName();
    await locks.request(name, { ...REJECT, label: 'outer' }, async (lock) => {
      const error = await locks
        .request(name, { ...REJECT, label: 'inner' }, () => assert.fail('called'))
        .then(assert.fail, (reason) => reason);
      assert.ok(error instanceof DeadlockError && error instanceof DOMException);
      assert.deepEqual([error.name, error.lockName], ['DeadlockError', name]);
      assert.deepEqual(
        error.cycle.map((entry) => [entry.name, entry.label]),
        [
          [name, 'inner'],
          [name, 'outer'],
        ],
      );
      assert.match(error.message, /inner.*outer/);
      assert.equal(lock.signal.aborted, false);
    });
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('two callers in opposite order: the one that closes the cycle rejects, the other goes on', async () => {
    const [a, b] = [freshName('a'), freshName('b')];
    const both = deferred();
    let inside = 0;
    const enter = () => {
      if (++inside === 2) both.resolve();
      return both.promise;
    };
    const nest = (outer, inner) =>
      locks.request(outer, REJECT, async () => {
        await enter();
        return locks.request(inner, REJECT, () => 'both');
      });
    const [first, second] = await Promise.allSettled([nest(a, b), nest(b, a)]);
    assert.equal(first.value, 'both');
    assert.ok(second.reason instanceof DeadlockError);
    assert.deepEqual(valuesOf(second.reason.cycle, 'name'), [a, a, b, b]);
  });

  it('a cycle over several threads', async (t) => {
    const names = [0, 1, 2].map((i) => freshName(`ring ${i}`));
    const start = new Int32Array(new SharedArrayBuffer(4));
    const library = JSON.stringify(require.resolve('../fixtures/library.js'));
    const workers = names.map((outer, i) => {
      const worker = new Worker(
        `const { parentPort, workerData: { outer, inner, start } } = require('node:worker_threads');
         const { locks } = require(${library});
         locks.request(outer, { deadlock: 'reject', label: 'of ' + outer }, async () => {
           Atomics.add(start, 0, 1);
           Atomics.notify(start, 0);
           for (let n; (n = Atomics.load(start, 0)) < 3; ) Atomics.wait(start, 0, n);
           return locks.request(inner, { deadlock: 'reject' }, () => 'both');
         }).then(
           (value) => parentPort.postMessage({ value }),
           ({ name, cycle }) => parentPort.postMessage({ name, cycle }),
         );`,
        { eval: true, workerData: { outer, inner: names[(i + 1) % 3], start } },
      );
      t.after(() => worker.terminate());
      return once(worker, 'message');
    });
    const results = (await Promise.all(workers)).map(([message]) => message);
    const errors = results.filter(({ name }) => name === 'DeadlockError');
    assert.equal(errors.length, 1);
    assert.equal(results.filter(({ value }) => value === 'both').length, 2);
    assert.equal(errors[0].cycle.length, 6);
    assert.equal(new Set(errors[0].cycle.map(({ threadId }) => threadId)).size, 3);
    assert.ok(errors[0].cycle.every(({ label }, i) => i % 2 === 0 || label.startsWith('of ')));
  });

  it('who waits for several is inside of those that it has taken', async () => {
    const [a, b] = [freshName('a'), freshName('b')];
    const outside = AsyncLocalStorage.snapshot();
    let all;
    await locks.request(b, REJECT, async () => {
      all = outside(() => locks.requestAll([a, b], REJECT, () => 'all'));
      await turn();
      const asked = locks.request(a, { ...REJECT, timeout: 60_000 }, nothing);
      await assert.rejects(asked, DeadlockError);
    });
    assert.equal(await all, 'all');
  });

  it('requestAll rejects a deadlock with what it has taken already', async () => {
    const [a, b] = [freshName('a'), freshName('b')];
    await locks.request(b, REJECT, async () => {
      await assert.rejects(locks.requestAll([a, b], REJECT, nothing), DeadlockError);
      assert.deepEqual(await stateOf(locks, a), FREE);
    });
    await locks.requestAll([a, b], REJECT, () =>
      assert.rejects(locks.request(a, REJECT, nothing), DeadlockError),
    );
  });
});
