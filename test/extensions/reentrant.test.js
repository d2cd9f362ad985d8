'use strict';

/**
 * Reentrant requests, as far as programs of one thread do not show it: programs.test.js judges what an
 * outer lock serves, and what becomes of that by thefts, time limits, aborts and a close.
 */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { DeadlockError, LockStolenError, Mutex, RWLock } = require('../helpers/scope.js');
const { locks, needs, openBucket, turn } = require('../helpers/scope.js');
const { FREE, HELD, deferred, freshName, nothing } = require('../helpers/locks.js');
const { hold, notCalled, rejectionOf, stateOf, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const R = { reentrant: true };

describe('reentrant: true', () => {
  it('an inner request is served by the outer lock, ahead of the queue', async () => {
    const name = freshName();
    const order = [];
    const end = deferred();
    let next;
    const outer = locks.request(name, R, async () => {
      next = locks.request(name, () => order.push('next'));
      await locks.request(name, R, () => order.push('inner'));
      locks.request(name, R, () => end.promise).then(() => order.push('late'));
      assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: ['exclusive'] });
    });
    await turn();
    end.resolve();
    await Promise.all([outer, next]);
    assert.deepEqual(order, ['inner', 'late', 'next']);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('exclusive inside shared tells who waits for whom', async () => {
    const name = freshName();
    await locks.request(name, { ...R, mode: 'shared', label: 'outer' }, async () => {
      const ask = (more) => locks.request(name, { ...R, label: 'inner', ...more }, (lock) => lock);
      assert.equal(await ask({ ifAvailable: true }), null);
      await assert.rejects(ask({ timeout: 0 }), { name: 'TimeoutError' });
      const error = await rejectionOf(ask({}));
      assert.ok(error instanceof DeadlockError);
      assert.deepEqual(valuesOf(error.cycle, 'mode', 'label'), [
        ['exclusive', 'inner'],
        ['shared', 'outer'],
      ]);
    });
  });

  it('a steal by another thread is told to both, while the outer one waits for the inner', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    let inner;
    const outer = locks.request(name, R, () => {
      inner = locks.request(name, R, ({ signal }) => once(signal, 'abort'));
    });
    await turn();
    const both = Promise.allSettled([outer, inner]);
    const thief = await remote.hold(name, { steal: true });
    for (const { reason } of await both) assert.ok(reason instanceof LockStolenError);
    thief.release();
    await thief.settled;
  });

  for (const [title, more, needed] of [
    ['', {}, []],
    [", with deadlock: 'reject'", { deadlock: 'reject' }, ['deadlock']],
  ]) {
    const what = `requestAll: each of the names that one is inside of, and each that is taken${title}`;
    it(what, needs(...needed), async () => {
      const [a, b] = [freshName('a'), freshName('b')];
      const end = deferred();
      const all = locks.request(b, R, () =>
        locks.requestAll([a, b], { ...R, ...more }, async (held) => {
          assert.deepEqual(valuesOf(held, 'name'), [a, b]);
          assert.equal(await locks.request(a, R, () => 'a'), 'a');
          locks.request(a, R, () => end.promise);
          return 'all';
        }),
      );
      await turn();
      await turn();
      for (const name of [a, b]) assert.deepEqual(await stateOf(locks, name), HELD);
      end.resolve();
      assert.equal(await all, 'all');
      for (const name of [a, b]) assert.deepEqual(await stateOf(locks, name), FREE);
    });
  }

  it('the same name of another bucket is another lock; of the same bucket, the same', async () => {
    const name = freshName();
    const other = openBucket(`other ${name}`);
    const held = await hold(other.locks, name);
    await openBucket(name).locks.request(name, R, async () => {
      assert.equal(await openBucket(name).locks.request(name, R, () => 'the same'), 'the same');
      const asked = other.locks.request(name, { ...R, ifAvailable: true }, (lock) => lock);
      assert.equal(await asked, null);
    });
    await held.release();
  });

  it('Mutex and RWLock take it, private and by name', async () => {
    const name = freshName();
    const [mutex, lock] = [new Mutex(), new RWLock(name)];
    const run = (it, inner) => it.runExclusive(inner, R);
    const inner = () => lock.runShared(() => new RWLock(name).runShared(() => 'by name', R), R);
    assert.equal(await run(mutex, () => run(mutex, () => run(lock, inner))), 'by name');
    await assert.rejects(
      lock.runShared(() => lock.acquireExclusive(R), R),
      DeadlockError,
    );
  });
});

describe('close() of a bucket, inside of a lock of the same bucket that was opened again', () => {
  const INVALID = { name: 'InvalidStateError' };

  for (const [method, needed, ask] of [
    ['request', [], (locks) => locks.request('a', R, notCalled)],
    ['requestAll', [], (locks) => locks.requestAll(['a'], R, notCalled)],
    ['acquireSync', ['sync'], async (locks) => locks.acquireSync('a', { ...R, timeout: 0 })],
    ['tryAcquireSync', ['sync'], async (locks) => locks.tryAcquireSync('a', R)],
  ]) {
    const title = `what is served is lost before anybody hears of it, later requests fail: ${method}`;
    it(title, needs(...needed), async () => {
      const name = freshName('bucket');
      const [one, other] = [openBucket(name), openBucket(name)];
      await one.locks.request('a', R, async (lock) => {
        const [handle, mine] = [await other.locks.acquire('a', R), await one.locks.acquire('a', R)];
        const request = other.locks.request('a', R, ({ signal }) => once(signal, 'abort'));
        const lost = assert.rejects(request, {
          name: 'AbortError',
          reason: 'closed',
          lockName: 'a',
        });
        const held = await other.locks.acquire('b');
        const seen = [];
        held.signal.addEventListener('abort', () => {
          seen.push(handle.held, assert.rejects(other.locks.request('a', R, nothing), INVALID));
        });
        await Promise.all([other.close(), lost]);
        assert.equal(seen[0], false);
        await seen[1];
        assert.equal(handle.signal.reason.reason, 'closed');
        assert.deepEqual([mine.held, lock.held, lock.signal.aborted], [true, true, false]);
        await assert.rejects(ask(other.locks), INVALID);
        mine.release();
        handle.release();
      });
      assert.deepEqual(await stateOf(one.locks, 'a'), FREE);
      await one.close();
    });
  }
});
