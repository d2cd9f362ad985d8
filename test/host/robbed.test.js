// slow: 3

'use strict';

/** Who was robbed hears of it before its thread sees that the name was granted since. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { LockLostError, LockStolenError, openBucket } = require('../../lib/host.js');
const { hold } = require('../helpers/locks.js');
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

/** The ways to the next lock: each resolves to whether `robbed` was held when it was granted. */
const ways = {
  'a request that is granted at once': (locks, robbed, more) =>
    locks.request('a', { ifAvailable: true, ...more }, (lock) => [lock !== null, robbed.held]),
  'a request that is made later': (locks, robbed) => {
    locks.query().catch(() => {});
    return locks.request('a', () => [true, robbed.held]);
  },
  'a theft that is made later': (locks, robbed) => {
    locks.query().catch(() => {});
    return locks.request('a', { steal: true }, () => [true, robbed.held]);
  },
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

describe('a lock that another process stole and gave back', { skip }, () => {
  for (const [name, way] of Object.entries(ways)) {
    it(`is no longer held when the next one is: ${name}`, async (t) => {
      const { locks, where } = freshBucket(t);
      const robbed = await hold(locks, 'a');
      robbed.released.catch(() => {});
      beRobbed(where);
      assert.deepEqual(await way(locks, robbed.lock), [true, false]);
    });

    it(`nor when the bucket was opened a second time for that: ${name}`, async (t) => {
      const { locks, where } = freshBucket(t);
      const second = openBucket(where.bucket, { directory: where.directory });
      const robbed = await hold(locks, 'a');
      robbed.released.catch(() => {});
      await second.ready;
      beRobbed(where);
      assert.deepEqual(await way(second.locks, robbed.lock), [true, false]);
      await second.close();
    });
  }

  for (const name of ['a request that is granted at once', 'acquireSync', 'tryAcquireSync']) {
    it(`serves no reentrant request: ${name}`, async (t) => {
      const { locks, where } = freshBucket(t);
      const reentrant = { reentrant: true };
      let seen;
      const robbed = locks.request('a', reentrant, async (lock) => {
        beRobbed(where);
        seen = await ways[name](locks, lock, reentrant);
      });
      await assert.rejects(robbed, LockStolenError);
      assert.deepEqual(seen, [true, false]);
    });
  }

  it('nor when a request is granted that waited', async (t) => {
    const { locks, where } = freshBucket(t);
    const robbed = await hold(locks, 'a');
    robbed.released.catch(() => {});
    const next = locks.request('a', () => robbed.lock.held);
    beRobbed(where);
    assert.equal(await next, false);
  });
});

describe('what nobody here has heard of yet', { skip }, () => {
  /** A lock that was stolen, and a request that was granted since. */
  async function withMail(t, options = {}) {
    const { bucket, locks, where } = freshBucket(t);
    const robbed = await hold(locks, 'a');
    let called = false;
    const next = locks.request('a', options, () => {
      called = true;
    });
    beRobbed(where);
    return { bucket, locks, where, robbed, next, wasCalled: () => called };
  }

  it('an abort of a request that was granted gives the lock back', async (t) => {
    const controller = new AbortController();
    const { locks, robbed, next, wasCalled } = await withMail(t, { signal: controller.signal });
    controller.abort('no');
    await assert.rejects(next, (error) => error === 'no');
    await assert.rejects(robbed.released, LockStolenError);
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
    assert.equal(wasCalled(), false);
  });

  it('a release of a lock that was stolen says so, and the next one is granted', async (t) => {
    const { robbed, next, wasCalled } = await withMail(t);
    robbed.release();
    await assert.rejects(robbed.released, LockStolenError);
    await next;
    assert.equal(wasCalled(), true);
  });

  it('close() settles all', async (t) => {
    const { bucket, where, robbed, next } = await withMail(t);
    const settled = Promise.allSettled([robbed.released, next]);
    await bucket.close();
    const [stolen, pending] = await settled;
    assert.ok(stolen.reason instanceof LockStolenError);
    // It was granted, which nobody had heard of.
    assert.ok(pending.reason instanceof LockLostError);
    const again = openBucket(where.bucket, { directory: where.directory });
    assert.deepEqual(await again.locks.query(), { held: [], pending: [] });
    await again.close();
  });
});
