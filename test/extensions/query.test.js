'use strict';

/** query({ name }), isBusy and lock.token. programs.test.js and the model test that tokens grow. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Lock, locks, openBucket } = require('../helpers/scope.js');
const { FREE, freshName, hold, valuesOf } = require('../helpers/locks.js');

describe('query({ name }) and isBusy(name)', () => {
  it('tell what is on that name, in its order, and nothing else', async () => {
    const [name, other] = [freshName(), freshName()];
    const elsewhere = await hold(locks, other);
    assert.equal(await locks.isBusy(name), false);
    const held = await hold(locks, name, { mode: 'shared' });
    assert.equal(await locks.isBusy(name), true);
    const waiting = [hold(locks, name), hold(locks, name, { mode: 'shared' })];
    const state = await locks.query({ name });
    assert.deepEqual(valuesOf(state.held, 'name', 'mode'), [[name, 'shared']]);
    assert.deepEqual(valuesOf(state.pending, 'name', 'mode'), [
      [name, 'exclusive'],
      [name, 'shared'],
    ]);
    await held.release();
    for (const one of waiting) await (await one).release();
    assert.deepEqual(await locks.query({ name }), FREE);
    assert.equal(await locks.isBusy(name), false);
    await elsewhere.release();
  });

  it('convert the name, and reject what cannot be converted', async () => {
    const held = await hold(locks, '7');
    assert.equal((await locks.query({ name: 7 })).held.length, 1);
    assert.equal(await locks.isBusy(7), true);
    await held.release();
    await assert.rejects(locks.query({ name: Symbol('x') }), TypeError);
    await assert.rejects(locks.isBusy(), TypeError);
    await assert.rejects(locks.isBusy(Symbol('name')), TypeError);
    await assert.rejects(locks.isBusy.call({}, 'name'), TypeError);
  });
});

describe('lock.token', () => {
  it('goes on in a bucket that was closed and opened anew', async () => {
    const bucket = freshName();
    const ask = () => openBucket(bucket).locks.request('a', (lock) => lock.token);
    const first = await ask();
    assert.ok(typeof first === 'bigint' && first > 0n && (await ask()) > first);
  });

  it('throws a TypeError for what is no lock', () => {
    const { get } = Object.getOwnPropertyDescriptor(Lock.prototype, 'token');
    assert.throws(() => get.call({}), TypeError);
  });
});
