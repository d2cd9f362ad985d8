'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks, needs } = require('../helpers/scope.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');

describe('4.2 Release a lock', () => {
  it('step 6: the lock leaves the held lock set', async () => {
    const name = freshName();
    const [one, other] = [
      await hold(locks, name, { mode: 'shared' }),
      await hold(locks, name, { mode: 'shared' }),
    ];
    await one.release();
    assert.deepEqual(await stateOf(locks, name), { held: ['shared'], pending: [] });
    await other.release();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('step 7: the queue is processed: the next request is granted before the released promise settles', async () => {
    const name = freshName();
    const order = [];
    const first = locks
      .request(name, () => {})
      .then(async () => {
        order.push(await stateOf(locks, name));
      });
    const second = hold(locks, name);
    await first;
    assert.deepEqual(order, [{ held: ['exclusive'], pending: [] }]);
    await (await second).release();
  });

  it(
    'a grant after a release on the same thread calls back in the same turn',
    needs('turns'),
    async () => {
      const name = freshName();
      const order = [];
      const held = await hold(locks, name);
      const next = locks.request(name, () => order.push('callback'));
      setImmediate(() => order.push('next turn'));
      await held.release();
      await next;
      await new Promise(setImmediate);
      assert.deepEqual(order, ['callback', 'next turn']);
    },
  );

  it('requests made from inside a callback wait behind those already queued', async () => {
    const name = freshName();
    const order = [];
    let inner;
    const outer = locks.request(name, () => {
      inner = locks.request(name, () => order.push('inner'));
    });
    const queued = locks.request(name, () => order.push('queued'));
    await Promise.all([outer, queued]);
    await inner;
    assert.deepEqual(order, ['queued', 'inner']);
  });
});
