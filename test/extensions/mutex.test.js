'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LockError, Mutex, RWLock, locks, openBucket } = require('../../lib/index.js');
const { freshName, hold, turn } = require('../helpers/locks.js');

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

describe('Mutex, the trial programs of the article', () => {
  const seq = [...new Array(10)].map((_, i) => i);

  async function push(array, x) {
    await sleep(Math.random() * 10);
    array.push(x);
  }

  it('5: with the lock, what is called first is done first', async () => {
    const lock = new Mutex();
    const b = [];
    await Promise.all(seq.map((x) => lock.runExclusive(() => push(b, x))));
    assert.deepEqual(b, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it('7: without blocking only the first gets it', async () => {
    const lock = new Mutex();
    const a = [];
    const settled = await Promise.allSettled(
      seq.map((x) => lock.runExclusive(() => push(a, x), { blocking: false })),
    );
    assert.deepEqual(a, [0]);
    assert.equal(settled.filter(({ reason }) => reason instanceof LockError).length, 9);
  });

  it('7: with a timeout the first ones get it, in order, and the others do not', async () => {
    const lock = new Mutex();
    const b = [];
    const release = await lock.acquire();
    const all = Promise.allSettled(
      seq.map((x) => lock.runExclusive(() => push(b, x), { timeout: 1e6 })),
    );
    const late = lock.runExclusive(() => push(b, 'late'), { timeout: 5 });
    await assert.rejects(late, LockError);
    release();
    await all;
    assert.deepEqual(b, seq);
  });

  it('8: gives the result of the callback', async () => {
    const lock = new Mutex();
    const answer = await lock.runExclusive(async () => 42, { blocking: true, timeout: 500 });
    assert.equal(answer, 42);
  });
});

describe('Mutex', () => {
  it('acquire resolves to the function that releases it; twice is harmless', async () => {
    const mutex = new Mutex();
    const release = await mutex.acquire();
    assert.equal(mutex.locked, true);
    const second = mutex.acquire();
    release();
    release();
    const releaseSecond = await second;
    release();
    assert.equal(mutex.locked, true);
    releaseSecond();
    assert.equal(mutex.locked, false);
  });

  it('an error of the callback rejects and releases', async () => {
    const mutex = new Mutex();
    const fail = () => {
      throw new Error('callback');
    };
    await assert.rejects(mutex.runExclusive(fail), { message: 'callback' });
    assert.equal(mutex.locked, false);
    await assert.rejects(mutex.runExclusive('no function'), TypeError);
    await assert.rejects(mutex.acquire({ timeout: -1 }), TypeError);
  });

  it('without a name each is its own, and not to be seen in locks.query()', async () => {
    const [one, other] = [new Mutex(), new Mutex()];
    const releases = [await one.acquire(), await other.acquire()];
    assert.deepEqual((await locks.query()).held, []);
    for (const release of releases) release();
  });

  it('a reserved name is refused', () => {
    assert.throws(() => new Mutex('-x'), { name: 'NotSupportedError' });
    assert.throws(() => new RWLock('-x'), { name: 'NotSupportedError' });
  });

  it('with a name it is the lock of that name', async () => {
    const name = freshName();
    const mutex = new Mutex(name);
    const held = await hold(locks, name);
    assert.equal(mutex.locked, true);
    assert.equal(new Mutex(name, { bucket: 'other' }).locked, false);
    await held.release();
    const bucket = openBucket('of a mutex');
    const release = await new Mutex(name, { bucket }).acquire();
    assert.equal((await bucket.locks.query()).held[0].name, name);
    release();
  });
});

describe('RWLock', () => {
  it('readers share it, writers do not', async () => {
    const lock = new RWLock();
    assert.equal(lock.locked, null);
    const readers = [await lock.acquireShared(), await lock.acquireShared()];
    assert.equal(lock.locked, 'shared');
    await assert.rejects(lock.acquireExclusive({ blocking: false }), LockError);
    const writer = lock.runExclusive(() => lock.locked);
    for (const release of readers) release();
    assert.equal(await writer, 'exclusive');
    assert.equal(await lock.runShared(() => lock.locked), 'shared');
    await turn();
    assert.equal(lock.locked, null);
  });
});
