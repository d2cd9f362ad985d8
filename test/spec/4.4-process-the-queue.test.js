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
    for (const [from, to] of [
      [0, 2],
      [2, 3],
      [3, 6],
      [6, 7],
    ]) {
      const locked = await Promise.all(waiting.slice(from, to));
      const { held: now, pending } = await stateOf(locks, name);
      assert.deepEqual([now, pending], [modes.slice(from, to), modes.slice(to)]);
      await Promise.all(locked.map(({ release }) => release()));
    }
  });

  /** More than one call of the core hands over. */
  const COUNT = 1000;

  for (const mode of ['shared', 'exclusive']) {
    it(`calls back in the order of the requests, even if a callback throws: ${mode}`, async () => {
      const name = freshName();
      const held = await hold(locks, name);
      const numbers = Array.from({ length: COUNT }, (_, i) => i);
      const order = [];
      const all = numbers.map((i) =>
        locks.request(name, { mode }, () => {
          order.push(i);
          throw i;
        }),
      );
      await held.release();
      assert.deepEqual(valuesOf(await Promise.allSettled(all), 'reason'), numbers);
      assert.deepEqual(order, numbers);
    });
  }

  it('requests that are made inside a callback wait behind those that are queued', async () => {
    const name = freshName();
    const order = [];
    let inner;
    const outer = locks.request(name, () => {
      inner = locks.request(name, () => order.push('inner'));
    });
    await Promise.all([outer, locks.request(name, () => order.push('queued'))]);
    await inner;
    assert.deepEqual(order, ['queued', 'inner']);
  });

  it('step 2.14: the callback runs in the AsyncLocalStorage context of its request()', async () => {
    const name = freshName();
    const storage = new AsyncLocalStorage();
    const ask = (context, on, options = {}) =>
      storage.run(context, () => locks.request(on, options, () => storage.getStore()));
    const immediate = ask('immediate', freshName());
    const held = await storage.run('holder', () => hold(locks, name));
    const pending = ['a', 'b'].map((context) => ask(context, name));
    const unavailable = ask('null', name, { ifAvailable: true });
    const after = pending[0].then(() => storage.getStore());
    await storage.run('releaser', () => held.release());
    const all = await Promise.all([immediate, ...pending, unavailable, after]);
    assert.deepEqual(all, ['immediate', 'a', 'b', 'null', undefined]);
  });
});
