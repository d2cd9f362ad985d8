'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks, needs } = require('../helpers/scope.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');

describe('4.2 Release a lock', () => {
  it('step 6: the lock leaves the held lock set', async () => {
    const name = freshName();
    const one = await hold(locks, name, { mode: 'shared' });
    const other = await hold(locks, name, { mode: 'shared' });
    await one.release();
    assert.deepEqual(await stateOf(locks, name), { held: ['shared'], pending: [] });
    await other.release();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it(
    'step 7: the queue is processed: the next callback of the thread is called in the same turn',
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
});
