// slow: 3

'use strict';

/** A theft by another process, of which a thread has not heard yet. At once: test/extensions/robbed.test.js. */

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

describe('a lock that another process stole and gave back', { skip }, () => {
  for (const [what, options] of [
    ['a request', {}],
    ['a theft', { steal: true }],
  ]) {
    it(`is no longer held when ${what} is granted that waits for an answer`, async (t) => {
      const { locks, where } = freshBucket(t);
      const robbed = await hold(locks, 'a');
      robbed.released.catch(nothing);
      beRobbed(where);
      locks.query().catch(nothing);
      assert.equal(await locks.request('a', options, () => robbed.lock.held), false);
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
