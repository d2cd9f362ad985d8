'use strict';

/** Semaphore. cases.test.js and programs.test.js test the limits of names. */

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { describe, it } = require('node:test');
const { Semaphore, locks, openBucket, turn, needs } = require('../helpers/scope.js');
const { freshName, nothing, rejectionOf } = require('../helpers/locks.js');

const shared = (limit, weight) => ({ mode: 'shared', limit, weight });

/** @returns the greatest number of callbacks of a semaphore that run at a time */
async function mostOf(semaphore, count) {
  let running = 0;
  let most = 0;
  const work = async () => {
    most = Math.max(most, ++running);
    await turn();
    running--;
  };
  await Promise.all(Array.from({ length: count }, () => semaphore.run(work)));
  return most;
}

describe('class Semaphore', () => {
  it('runs as many callbacks at a time as it has permits, with the lock', async () => {
    const semaphore = new Semaphore(2);
    assert.equal(await mostOf(semaphore, 7), 2);
    const seen = ({ mode, token }) => [mode, typeof token, semaphore.available];
    assert.deepEqual(await semaphore.run(seen, { weight: 2 }), ['shared', 'bigint', 0]);
    assert.equal(semaphore.available, 2);
  });

  it('with a name is made of the shared locks of that name', needs('state'), async () => {
    const name = freshName();
    const [semaphore, other] = [1, 2].map(() => new Semaphore(name, { permits: 2 }));
    const release = await semaphore.acquire();
    assert.deepEqual([other.available, other.pending], [1, 0]);
    const lock = await locks.acquire(name, shared(2));
    const waiting = [semaphore.acquire(), other.acquire()];
    assert.deepEqual([semaphore.available, semaphore.pending], [0, 2]);
    lock.release();
    release();
    for (const one of waiting) (await one)();
    const writer = await locks.acquire(name);
    assert.equal(semaphore.available, 0);
    writer.release();
  });

  it('is in the bucket that is given, or without a name private', async () => {
    const bucket = openBucket(freshName());
    const release = await new Semaphore('x', { permits: 1, bucket }).acquire();
    assert.equal((await bucket.locks.query()).held.length, 1);
    const [one, other] = [new Semaphore(1), new Semaphore(1)];
    const own = await one.acquire();
    assert.equal(other.available, 1);
    assert.ok((await locks.query()).held.every(({ mode }) => mode !== 'shared'));
    own();
    release();
  });

  it('refuses what it does not take', async () => {
    const given = [[], [0], [1.5], [2 ** 31], ['x'], ['x', { permits: 0 }], [undefined]];
    for (const args of given) assert.throws(() => new Semaphore(...args), TypeError);
    assert.throws(() => new Semaphore('-x', { permits: 1 }), { name: 'NotSupportedError' });
    const semaphore = new Semaphore(2);
    await assert.rejects(semaphore.run('no function'), TypeError);
    await assert.rejects(semaphore.acquire({ weight: 3 }), TypeError);
    for (const permits of [undefined, 0, 1.5, '2'])
      await assert.rejects(semaphore.resize(permits), TypeError);
    const named = new Semaphore(freshName(), { permits: 2 });
    await assert.rejects(named.resize(3), { name: 'NotSupportedError' });
  });
});

describe('resize of a Semaphore', () => {
  /** A semaphore of one permit, which is held, and a resize of it. */
  async function setUp(permits = 2) {
    const semaphore = new Semaphore(1);
    const release = await semaphore.acquire();
    return { semaphore, release, resized: semaphore.resize(permits) };
  }

  it('counts for all that is asked for later', async () => {
    for (const [from, to] of [
      [2, 5],
      [5, 2],
      [3, 3],
    ]) {
      const semaphore = new Semaphore(from);
      const before = mostOf(semaphore, 10);
      const resized = semaphore.resize(to);
      const after = mostOf(semaphore, 10);
      assert.deepEqual([await before, await after, await resized], [from, to, undefined]);
      assert.deepEqual([semaphore.available, semaphore.pending], [to, 0]);
    }
  });

  it('waits for those who hold units, and for those whose priority is less than any', async () => {
    const semaphore = new Semaphore(1);
    const release = await semaphore.acquire();
    const least = [-(2 ** 31), -1].map((priority) => semaphore.acquire({ priority }));
    let isResized = false;
    const resized = semaphore.resize(2).then(() => {
      isResized = true;
    });
    const next = semaphore.acquire({ weight: 2 });
    const { message } = await rejectionOf(semaphore.acquire({ timeout: 1 }));
    assert.match(message, /"resize: former permits are in use"/);
    release();
    (await least[1])();
    const last = await least[0];
    await turn();
    assert.deepEqual([isResized, semaphore.available], [false, 0]);
    last();
    await resized;
    (await next)();
  });

  it('can be called again at once, and the last call counts', async () => {
    const { semaphore, release, resized } = await setUp(5);
    const all = [resized, semaphore.resize(3), semaphore.acquire({ weight: 3 })];
    release();
    (await Promise.all(all))[2]();
    assert.equal(semaphore.available, 3);
  });

  it('counts waiters before and after it for `pending` and `maxPending`', async () => {
    const semaphore = new Semaphore(1);
    const release = await semaphore.acquire();
    const all = [semaphore.run(nothing), semaphore.resize(2)];
    all.push(semaphore.run(nothing, { maxPending: 2 }));
    const refused = semaphore.acquire({ maxPending: 2 });
    assert.equal(semaphore.pending, 2);
    await assert.rejects(refused, { name: 'QuotaExceededError', maxPending: 2 });
    all.push(semaphore.resize(3));
    assert.equal(semaphore.pending, 2);
    release();
    await Promise.all(all);
    assert.equal(semaphore.pending, 0);
    (await semaphore.acquire({ maxPending: 0 }))();
  });

  it('refuses no call for `maxPending` that does not wait', async () => {
    const { semaphore, release, resized } = await setUp();
    const ask = (more) => semaphore.acquire({ maxPending: 0, ...more });
    assert.equal(await ask({ ifAvailable: true }), null);
    assert.equal(await semaphore.tryAcquire({ maxPending: 0 }), null);
    await assert.rejects(ask({ blocking: false }), { name: 'LockError' });
    await assert.rejects(ask({ timeout: 0 }), { name: 'TimeoutError' });
    release();
    await resized;
  });

  it('leaves no units to a request that is cancelled', async () => {
    const { semaphore, release, resized } = await setUp();
    const waiting = semaphore.acquire();
    semaphore.cancel('enough');
    assert.equal(await rejectionOf(waiting), 'enough');
    release();
    await resized;
    assert.equal(semaphore.available, 2);
  });

  for (const [method, isServed] of Object.entries({
    run: (semaphore, options) => semaphore.run((lock) => lock !== null, options),
    async acquire(semaphore, options) {
      const release = await semaphore.acquire(options);
      release?.();
      return release !== null;
    },
  })) {
    it(`leaves a reentrant ${method} to the lock that it is inside of`, async () => {
      const semaphore = new Semaphore(1);
      const inner = { reentrant: true, ifAvailable: true };
      const outer = { reentrant: true };
      let next;
      let resized;
      await semaphore.run(async () => {
        semaphore.resize(2);
        next = semaphore.acquire();
        resized = semaphore.resize(3);
        assert.ok(await isServed(semaphore, inner));
        assert.equal(semaphore.pending, 1);
      }, outer);
      (await next)();
      await resized;
      // It also serves one that has the new number.
      const check = async () => assert.ok(await isServed(semaphore, { ...inner, weight: 3 }));
      await semaphore.run(check, outer);
    });
  }

  it('makes a deadlock of a request inside of a lock that it waits for', async () => {
    const semaphore = new Semaphore(2);
    const options = { deadlock: 'reject' };
    const resized = [];
    await semaphore.run(async () => {
      resized.push(semaphore.resize(3), semaphore.resize(4));
      await assert.rejects(semaphore.acquire(options), { name: 'DeadlockError' });
    }, options);
    await Promise.all(resized);
    assert.equal(semaphore.available, 4);
  });

  it('counts from a request on whose options were read before', async () => {
    const semaphore = new Semaphore(1);
    let resized;
    const options = {
      get label() {
        resized = semaphore.resize(2);
        return 'x';
      },
    };
    const release = await semaphore.acquire(options);
    await resized;
    (await semaphore.tryAcquire())();
    release();
  });

  it('publishes nothing of itself on the channels', async (t) => {
    const messages = [];
    const listen = (message) => messages.push(message);
    for (const event of ['start', 'grant', 'end']) {
      subscribe(`locks.request.${event}`, listen);
      t.after(() => unsubscribe(`locks.request.${event}`, listen));
    }
    await new Semaphore(1).resize(2);
    assert.deepEqual(messages, []);
  });
});
