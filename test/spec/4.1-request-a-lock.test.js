'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks, turn } = require('../helpers/scope.js');
const { FREE, deferred, freshName, hold, stateOf } = require('../helpers/locks.js');

describe('4.1 Request a lock: ifAvailable', () => {
  it('step 3.5.1: not grantable, the callback is called with null, later, and its result resolves the promise', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    let called = false;
    const result = locks.request(name, { ifAvailable: true }, (lock) => {
      called = true;
      return [lock, 7];
    });
    assert.equal(called, false);
    assert.deepEqual(await result, [null, 7]);
    await held.release();
  });

  it('what the callback throws on null rejects the promise and touches no lock', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const thrown = new Error('thrown');
    await assert.rejects(
      locks.request(name, { ifAvailable: true }, () => {
        throw thrown;
      }),
      thrown,
    );
    await assert.rejects(
      locks.request(name, { ifAvailable: true }, () => Promise.reject(thrown)),
      thrown,
    );
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    await held.release();
  });

  it('is not available inside the callback that holds the lock: locks are not reentrant', async () => {
    const name = freshName();
    const inner = await locks.request(name, () =>
      locks.request(name, { ifAvailable: true }, (lock) => lock),
    );
    assert.equal(inner, null);
  });
});

describe('4.1 Request a lock: steal', () => {
  it('step 3.4.1: the held lock ends, its released promise rejects with an AbortError', async () => {
    const name = freshName();
    const robbed = await hold(locks, name);
    const thief = await hold(locks, name, { steal: true });
    await assert.rejects(robbed.released, (error) => {
      assert.ok(error instanceof DOMException);
      assert.equal(error.name, 'AbortError');
      return true;
    });
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    await thief.release();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('the end of the robbed callback releases nothing of the thief’s', async () => {
    const name = freshName();
    const robbed = await hold(locks, name);
    const thief = await hold(locks, name, { steal: true });
    await robbed.release('too late');
    await turn();
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    await assert.rejects(robbed.released, { name: 'AbortError' });
    await thief.release();
  });

  it('a robbed callback that fails later is no unhandled rejection', async () => {
    const name = freshName();
    const robbed = await hold(locks, name);
    const thief = await hold(locks, name, { steal: true });
    await assert.rejects(robbed.released, { name: 'AbortError' });
    robbed.fail(new Error('too late'));
    await turn(); // node:test fails a test on an unhandled rejection
    await thief.release();
  });

  it('step 3.4.2: goes ahead of the queue; queued requests stay queued behind it', async () => {
    const name = freshName();
    const order = [];
    const robbed = await hold(locks, name);
    const queued = [1, 2].map((i) => locks.request(name, () => order.push(i)));
    const thief = await hold(locks, name, { steal: true });
    order.push('thief');
    assert.deepEqual(await stateOf(locks, name), {
      held: ['exclusive'],
      pending: ['exclusive', 'exclusive'],
    });
    await thief.release();
    await Promise.all(queued);
    assert.deepEqual(order, ['thief', 1, 2]);
    await assert.rejects(robbed.released, { name: 'AbortError' });
  });

  it('the robbed hears of it before the thief’s callback is called', async () => {
    const name = freshName();
    const heard = [];
    const robbed = await hold(locks, name);
    const told = robbed.released.catch(() => heard.push('robbed'));
    await locks.request(name, { steal: true }, () => heard.push('thief'));
    await told;
    assert.deepEqual(heard, ['robbed', 'thief']);
  });

  it('a lock that is stolen before its callback began: the callback still gets the lock, the promise rejects', async () => {
    const name = freshName();
    const called = deferred();
    const robbed = locks.request(name, (lock) => called.resolve(lock));
    const thief = locks.request(name, { steal: true }, () => {});
    await assert.rejects(robbed, { name: 'AbortError' });
    assert.equal((await called.promise).name, name);
    await thief;
    assert.deepEqual(await stateOf(locks, name), FREE);
  });
});
