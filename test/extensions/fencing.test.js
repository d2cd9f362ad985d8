'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Lock, locks, openBucket, turn, needs } = require('../helpers/scope.js');
const { freshName, hold } = require('../helpers/locks.js');

const tokenOf = (name, options) => locks.request(name, { ...options }, (lock) => lock.token);

describe('lock.token', () => {
  it('is a bigint that grows with every grant of a name, also after nobody held it', async () => {
    const name = freshName();
    const tokens = [];
    for (let i = 0; i < 3; i++) tokens.push(await tokenOf(name));
    assert.equal(typeof tokens[0], 'bigint');
    assert.ok(tokens[0] > 0n && tokens[0] < tokens[1] && tokens[1] < tokens[2], String(tokens));
  });

  it('grows in the order in which requests were granted that had to wait', async () => {
    const name = freshName();
    const first = await hold(locks, name);
    const waiting = [1, 2, 3].map(() => tokenOf(name, { mode: 'shared' }));
    await turn();
    await first.release();
    const tokens = await Promise.all(waiting);
    assert.deepEqual(tokens, tokens.toSorted?.((a, b) => (a < b ? -1 : 1)) ?? tokens);
    assert.ok(tokens[0] > first.lock.token);
  });

  it('of a thief is greater than that of who was robbed, which stays', async () => {
    const name = freshName();
    const robbed = await hold(locks, name);
    robbed.released.catch(() => {});
    const { token } = robbed.lock;
    const thief = await hold(locks, name, { steal: true });
    assert.ok(thief.lock.token > token);
    assert.equal(robbed.lock.token, token);
    await thief.release();
  });

  it('is that of handles, too', async () => {
    const name = freshName();
    const one = await locks.acquire(name);
    const { token } = one;
    one.release();
    const two = await locks.acquire(name);
    assert.ok(two.token > token);
    two.release();
    assert.ok(two.token > token);
  });

  it('is that of handles that were acquired synchronously', needs('sync'), async () => {
    const name = freshName();
    const one = await locks.acquire(name);
    const { token } = one;
    one.release();
    const two = locks.tryAcquireSync(name);
    assert.ok(two.token > token);
    two.release();
    const three = locks.acquireSync(name, { timeout: 10 });
    assert.ok(three.token > two.token);
    three.release();
    assert.ok(three.token > two.token);
  });

  it('goes on in a bucket that was closed and opened anew', async () => {
    const bucket = freshName();
    const ask = () => openBucket(bucket).locks.request('a', (lock) => lock.token);
    const first = await ask();
    assert.ok((await ask()) > first);
  });

  it('throws a TypeError for what is no lock', () => {
    const { get } = Object.getOwnPropertyDescriptor(Lock.prototype, 'token');
    assert.throws(() => get.call({}), TypeError);
  });
});
