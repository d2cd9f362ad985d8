// slow: 3

'use strict';

/** A robbed thread hears of the theft before it sees that the name was granted since. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LockStolenError, needs, openBucket } = require('../helpers/scope.js');
const { startBeside } = require('../helpers/beside.js');
const { freshName, hold } = require('../helpers/locks.js');

/** Another thread steals "a" and gives it back, while this one is blocked: it has events then. */
function beRobbed(t, bucket) {
  const source = `
    const { locks } = require(scopes).scope.openBucket(bucket);
    await locks.request('a', { steal: true }, () => {});
    say(1);`;
  const scopes = require.resolve('../conformance/scopes.js');
  startBeside(t, source, { bucket, scopes }).waitWhile(0);
}

/** The ways to the next lock: each resolves to whether it is held, and whether `robbed` is. */
const ways = {
  request: (locks, robbed, more) =>
    locks.request('a', { ifAvailable: true, ...more }, (lock) => [lock !== null, robbed.held]),
  acquireSync: async (locks, robbed, more) => {
    const handle = locks.acquireSync('a', { timeout: 10_000, ...more });
    const seen = [handle.held, robbed.held];
    await handle.release();
    return seen;
  },
  tryAcquireSync: async (locks, robbed, more) => {
    const handle = locks.tryAcquireSync('a', more);
    const seen = [handle !== null, robbed.held];
    await handle?.release();
    return seen;
  },
};

/** A bucket, and what a way goes through: the same, or another opening. */
async function setUp(t, isTwice) {
  const bucket = openBucket(freshName('robbed'));
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
        const robbed = await hold(bucket.locks, 'a');
        robbed.released.catch(() => {});
        beRobbed(t, bucket.name);
        assert.deepEqual(await way(second.locks, robbed.lock), [true, false]);
      });

      it(`serves no reentrant request: ${how}`, async (t) => {
        const { bucket, second } = await setUp(t, isTwice);
        const reentrant = { reentrant: true };
        let seen;
        const robbed = bucket.locks.request('a', reentrant, async (lock) => {
          beRobbed(t, bucket.name);
          seen = await way(second.locks, lock, reentrant);
        });
        await assert.rejects(robbed, LockStolenError);
        assert.deepEqual(seen, [true, false]);
      });
    }
  }

  it('is no longer held when a request is granted that waited', async (t) => {
    const { bucket } = await setUp(t, false);
    const robbed = await hold(bucket.locks, 'a');
    robbed.released.catch(() => {});
    const next = bucket.locks.request('a', () => robbed.lock.held);
    beRobbed(t, bucket.name);
    assert.equal(await next, false);
  });
});
