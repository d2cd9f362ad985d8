'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks } = require('../helpers/scope.js');
const { freshName, hold, stateOf } = require('../helpers/locks.js');

describe('2.3 Modes and scheduling', () => {
  it('the default mode is exclusive', async () => {
    assert.equal(await locks.request(freshName(), (lock) => lock.mode), 'exclusive');
    assert.equal(await locks.request(freshName(), {}, (lock) => lock.mode), 'exclusive');
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
});
