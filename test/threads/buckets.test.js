'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LockManager, locks, openBucket } = require('../../lib/index.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

describe('2.2, 6.1 Storage buckets', () => {
  it('openBucket gives the name and a lock manager', () => {
    const name = freshName('bucket');
    const bucket = openBucket(name);
    assert.deepEqual(Object.keys(bucket), ['name', 'locks']);
    assert.equal(bucket.name, name);
    assert.ok(bucket.locks instanceof LockManager);
    assert.notEqual(bucket.locks, locks);
  });

  it('converts its name as a DOMString; a Symbol, or nothing, is a TypeError', () => {
    assert.equal(openBucket(7).name, '7');
    assert.throws(() => openBucket(Symbol('bucket')), TypeError);
    assert.throws(() => openBucket(), TypeError);
  });

  it('locks of one bucket neither block nor show in another', async () => {
    const name = freshName();
    const managers = [locks, openBucket(freshName('a')).locks, openBucket(freshName('b')).locks];
    const held = await Promise.all(managers.map((manager) => hold(manager, name)));
    for (const manager of managers) {
      assert.deepEqual(await stateOf(manager, name), { held: ['exclusive'], pending: [] });
    }
    await Promise.all(held.map((one) => one.release()));
  });

  it('no bucket name opens the default bucket', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    for (const bucket of ['', 'default', 'bucket:', 'undefined', '\0', '-']) {
      assert.deepEqual(await stateOf(openBucket(bucket).locks, name), FREE, bucket);
    }
    await held.release();
  });

  it('the same name opens the same bucket, in one thread', async () => {
    const bucket = freshName('bucket');
    const [one, other] = [openBucket(bucket).locks, openBucket(bucket).locks];
    const name = freshName();
    const held = await hold(one, name);
    assert.equal(await other.request(name, { ifAvailable: true }, (lock) => lock), null);
    await held.release();
  });

  it('the same name opens the same bucket, in all threads', async (t) => {
    const bucket = freshName('bucket');
    const remote = await RemoteAgent.start(t, { bucket });
    const name = freshName();
    const there = await remote.hold(name);
    const { locks: mine } = openBucket(bucket);
    assert.deepEqual(await stateOf(mine, name), { held: ['exclusive'], pending: [] });
    assert.deepEqual(await stateOf(locks, name), FREE);
    const here = hold(mine, name);
    await remote.end('terminate');
    await (await here).release();
    void there;
  });

  it('a bucket keeps its locks while nobody refers to its manager', async () => {
    const bucket = freshName('bucket');
    const name = freshName();
    const held = await hold(openBucket(bucket).locks, name);
    require('node:v8').setFlagsFromString('--expose-gc');
    const gc = require('node:vm').runInNewContext('gc');
    for (let i = 0; i < 3; i++) {
      gc();
      await new Promise(setImmediate);
    }
    assert.deepEqual(await stateOf(openBucket(bucket).locks, name), {
      held: ['exclusive'],
      pending: [],
    });
    await held.release();
    assert.deepEqual(await stateOf(openBucket(bucket).locks, name), FREE);
  });
});
