// slow: 2

'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks } = require('../../lib/index.js');
const { FREE, freshName, hold, nothing, stateOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const shared = (limit, weight) => ({ mode: 'shared', limit, weight });

describe('semaphores over threads', () => {
  it('count the units of all threads', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    const theirs = await remote.hold(name, shared(3, 2));
    const mine = await hold(locks, name, shared(3));
    assert.equal(locks.tryAcquireSync(name, shared(3)), null);
    const waiting = await remote.request(name, shared(3));
    await mine.release();
    await waiting.granted;
    for (const one of [theirs, waiting]) {
      one.release();
      await one.settled;
    }
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('have one limit for all threads', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    const theirs = await remote.hold(name, shared(3));
    await assert.rejects(locks.request(name, shared(4), nothing), TypeError);
    theirs.release();
    await theirs.settled;
    await locks.request(name, shared(4), () => {});
  });

  it('get back the units of a thread that ends', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    await remote.hold(name, shared(2, 2));
    const waiting = hold(locks, name, shared(2, 2));
    await remote.end('terminate');
    await (await waiting).release();
  });

  it('lose the units in all threads to a thief', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    const theirs = await remote.hold(name, shared(2));
    const mine = await hold(locks, name, shared(2));
    mine.released.catch(() => {});
    const thief = await hold(locks, name, { steal: true });
    assert.equal((await theirs.settled).error.name, 'AbortError');
    await assert.rejects(mine.released, { name: 'AbortError' });
    await thief.release();
    await (await hold(locks, name, shared(2, 2))).release();
  });
});

describe('tokens over threads', () => {
  it('grow from thread to thread, whichever held the name before', async (t) => {
    const name = freshName();
    const remotes = [await RemoteAgent.start(t), await RemoteAgent.start(t)];
    let last = await locks.request(name, ({ token }) => token);
    for (const remote of [...remotes, ...remotes]) {
      const lock = await remote.request(name);
      const { token } = await lock.granted;
      assert.ok(token > last, `${token} after ${last}`);
      lock.release();
      await lock.settled;
      last = token;
    }
    assert.ok((await locks.request(name, ({ token }) => token)) > last);
  });

  it('grow also over the only user of a bucket, who is gone', async (t) => {
    const bucket = freshName();
    const token = async () => {
      const remote = await RemoteAgent.start(t, { bucket });
      const { granted } = await remote.request('a');
      const lock = await granted;
      await remote.end('terminate');
      return lock.token;
    };
    const first = await token();
    assert.ok((await token()) > first);
  });
});

describe('maxPending over threads', () => {
  it('counts the requests of all threads', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    const mine = await hold(locks, name);
    const theirs = await remote.request(name);
    const refused = await remote.request(name, { maxPending: 1 });
    assert.equal((await refused.settled).error.name, 'QuotaExceededError');
    await assert.rejects(locks.request(name, { maxPending: 1 }, nothing), {
      name: 'QuotaExceededError',
    });
    await mine.release();
    await theirs.granted;
    theirs.release();
    await theirs.settled;
  });
});
