'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks } = require('../helpers/scope.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');

describe('2.3 Modes and scheduling', () => {
  it('the default mode is exclusive', async () => {
    assert.equal(await locks.request(freshName(), (lock) => lock.mode), 'exclusive');
    assert.equal(await locks.request(freshName(), {}, (lock) => lock.mode), 'exclusive');
  });

  it('while an exclusive lock is held no other lock of that name is granted', async () => {
    const name = freshName();
    const held = await hold(locks, name, { mode: 'exclusive' });
    for (const mode of ['exclusive', 'shared']) {
      const other = await locks.request(name, { mode, ifAvailable: true }, (lock) => lock);
      assert.equal(other, null, mode);
    }
    await held.release();
  });

  it('while a shared lock is held, shared locks of that name are granted, exclusive ones not', async () => {
    const name = freshName();
    const held = await hold(locks, name, { mode: 'shared' });
    const second = await hold(locks, name, { mode: 'shared' });
    assert.deepEqual(await stateOf(locks, name), { held: ['shared', 'shared'], pending: [] });
    const exclusive = await locks.request(name, { ifAvailable: true }, (lock) => lock);
    assert.equal(exclusive, null);
    await Promise.all([held.release(), second.release()]);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('an exclusive request waits for all shared locks', async () => {
    const name = freshName();
    const readers = await Promise.all([1, 2, 3].map(() => hold(locks, name, { mode: 'shared' })));
    const writer = hold(locks, name);
    for (const reader of readers) {
      assert.deepEqual((await stateOf(locks, name)).pending, ['exclusive']);
      await reader.release();
    }
    await (await writer).release();
  });

  it('locks of different names do not affect each other', async () => {
    const [a, b] = await Promise.all([hold(locks, freshName()), hold(locks, freshName())]);
    await Promise.all([a.release(), b.release()]);
  });
});
