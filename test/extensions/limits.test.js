'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LockError, LockQueueFullError, Mutex, locks } = require('../helpers/scope.js');
const { FREE, freshName, hold, nothing, stateOf, valuesOf } = require('../helpers/locks.js');

describe('the option maxPending', () => {
  it('rejects with a LockQueueFullError if so many requests wait', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const waiting = [1, 2].map(() => locks.request(name, { maxPending: 2 }, () => 'done'));
    const refused = locks.request(name, { maxPending: 2 }, () => assert.fail('called'));
    const error = await refused.catch((reason) => reason);
    assert.ok(error instanceof LockQueueFullError && error instanceof LockError);
    assert.ok(error instanceof DOMException);
    assert.equal(error.name, 'QuotaExceededError');
    assert.equal(error.lockName, name);
    assert.equal(error.maxPending, 2);
    assert.equal((await stateOf(locks, name)).pending.length, 2);
    await held.release();
    assert.deepEqual(await Promise.all(waiting), ['done', 'done']);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('of 0 refuses what would have to wait, and nothing else', async () => {
    const name = freshName();
    const held = await hold(locks, name, { maxPending: 0 });
    await assert.rejects(locks.request(name, { maxPending: 0 }, nothing), LockQueueFullError);
    const now = { maxPending: 0, timeout: 0 };
    const ifAvailable = { maxPending: 0, ifAvailable: true };
    const timeout = { name: 'TimeoutError' };
    assert.equal(await locks.request(name, ifAvailable, (lock) => lock), null);
    assert.equal(await locks.requestAll([name], ifAvailable, (all) => all), null);
    assert.equal(await new Mutex(name).tryAcquire({ maxPending: 0 }), null);
    await assert.rejects(new Mutex(name).acquire({ maxPending: 0, blocking: false }), {
      name: 'LockError',
    });
    await assert.rejects(locks.acquire(name, now), timeout);
    await assert.rejects(locks.acquireAll([name], now), timeout);
    await assert.rejects(new Mutex(name).waitForUnlock(now), timeout);
    const thief = await locks.acquire(name, { maxPending: 0, steal: true });
    await assert.rejects(held.released, { name: 'AbortError' });
    await thief.release();
  });

  for (const value of [-1, 0.5, 2 ** 31, Number.NaN, '1', null]) {
    it(`of ${typeof value} ${value} is a TypeError`, async () => {
      await assert.rejects(locks.request(freshName(), { maxPending: value }, nothing), {
        name: 'TypeError',
        message: /The 'maxPending' option/,
      });
    });
  }
});

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

  it('has details if asked for them', async () => {
    const name = freshName();
    const held = await hold(locks, name, { label: 'holder' });
    const waiting = [hold(locks, name, { label: 'one' }), hold(locks, name, { label: 'two' })];
    const state = await locks.query({ name, details: true });
    assert.deepEqual(valuesOf(state.held, 'label'), ['holder']);
    assert.deepEqual(
      state.pending.map(({ label, ahead, blockedBy }) => [label, ahead, blockedBy[0].label]),
      [
        ['one', 0, 'holder'],
        ['two', 1, 'holder'],
      ],
    );
    await held.release();
    for (const one of waiting) await (await one).release();
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
