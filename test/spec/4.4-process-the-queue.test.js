'use strict';

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { describe, it } = require('node:test');
const { locks } = require('../helpers/scope.js');
const { freshName, hold, stateOf, valuesOf } = require('../helpers/locks.js');

describe('4.4 Process a lock request queue', () => {
  it('grants shared requests together until the first exclusive one', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const modes = ['shared', 'shared', 'exclusive', 'shared', 'shared', 'shared', 'exclusive'];
    const waiting = modes.map((mode) => hold(locks, name, { mode }));
    await held.release();
    const steps = [];
    for (const batch of [
      waiting.slice(0, 2),
      waiting.slice(2, 3),
      waiting.slice(3, 6),
      waiting.slice(6),
    ]) {
      const locked = await Promise.all(batch);
      const { held: now, pending } = await stateOf(locks, name);
      steps.push([now.length, pending.length]);
      await Promise.all(locked.map((one) => one.release()));
    }
    assert.deepEqual(steps, [
      [2, 5],
      [1, 4],
      [3, 1],
      [1, 0],
    ]);
  });

  it('more grants at once than one call of the core hands over: all are called back, in order', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const order = [];
    const all = Array.from({ length: 1000 }, (_, i) =>
      locks.request(name, { mode: 'shared' }, () => order.push(i)),
    );
    await held.release();
    await Promise.all(all);
    assert.deepEqual(
      order,
      Array.from({ length: 1000 }, (_, i) => i),
    );
  });

  it('step 2.14: the callback runs in the AsyncLocalStorage context of its request()', async () => {
    const name = freshName();
    const storage = new AsyncLocalStorage();
    const read = () => storage.getStore();
    const immediate = storage.run('immediate', () => locks.request(freshName(), read));
    const held = await storage.run('holder', () => hold(locks, name));
    const pending = ['a', 'b'].map((context) =>
      storage.run(context, () => locks.request(name, read)),
    );
    const nothing = storage.run('null', () => locks.request(name, { ifAvailable: true }, read));
    const after = pending[0].then(() => storage.getStore());
    await storage.run('releaser', () => held.release());
    assert.equal(await immediate, 'immediate');
    assert.deepEqual(await Promise.all(pending), ['a', 'b']);
    assert.equal(await nothing, 'null');
    assert.equal(await after, undefined);
  });

  it('a callback that throws does not keep those behind it waiting', async () => {
    const name = freshName();
    const all = [1, 2, 3].map((i) =>
      locks.request(name, () => {
        throw i;
      }),
    );
    const outcomes = await Promise.allSettled(all);
    assert.deepEqual(valuesOf(outcomes, 'reason'), [1, 2, 3]);
  });
});
