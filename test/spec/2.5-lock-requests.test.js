'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks } = require('../helpers/scope.js');
const { freshName, hold, stateOf } = require('../helpers/locks.js');

const available = (name, mode) =>
  locks.request(name, { mode, ifAvailable: true }, (lock) => lock !== null);

describe('2.5 Lock requests: grantable', () => {
  it('step 7: a request behind another in the queue is not grantable, whatever its mode', async () => {
    const name = freshName();
    const reader = await hold(locks, name, { mode: 'shared' });
    const writer = hold(locks, name);
    assert.equal(await available(name, 'shared'), false);
    const late = hold(locks, name, { mode: 'shared' });
    assert.deepEqual(await stateOf(locks, name), {
      held: ['shared'],
      pending: ['exclusive', 'shared'],
    });
    await reader.release();
    await (await writer).release();
    await (await late).release();
  });

  it('step 8: an exclusive request is grantable if no lock of the name is held', async () => {
    const name = freshName();
    assert.equal(await available(name, 'exclusive'), true);
    const held = await hold(locks, name, { mode: 'shared' });
    assert.equal(await available(name, 'exclusive'), false);
    await held.release();
    assert.equal(await available(name, 'exclusive'), true);
  });

  it('step 9: a shared request is grantable if no exclusive lock of the name is held', async () => {
    const name = freshName();
    assert.equal(await available(name, 'shared'), true);
    const shared = await hold(locks, name, { mode: 'shared' });
    assert.equal(await available(name, 'shared'), true);
    await shared.release();
    const exclusive = await hold(locks, name);
    assert.equal(await available(name, 'shared'), false);
    await exclusive.release();
  });

  it('the queue is first in, first out', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const order = [];
    const all = Array.from({ length: 100 }, (_, i) => locks.request(name, () => order.push(i)));
    await held.release();
    await Promise.all(all);
    assert.deepEqual(
      order,
      Array.from({ length: 100 }, (_, i) => i),
    );
  });
});
