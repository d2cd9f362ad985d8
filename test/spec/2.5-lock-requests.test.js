'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks } = require('../helpers/scope.js');
const { freshName, hold, stateOf } = require('../helpers/locks.js');

const available = (name, mode) =>
  locks.request(name, { mode, ifAvailable: true }, (lock) => lock !== null);

describe('2.5 Lock requests: grantable', () => {
  it('step 7: a request behind another one in the queue is not grantable', async () => {
    const name = freshName();
    const reader = await hold(locks, name, { mode: 'shared' });
    const writer = hold(locks, name);
    assert.equal(await available(name, 'shared'), false);
    const late = hold(locks, name, { mode: 'shared' });
    const pending = ['exclusive', 'shared'];
    assert.deepEqual(await stateOf(locks, name), { held: ['shared'], pending });
    await reader.release();
    await (await writer).release();
    await (await late).release();
  });

  for (const [mode, isGrantable] of Object.entries({
    exclusive: { nothing: true, shared: false, exclusive: false },
    shared: { nothing: true, shared: true, exclusive: false },
  })) {
    const step = mode === 'exclusive' ? 8 : 9;
    it(`step ${step}: whether ${mode} requests are grantable depends on held locks`, async () => {
      const name = freshName();
      assert.equal(await available(name, mode), isGrantable.nothing);
      for (const other of ['shared', 'exclusive']) {
        const held = await hold(locks, name, { mode: other });
        assert.equal(await available(name, mode), isGrantable[other]);
        await held.release();
      }
      assert.equal(await available(name, mode), isGrantable.nothing);
    });
  }
});
