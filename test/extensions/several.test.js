// slow: 2

'use strict';

/** Several locks at once. programs.test.js tests their outcomes. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LockTimeoutError, locks } = require('../helpers/scope.js');
const { FREE, freshName, hold, notCalled, nothing } = require('../helpers/locks.js');
const { stateOf, timedOut, valuesOf } = require('../helpers/locks.js');

describe('locks.requestAll and locks.acquireAll', () => {
  it('give the locks in the order asked for, and release all of them', async () => {
    const [a, b] = [freshName('a'), freshName('b')];
    const names = [b, { name: a, mode: 'shared' }];
    const expected = [
      [b, 'exclusive'],
      [a, 'shared'],
    ];
    const work = (held) => valuesOf(held, 'name', 'mode');
    assert.deepEqual(await locks.requestAll(names, work), expected);
    const again = { reentrant: true };
    const inside = locks.request(b, again, () => locks.requestAll(names, again, work));
    assert.deepEqual(await inside, expected);
    for (const end of ['release', Symbol.dispose, Symbol.asyncDispose]) {
      const all = await locks.acquireAll(names);
      assert.deepEqual(work(all.locks), expected);
      await all[end]();
      await all.release();
      for (const name of [a, b]) assert.deepEqual(await stateOf(locks, name), FREE);
    }
  });

  it('reject what they cannot take', async () => {
    const call = (...given) => locks.requestAll(...given);
    await assert.rejects(call('name', nothing), TypeError);
    await assert.rejects(call(['x']), TypeError);
    await assert.rejects(call(['x'], {}), TypeError);
    await assert.rejects(call([{ name: 'x', mode: 'both' }], nothing), TypeError);
    await assert.rejects(call(['x', '-x'], nothing), { name: 'NotSupportedError' });
  });

  const inside = (a, work) => locks.request(a, { reentrant: true }, work);
  async function beside(a, work) {
    const reader = await hold(locks, a, { mode: 'shared', label: 'reader' });
    await work();
    await reader.release();
  }
  /** What else holds `a`, and how the locks are requested. */
  const cases = {
    'that is not granted': [(_, work) => work(), {}],
    'and not one that others share with it': [beside, { mode: 'shared' }],
    'and not one that they are inside of': [inside, { reentrant: true }],
  };
  for (const [title, [around, more]] of Object.entries(cases)) {
    it(`name in the error of a time limit the lock ${title}, and its holder`, async () => {
      for (const limit of [{ timeout: 0 }, { timeout: 300 }, { maxTotal: 300 }]) {
        const [a, b, c] = [freshName('a'), freshName('b'), freshName('c')];
        const held = await hold(locks, b, { label: 'blocker' });
        const options = { ...limit, ...more };
        await around(a, async () => {
          const error = await timedOut(() => locks.requestAll([a, b, c], options, notCalled));
          assert.ok(error instanceof LockTimeoutError, error.stack);
          assert.match(error.message, /^Timed out after [\d,]+ ms waiting for /);
          assert.deepEqual([error.lockName, error.holders[0]?.label], [b, 'blocker']);
        });
        await held.release();
        for (const name of [a, b, c]) assert.deepEqual(await stateOf(locks, name), FREE);
      }
    });
  }
});
