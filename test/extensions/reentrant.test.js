'use strict';

/**
 * Reentrant requests beyond programs of one thread. programs.test.js tests what an outer lock
 * serves, and the effect of thefts, time limits, aborts and a close.
 */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { LockStolenError, Mutex, RWLock, locks, needs, openBucket } = require('../helpers/scope.js');
const { turn } = require('../helpers/scope.js');
const {
  deferred,
  freshName,
  hold,
  notCalled,
  nothing,
  rejectionOf,
} = require('../helpers/locks.js');
const { valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const R = { reentrant: true };

describe('reentrant: true', () => {
  it('exclusive inside shared tells who waits for whom', async () => {
    const name = freshName();
    await locks.request(name, { ...R, mode: 'shared', label: 'outer' }, async () => {
      const error = await rejectionOf(locks.request(name, { ...R, label: 'inner' }, notCalled));
      assert.equal(error.name, 'DeadlockError');
      assert.deepEqual(valuesOf(error.cycle, 'mode', 'label'), [
        ['exclusive', 'inner'],
        ['shared', 'outer'],
      ]);
    });
  });

  it('both learn of a theft by another thread, while the outer waits for the inner', async (t) => {
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

  it('a release that waits for the inner lock ends when both are stolen', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    let released;
    const outer = locks.requestAll([name], R, async ([handle]) => {
      const inner = locks.request(name, R, ({ signal }) => once(signal, 'abort'));
      released = handle.release();
      await inner;
    });
    const lost = assert.rejects(outer, LockStolenError);
    await turn();
    const thief = await remote.hold(name, { steal: true });
    await lost;
    assert.equal(await released, undefined);
    thief.release();
    await thief.settled;
  });

  it('the same name is another lock in another bucket, and the same in its bucket', async () => {
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

  it('private locks take it', async () => {
    for (const lock of [new Mutex(), new RWLock()])
      assert.equal(await lock.runExclusive(() => lock.runExclusive(() => 7, R), R), 7);
  });
});

describe('close() of a bucket, inside of a lock of the same bucket that was opened again', () => {
  const INVALID = { name: 'InvalidStateError' };

  it('a served lock is lost before that is announced, and later requests fail', async () => {
    const name = freshName('bucket');
    const [one, other] = [openBucket(name), openBucket(name)];
    await one.locks.request('a', R, async (lock) => {
      const [handle, mine] = [await other.locks.acquire('a', R), await one.locks.acquire('a', R)];
      const request = other.locks.request('a', R, ({ signal }) => once(signal, 'abort'));
      const lost = assert.rejects(request, { name: 'AbortError', reason: 'closed' });
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
      await assert.rejects(other.locks.requestAll(['a'], R, notCalled), INVALID);
      if (!needs('sync').skip) {
        assert.throws(() => other.locks.acquireSync('a', { ...R, timeout: 0 }), INVALID);
        assert.throws(() => other.locks.tryAcquireSync('a', R), INVALID);
      }
      mine.release();
      handle.release();
    });
    await one.close();
  });

  it('a request that waits only for a served one fails, and is not granted first', async () => {
    const name = freshName('bucket');
    const [one, other] = [openBucket(name), openBucket(name)];
    const served = deferred();
    const outer = one.locks.request('a', R, () => {
      served.resolve(other.locks.acquire('a', R));
    });
    const handle = await served.promise;
    const pending = other.locks.request('a', notCalled);
    await Promise.all([other.close(), assert.rejects(pending, INVALID)]);
    await outer;
    assert.equal(handle.released, true);
    await one.close();
  });
});
