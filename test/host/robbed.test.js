// slow: 3

'use strict';

/** A robbed thread hears of the theft before it sees that the name was granted since. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { LockLostError, LockStolenError, openBucket } = require('../../lib/host.js');
const { hold, nothing } = require('../helpers/locks.js');
const { freshBucket } = require('../helpers/process.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

const THIEF = `
  const { openBucket } = require(${JSON.stringify(require.resolve('../../lib/host.js'))});
  const { bucket, directory } = JSON.parse(process.argv[1]);
  openBucket(bucket, { directory }).locks.request('a', { steal: true }, () => {});
`;

/** Another process steals "a" and gives it back, while this thread is blocked: it has mail then. */
function beRobbed(where) {
  execFileSync(process.execPath, ['-e', THIEF, JSON.stringify(where)], { stdio: 'inherit' });
}

const seenBy = (robbed) => (lock) => [Boolean(lock?.held), robbed.held];

/** Does as a request does with a handle. */
async function releaseAt(handle, see) {
  const seen = see(handle);
  await handle?.release();
  return seen;
}

/** The ways to the next lock, and whether a reentrant request can take them. */
const ways = {
  'a request that is granted at once': [
    (locks, see, more) => locks.request('a', { ifAvailable: true, ...more }, see),
    true,
  ],
  'a request that is made later': [
    (locks, see) => {
      locks.query().catch(nothing);
      return locks.request('a', see);
    },
  ],
  'a theft that is made later': [
    (locks, see) => {
      locks.query().catch(nothing);
      return locks.request('a', { steal: true }, see);
    },
  ],
  acquireSync: [
    (locks, see, more) => releaseAt(locks.acquireSync('a', { timeout: 10_000, ...more }), see),
    true,
  ],
  tryAcquireSync: [(locks, see, more) => releaseAt(locks.tryAcquireSync('a', more), see), true],
};

describe('a lock that another process stole and gave back', { skip }, () => {
  for (const [name, [way, isReentrant]] of Object.entries(ways)) {
    for (const how of ['', ', through a bucket that is open twice']) {
      it(`is no longer held when the next one is: ${name}${how}`, async (t) => {
        const { locks, where } = freshBucket(t);
        const robbed = await hold(locks, 'a');
        robbed.released.catch(nothing);
        const second = openBucket(where.bucket, { directory: where.directory });
        await second.ready;
        beRobbed(where);
        const seen = await way(how ? second.locks : locks, seenBy(robbed.lock));
        assert.deepEqual(seen, [true, false]);
        await second.close();
      });
    }

    if (!isReentrant) continue;
    it(`serves no reentrant request: ${name}`, async (t) => {
      const { locks, where } = freshBucket(t);
      const reentrant = { reentrant: true };
      let seen;
      const robbed = locks.request('a', reentrant, async (lock) => {
        beRobbed(where);
        seen = await way(locks, seenBy(lock), reentrant);
      });
      await assert.rejects(robbed, LockStolenError);
      assert.deepEqual(seen, [true, false]);
    });
  }
});

describe('a theft, and the grant of a request that waited, of which a thread has not heard', {
  skip,
}, () => {
  async function setUp(t, options = {}) {
    const { bucket, locks, where } = freshBucket(t);
    const robbed = await hold(locks, 'a');
    const seen = [];
    const next = locks.request('a', options, () => seen.push(robbed.lock.held));
    beRobbed(where);
    return { bucket, locks, where, robbed, next, seen };
  }

  it('are announced in their order, also if the robbed lock is released', async (t) => {
    for (const isReleased of [false, true]) {
      const { robbed, next, seen } = await setUp(t);
      if (isReleased) robbed.release();
      await assert.rejects(robbed.released, LockStolenError);
      await next;
      assert.deepEqual(seen, [false]);
    }
  });

  it('leave nothing behind if the request is aborted', async (t) => {
    const controller = new AbortController();
    const { locks, robbed, next, seen } = await setUp(t, { signal: controller.signal });
    controller.abort('no');
    await assert.rejects(next, (error) => error === 'no');
    await assert.rejects(robbed.released, LockStolenError);
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
    assert.deepEqual(seen, []);
  });

  it('end with the bucket if that is closed', async (t) => {
    const { bucket, where, robbed, next } = await setUp(t);
    const settled = Promise.allSettled([robbed.released, next]);
    await bucket.close();
    const [stolen, granted] = await settled;
    assert.ok(stolen.reason instanceof LockStolenError);
    assert.ok(granted.reason instanceof LockLostError);
    const again = openBucket(where.bucket, { directory: where.directory });
    assert.deepEqual(await again.locks.query(), { held: [], pending: [] });
    await again.close();
  });
});
