// slow: 3

'use strict';

/** Who was robbed by another thread hears of it before its own sees that the name was granted since. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LockStolenError, openBucket } = require('../../lib/index.js');
const { startBeside } = require('../helpers/beside.js');
const { hold } = require('../helpers/locks.js');

/** Another thread steals "a" and gives it back, while this one is blocked: it has events then. */
function beRobbed(t, bucket) {
  const source = `
    const { locks } = require(library).openBucket(bucket);
    await locks.request('a', { steal: true }, () => {});
    say(1);`;
  startBeside(t, source, { bucket }).waitWhile(0);
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

describe('a lock that another thread stole and gave back', () => {
  for (const [name, way] of Object.entries(ways)) {
    for (const isTwice of [false, true]) {
      const how = isTwice ? `${name} through a bucket that is open twice` : name;
      it(`is no longer held when the next one is: ${how}`, async (t) => {
        const bucket = openBucket(`robbed ${how}`);
        const second = isTwice ? openBucket(`robbed ${how}`) : bucket;
        const robbed = await hold(bucket.locks, 'a');
        robbed.released.catch(() => {});
        beRobbed(t, `robbed ${how}`);
        assert.deepEqual(await way(second.locks, robbed.lock), [true, false]);
        await second.close();
        await bucket.close();
      });

      it(`serves no reentrant request: ${how}`, async (t) => {
        const bucket = openBucket(`robbed inside ${how}`);
        const second = isTwice ? openBucket(`robbed inside ${how}`) : bucket;
        const reentrant = { reentrant: true };
        let seen;
        const robbed = bucket.locks.request('a', reentrant, async (lock) => {
          beRobbed(t, `robbed inside ${how}`);
          seen = await way(second.locks, lock, reentrant);
        });
        await assert.rejects(robbed, LockStolenError);
        assert.deepEqual(seen, [true, false]);
        await second.close();
        await bucket.close();
      });
    }
  }

  it('nor when a request is granted that waited', async (t) => {
    const { locks } = openBucket('robbed while one waits');
    const robbed = await hold(locks, 'a');
    robbed.released.catch(() => {});
    const next = locks.request('a', () => robbed.lock.held);
    beRobbed(t, 'robbed while one waits');
    assert.equal(await next, false);
  });
});
