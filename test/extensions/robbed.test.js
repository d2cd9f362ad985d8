// slow: 3

'use strict';

/** A thread is notified of the theft of its lock before it can see a later grant of the name. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LockStolenError, needs, openBucket } = require('../helpers/scope.js');
const { startBeside } = require('../helpers/beside.js');
const { freshName, hold } = require('../helpers/locks.js');

/** Another thread steals and releases "a" while this one is blocked, so events are pending. */
function stealElsewhere(t, bucket) {
  const source = `
    const { locks } = require(scopes).scope.openBucket(bucket);
    await locks.request('a', { steal: true }, () => {});
    say(1);`;
  const scopes = require.resolve('../conformance/scopes.js');
  startBeside(t, source, { bucket, scopes }).waitWhile(0);
}

/** Ways to the next lock: each resolves to whether that is held, and whether the stolen one is. */
const ways = {
  request: (locks, stolen, more) =>
    locks.request('a', { ifAvailable: true, ...more }, (lock) => [lock !== null, stolen.held]),
  acquireSync: async (locks, stolen, more) => {
    const handle = locks.acquireSync('a', { timeout: 10_000, ...more });
    const seen = [handle.held, stolen.held];
    await handle.release();
    return seen;
  },
  tryAcquireSync: async (locks, stolen, more) => {
    const handle = locks.tryAcquireSync('a', more);
    const seen = [handle !== null, stolen.held];
    await handle?.release();
    return seen;
  },
};

/** @returns a bucket, and the same or another handle of it for the next lock */
async function setUp(t, isTwice) {
  const bucket = openBucket(freshName('stolen'));
  const second = isTwice ? openBucket(bucket.name) : bucket;
  t.after(() => Promise.all([bucket.close(), second.close()]));
  await Promise.all([bucket.ready, second.ready]);
  return { bucket, second };
}

describe('a lock that another thread stole and gave back', needs('sync'), () => {
  for (const [name, way] of Object.entries(ways)) {
    for (const isTwice of [false, true]) {
      const how = isTwice ? `${name} through a bucket that is open twice` : name;

      it(`is no longer held when the next one is: ${how}`, async (t) => {
        const { bucket, second } = await setUp(t, isTwice);
        const stolen = await hold(bucket.locks, 'a');
        stolen.released.catch(() => {});
        stealElsewhere(t, bucket.name);
        assert.deepEqual(await way(second.locks, stolen.lock), [true, false]);
      });

      it(`serves no reentrant request: ${how}`, async (t) => {
        const { bucket, second } = await setUp(t, isTwice);
        const reentrant = { reentrant: true };
        let seen;
        const stolen = bucket.locks.request('a', reentrant, async (lock) => {
          stealElsewhere(t, bucket.name);
          seen = await way(second.locks, lock, reentrant);
        });
        await assert.rejects(stolen, LockStolenError);
        assert.deepEqual(seen, [true, false]);
      });
    }
  }

  it('is no longer held when a request is granted that waited', async (t) => {
    const { bucket } = await setUp(t, false);
    const stolen = await hold(bucket.locks, 'a');
    stolen.released.catch(() => {});
    const next = bucket.locks.request('a', () => stolen.lock.held);
    stealElsewhere(t, bucket.name);
    assert.equal(await next, false);
  });

  it('is lost to a once() that asks for the mark after that', async (t) => {
    const { bucket } = await setUp(t, false);
    const done = bucket.locks.once('a', { keep: 3_600_000 }, () => {});
    stealElsewhere(t, bucket.name);
    await assert.rejects(done, LockStolenError);
    assert.equal(await bucket.locks.request('a', ({ name }) => name), 'a');
  });
});
