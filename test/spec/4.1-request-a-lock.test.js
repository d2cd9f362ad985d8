'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks, turn } = require('../helpers/scope.js');
const { FREE, HELD, deferred, freshName, hold, stateOf } = require('../helpers/locks.js');

describe('4.1 Request a lock: ifAvailable', () => {
  it('step 3.5.1: if it is not grantable, the callback later gets null', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    let given;
    const ask = (result) =>
      locks.request(name, { ifAvailable: true }, async (lock) => {
        given = lock;
        assert.deepEqual(await stateOf(locks, name), HELD);
        return result();
      });
    const answer = ask(() => 7);
    assert.equal(given, undefined);
    assert.equal(await answer, 7);
    assert.equal(given, null);
    const thrown = new Error('thrown');
    await assert.rejects(
      ask(() => Promise.reject(thrown)),
      thrown,
    );
    assert.deepEqual(await stateOf(locks, name), HELD);
    await held.release();
  });

  it('is not available inside the callback with the lock: locks are not reentrant', async () => {
    const name = freshName();
    const ask = () => locks.request(name, { ifAvailable: true }, (lock) => lock);
    assert.equal(await locks.request(name, ask), null);
  });
});

describe('4.1 Request a lock: steal', () => {
  it('step 3.4.1: the held lock ends, and its promise rejects with an AbortError', async () => {
    for (const end of ['release', 'fail']) {
      const name = freshName();
      const stolen = await hold(locks, name);
      const thief = await hold(locks, name, { steal: true });
      await assert.rejects(stolen.released, (error) => {
        return error instanceof DOMException && error.name === 'AbortError';
      });
      assert.deepEqual(await stateOf(locks, name), HELD);
      stolen[end]('too late');
      await turn(); // node:test fails a test on an unhandled rejection
      assert.deepEqual(await stateOf(locks, name), HELD);
      await thief.release();
      assert.deepEqual(await stateOf(locks, name), FREE);
    }
  });

  it('step 3.4.2: goes ahead of the queue, and queued requests stay queued behind it', async () => {
    const name = freshName();
    const order = [];
    const stolen = await hold(locks, name);
    stolen.released.catch(() => order.push('stolen'));
    const queued = [1, 2].map((i) => locks.request(name, () => order.push(i)));
    const thief = await hold(locks, name, { steal: true });
    order.push('thief');
    const pending = ['exclusive', 'exclusive'];
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending });
    await thief.release();
    await Promise.all(queued);
    assert.deepEqual(order, ['stolen', 'thief', 1, 2]);
  });

  it('a callback whose lock is stolen first still gets it, but the promise rejects', async () => {
    const name = freshName();
    const called = deferred();
    const stolen = locks.request(name, (lock) => called.resolve(lock));
    const thief = locks.request(name, { steal: true }, () => {});
    await assert.rejects(stolen, { name: 'AbortError' });
    assert.equal((await called.promise).name, name);
    await thief;
    assert.deepEqual(await stateOf(locks, name), FREE);
  });
});
