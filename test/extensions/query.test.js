'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks } = require('../helpers/scope.js');
const { FREE, freshName, hold } = require('../helpers/locks.js');

describe('query({ name })', () => {
  it('has what is on that name, in its order, and nothing else', async () => {
    const [name, other] = [freshName(), freshName()];
    const elsewhere = await hold(locks, other);
    const held = await hold(locks, name, { mode: 'shared' });
    const waiting = [hold(locks, name), hold(locks, name, { mode: 'shared' })];
    const state = await locks.query({ name });
    const key = ({ name: on, mode, clientId }) => [on, mode, typeof clientId];
    assert.deepEqual(state.held.map(key), [[name, 'shared', 'string']]);
    assert.deepEqual(state.pending.map(key), [
      [name, 'exclusive', 'string'],
      [name, 'shared', 'string'],
    ]);
    await held.release();
    for (const one of waiting) await (await one).release();
    await elsewhere.release();
    assert.deepEqual(await locks.query({ name }), FREE);
  });

  it('converts the name, and rejects what cannot be converted', async () => {
    const held = await hold(locks, '7');
    assert.equal((await locks.query({ name: 7 })).held.length, 1);
    await held.release();
    await assert.rejects(locks.query({ name: Symbol('x') }), TypeError);
  });
});

describe('isBusy', () => {
  it('tells whether a name is held or waited for', async () => {
    const name = freshName();
    assert.equal(await locks.isBusy(name), false);
    const held = await hold(locks, name, { mode: 'shared' });
    assert.equal(await locks.isBusy(name), true);
    assert.equal(await locks.isBusy(freshName()), false);
    await held.release();
    assert.equal(await locks.isBusy(name), false);
  });

  it('rejects what is no name, and what is no lock manager', async () => {
    await assert.rejects(locks.isBusy(), TypeError);
    await assert.rejects(locks.isBusy(Symbol('name')), TypeError);
    await assert.rejects(locks.isBusy.call({}, 'name'), TypeError);
  });
});
