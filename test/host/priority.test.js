'use strict';

/** The option `priority` between processes. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { hold } = require('../helpers/locks.js');
const { RemoteProcess, freshBucket, pendingOn } = require('../helpers/process.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

const start = RemoteProcess.start;

/** Makes requests of priorities one after the other; resolves when all wait. */
async function queueUp(locks, name, wanted) {
  const requests = [];
  for (const [remote, priority] of wanted) {
    requests.push(await remote.request(name, { priority }));
    await pendingOn(locks, name, requests.length);
  }
  return requests;
}

/** Releases each as it is granted. Resolves to where they are in `requests`, as they were granted. */
async function orderOf(requests) {
  const order = [];
  const ends = requests.map(async (request, i) => {
    await request.granted;
    order.push(i);
    request.release();
    await request.settled;
  });
  await Promise.all(ends);
  return order;
}

describe('priority between processes', { skip }, () => {
  it('more priority is granted first, and of equals who came first, of whatever process', async (t) => {
    const { locks, where } = freshBucket(t);
    const [one, two] = [await start(t, where), await start(t, where)];
    const first = await hold(locks, 'a');
    const wanted = [
      [one, 0],
      [two, 5],
      [one, -1],
      [one, 5],
      [two, 0],
    ];
    const requests = await queueUp(locks, 'a', wanted);
    const { pending } = await locks.query({ name: 'a', details: true });
    assert.deepEqual(
      pending.map(({ pid, priority }) => [pid, priority]),
      [
        [two.pid, 5],
        [one.pid, 5],
        [one.pid, 0],
        [two.pid, 0],
        [one.pid, -1],
      ],
    );
    const order = orderOf(requests);
    await first.release();
    assert.deepEqual(await order, [1, 3, 0, 4, 2]);
  });

  it('a queue keeps its order when processes die that hold the lock and wait ahead', async (t) => {
    const { locks, where } = freshBucket(t);
    const [holder, ahead, other] = [
      await start(t, where),
      await start(t, where),
      await start(t, where),
    ];
    await holder.hold('a');
    const wanted = [
      [other, 0],
      [ahead, 9],
      [other, 3],
      [ahead, 1],
      [other, 1],
    ];
    const requests = await queueUp(locks, 'a', wanted);
    ahead.kill();
    await ahead.exited;
    const order = orderOf([requests[0], requests[2], requests[4]]);
    holder.kill();
    assert.deepEqual(await order, [1, 2, 0]);
  });

  it('a shared request gets ahead of an exclusive one of another process, beside its holder', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await start(t, where);
    const reader = await hold(locks, 'a', { mode: 'shared' });
    const writer = await other.request('a');
    await pendingOn(locks, 'a');
    const options = { mode: 'shared', ifAvailable: true };
    assert.equal(await locks.request('a', options, (lock) => lock), null);
    assert.notEqual(await locks.request('a', { ...options, priority: 1 }, (lock) => lock), null);
    await reader.release();
    await writer.granted;
    writer.release();
    await writer.settled;
  });

  it('a blocked thread hears that it waits for itself since one of more priority came', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await start(t, where);
    const options = { mode: 'shared', limit: 2 };
    const theirs = await other.hold('a', options);
    const mine = await hold(locks, 'a', options);
    const blocked = other.ask('sync', { name: 'a', options: { ...options, timeout: 60_000 } });
    await pendingOn(locks, 'a');
    const writer = locks.request('a', { priority: 1 }, () => 'written');
    assert.equal((await blocked).error.name, 'DeadlockError');
    theirs.release();
    await mine.release();
    assert.equal(await writer, 'written');
  });
});
