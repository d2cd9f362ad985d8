'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Lock, locks, openBucket, needs } = require('../helpers/scope.js');
const { freshName } = require('../helpers/locks.js');

const tokenOf = (name, options) => locks.request(name, { ...options }, (lock) => lock.token);

describe('lock.token', () => {
  it('is a bigint that grows with every grant of a name, also after nobody held it', async () => {
    const name = freshName();
    const tokens = [];
    for (let i = 0; i < 3; i++) tokens.push(await tokenOf(name));
    assert.equal(typeof tokens[0], 'bigint');
    assert.ok(tokens[0] > 0n && tokens[0] < tokens[1] && tokens[1] < tokens[2], String(tokens));
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
