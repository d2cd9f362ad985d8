'use strict';

/** Calls of the host scope that are answered later: what comes after a query() waits for that. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LockLostError, LockStolenError } = require('../../lib/host.js');
const { hold } = require('../helpers/locks.js');
const { freshBucket } = require('../helpers/process.js');

const skip = process.platform === 'linux' ? false : 'the host scope is for Linux so far';

describe('a call that comes after one that is not answered yet', { skip }, () => {
  it('release() is done later, and the lock goes to the next in line', async (t) => {
    const { locks } = freshBucket(t);
    let later = 0;
    for (let i = 0; i < 100; i++) {
      const handle = await locks.acquire('a');
      const next = locks.request('a', (lock) => lock.name);
      const before = locks.query();
      const released = handle.release();
      if (released instanceof Promise) later++;
      assert.equal(handle.released, true);
      await released;
      assert.equal((await before).held.length, 1);
      assert.equal(await next, 'a');
    }
    // The helper may have answered meanwhile.
    t.diagnostic?.(`${later} of 100 were done later`);
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });

  it('the promise of request() settles after the release', async (t) => {
    const { locks } = freshBucket(t);
    let before;
    const value = await locks.request('a', () => {
      before = locks.query();
      return 'done';
    });
    assert.equal(value, 'done');
    assert.deepEqual((await before).held.length, 1);
    assert.notEqual(await locks.request('a', { ifAvailable: true }, (lock) => lock), null);
  });

  it('requests are made and answered in their order', async (t) => {
    const { locks } = freshBucket(t);
    const order = [];
    const note = (what) => (lock) => order.push(lock ? what : `no ${what}`);
    const all = [
      locks.query(),
      locks.request('a', note('first')),
      locks.request('a', { ifAvailable: true }, note('second')),
      locks.request('a', note('third')),
    ];
    await Promise.all(all);
    assert.deepEqual([...order].sort(), ['first', 'no second', 'third']);
    assert.ok(order.indexOf('first') < order.indexOf('third'));
  });

  it('a limit and maxPending are answered, too', async (t) => {
    const { locks } = freshBucket(t);
    const held = await hold(locks, 'a', { mode: 'shared', limit: 2 });
    const alone = await hold(locks, 'b');
    locks.query();
    await Promise.all([
      assert.rejects(
        locks.request('a', { mode: 'shared', limit: 3 }, () => {}),
        { name: 'TypeError', message: /limit 3.*limit 2/ },
      ),
      assert.rejects(
        locks.request('b', { maxPending: 0 }, () => {}),
        { name: 'QuotaExceededError' },
      ),
    ]);
    await held.release();
    await alone.release();
  });

  it('an abort takes it back before it was made', async (t) => {
    const { locks } = freshBucket(t);
    const controller = new AbortController();
    const before = locks.query();
    const asked = locks.request('a', { signal: controller.signal }, () => 'held');
    controller.abort('no');
    await assert.rejects(asked, (error) => error === 'no');
    await before;
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });

  it('a theft is told to whoever was robbed', async (t) => {
    const { locks } = freshBucket(t);
    const held = await hold(locks, 'a');
    const lost = assert.rejects(held.released, LockStolenError);
    locks.query();
    assert.equal(await locks.request('a', { steal: true }, (lock) => lock.name), 'a');
    await lost;
  });

  it('close() ends a release that is not done, and what waits', async (t) => {
    const { bucket, locks } = freshBucket(t);
    const handle = await locks.acquire('a');
    const held = await hold(locks, 'b');
    const lost = assert.rejects(held.released, LockLostError);
    const asked = assert.rejects(locks.query(), { name: 'InvalidStateError' });
    const pending = assert.rejects(
      locks.request('b', () => {}),
      { name: 'InvalidStateError' },
    );
    const released = handle.release();
    await bucket.close();
    await Promise.all([released, lost, asked, pending]);
  });

  it('acquireSync waits for its turn', async (t) => {
    const { locks } = freshBucket(t);
    const before = locks.query();
    const handle = locks.acquireSync('a', { timeout: 10_000 });
    assert.equal(handle.held, true);
    await before;
    await handle.release();
  });
});

/** What ends a test that waits for ever; far more than it needs. */
const LIMIT = { timeout: 60_000 };

describe('many at once', { skip }, () => {
  it('more events than one call hands over are all told', async (t) => {
    const { locks } = freshBucket(t);
    const count = 1000;
    const held = await hold(locks, 'gate');
    let granted = 0;
    const all = [];
    for (let i = 0; i < count; i++) {
      all.push(locks.request('gate', { mode: 'shared' }, () => granted++));
    }
    await held.release();
    await Promise.all(all);
    assert.equal(granted, count);
  });

  // As many as nearly fill the file, which holds a power of two of cells.
  for (const count of [230, 250, 480, 500]) {
    it(`${count} grants by one release are all told, without anything else`, LIMIT, async (t) => {
      const { locks } = freshBucket(t);
      const held = await hold(locks, 'a');
      const never = [];
      const granted = Array.from(
        { length: count },
        () =>
          new Promise((resolve) => {
            const callback = () => {
              resolve();
              return new Promise((release) => never.push(release));
            };
            locks.request('a', { mode: 'shared' }, callback).catch(() => {});
          }),
      );
      await locks.query();
      await held.release();
      await Promise.all(granted);
      assert.equal(never.length, count);
    });
  }

  it('more requests than the first file has room for', async (t) => {
    const { locks } = freshBucket(t);
    const all = [];
    let release;
    const end = new Promise((resolve) => {
      release = resolve;
    });
    for (let i = 0; i < 5000; i++) all.push(locks.request(`name ${i}`, () => end));
    assert.equal((await locks.query()).held.length, 5000);
    release();
    await Promise.all(all);
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });
});
