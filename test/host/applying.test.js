'use strict';

/** Events of the host scope that come in one batch: each is applied once, whatever is in it. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { contend } = require('../helpers/contend.js');
const { hold } = require('../helpers/locks.js');
const { RemoteProcess, freshBucket } = require('../helpers/process.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

/** What ends a test that waits for ever; far more than it needs. */
const LIMIT = { timeout: 60_000 };

/** Has what comes meanwhile come in one batch: blocks the thread. */
const block = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);

describe('a batch of events', { skip }, () => {
  it('that refuses a request with the time limit 0 grants the others once each', async (t) => {
    const { locks } = freshBucket(t);
    const held = await hold(locks, 'taken');
    const called = [];
    // What comes after a query is answered by events.
    const before = locks.query();
    const all = ['taken', 'one', 'taken', 'two', 'taken', 'three'].map((name) => {
      const options = name === 'taken' ? { timeout: 0 } : {};
      return locks.request(name, options, (lock) => called.push(lock.name));
    });
    block();
    const settled = await Promise.allSettled([...all, before]);
    const states = settled.map(({ reason }) => reason?.name ?? 'fulfilled');
    const refused = 'TimeoutError';
    const fine = 'fulfilled';
    assert.deepEqual(states, [refused, fine, refused, fine, refused, fine, fine]);
    assert.deepEqual(called.sort(), ['one', 'three', 'two']);
    await held.release();
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });

  it('is complete with two processes, whose requests have the time limit 0', LIMIT, async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await RemoteProcess.start(t, where);
    const size = { loops: 8, rounds: 60 };
    const all = await Promise.all([contend(locks, size), other.ask('contend', { size })]);
    for (const { granted, TimeoutError = 0, ...others } of all) {
      assert.deepEqual(others, {});
      assert.equal(granted + TimeoutError, size.loops * size.rounds);
    }
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });
});
