'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Lock, Mutex, RWLock, Semaphore, locks, needs } = require('../helpers/scope.js');
const { freshName, hold, timedOut, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

/** The greatest length of a JSON text. */
const MOST = 4_096;

async function entriesOf(name) {
  const { held, pending } = await locks.query({ name, details: true });
  return { held, pending };
}
const dataOf = async (name) => valuesOf((await entriesOf(name)).held, 'data');
const hasData = async (name) => (await entriesOf(name)).held.map((entry) => 'data' in entry);

describe('lock.publish()', needs('publish'), () => {
  it('is told by query with details as data, and resolves to true', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    assert.deepEqual(await hasData(name), [false]);
    assert.equal(await held.lock.publish({ url: 'http://a:1', done: [1, null, 'é'] }), true);
    assert.deepEqual(await dataOf(name), [{ url: 'http://a:1', done: [1, null, 'é'] }]);
    await held.release();
  });

  for (const value of [null, 0, -1.5, false, true, '', 'text', '\ud800', '\0', [], {}, 'ü€😀'])
    it(`gives ${JSON.stringify(value)} back`, async () => {
      const name = freshName();
      const held = await hold(locks, name);
      assert.equal(await held.lock.publish(value), true);
      assert.deepEqual(await dataOf(name), [value]);
      await held.release();
    });

  it('replaces the value as a whole', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    for (const value of [{ a: 1 }, { b: 2 }, 'x'.repeat(4_000), 1]) {
      assert.equal(await held.lock.publish(value), true);
      assert.deepEqual(await dataOf(name), [value]);
    }
    await held.release();
  });

  it('removes it if the value is undefined', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    assert.equal(await held.lock.publish(undefined), true);
    assert.deepEqual(await hasData(name), [false]);
    await held.lock.publish(1);
    assert.equal(await held.lock.publish(undefined), true);
    assert.deepEqual(await hasData(name), [false]);
    await held.release();
  });

  it('ends with the lock', async () => {
    const name = freshName();
    const first = await hold(locks, name);
    const second = hold(locks, name);
    await first.lock.publish('first');
    await first.release();
    const next = await second;
    assert.deepEqual(await hasData(name), [false]);
    await next.release();
  });

  it('is of each shared lock its own', async () => {
    const name = freshName();
    const all = [];
    for (let i = 0; i < 3; i++) all.push(await hold(locks, name, { mode: 'shared' }));
    await Promise.all([all[0].lock.publish(0), all[2].lock.publish(2)]);
    assert.deepEqual(await dataOf(name), [0, undefined, 2]);
    for (const held of all) await held.release();
  });

  it('is shown beside a label, and without one', async () => {
    const name = freshName();
    const one = await hold(locks, name, { mode: 'shared', label: 'one' });
    const two = await hold(locks, name, { mode: 'shared' });
    await one.lock.publish('of one');
    await two.lock.publish('of two');
    const { held } = await entriesOf(name);
    assert.equal(held[0].label, 'one');
    assert.deepEqual(valuesOf(held, 'data'), ['of one', 'of two']);
    await one.release();
    await two.release();
  });

  it('is told of the locks that block a request, and not of the request', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    await held.lock.publish('holder');
    const waiting = locks.request(name, () => {});
    const { pending } = await entriesOf(name);
    assert.equal('data' in pending[0], false);
    assert.deepEqual(valuesOf(pending[0].blockedBy, 'data'), ['holder']);
    await held.release();
    await waiting;
  });

  it('is told by the error of a timeout', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    await held.lock.publish({ port: 80 });
    const { holders } = await timedOut(() => locks.acquire(name, { timeout: 100 }));
    assert.deepEqual(valuesOf(holders, 'data'), [{ port: 80 }]);
    await held.release();
  });

  it('is told by the cycle of a deadlock', async () => {
    const name = freshName();
    const shared = { mode: 'shared', reentrant: true };
    const { cycle } = await locks.request(name, shared, async (lock) => {
      await lock.publish('holder');
      return locks.request(name, { reentrant: true }, () => {}).catch((reason) => reason);
    });
    assert.deepEqual(valuesOf(cycle, 'data'), [undefined, 'holder']);
  });

  it('is told by leader()', async () => {
    const name = freshName();
    const told = await locks.elect(name, async (leader) => {
      assert.equal(await leader.publish({ at: 'here' }), true);
      return await locks.leader(name);
    });
    assert.deepEqual(told.data, { at: 'here' });
  });

  it('is not told by query without details', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    await held.lock.publish('holder');
    const { held: all } = await locks.query({ name });
    assert.deepEqual(Object.keys(all[0]), ['clientId', 'mode', 'name']);
    await held.release();
  });

  it('is seen by other agents', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const held = await other.hold(name);
    await held.publish({ from: 'afar' });
    assert.deepEqual(await dataOf(name), [{ from: 'afar' }]);
    await held.publish('again');
    assert.deepEqual(await dataOf(name), ['again']);
    held.release();
    await held.settled;
  });

  it('is false of a lock that was released', async () => {
    const handle = await locks.acquire(freshName());
    await handle.release();
    assert.equal(await handle.publish(1), false);
    assert.equal(await handle.publish(undefined), false);
  });

  it('is false of a lock that was stolen, and leaves what the thief publishes', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    held.released.catch(() => {});
    await held.lock.publish('robbed');
    const thief = await hold(locks, name, { steal: true });
    assert.equal(await held.lock.publish('late'), false);
    assert.deepEqual(await hasData(name), [false]);
    await thief.lock.publish('thief');
    assert.equal(await held.lock.publish(undefined), false);
    assert.deepEqual(await dataOf(name), ['thief']);
    await thief.release();
  });

  it('is false of a lock that another agent steals meanwhile, whose loss is then told', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const held = await hold(locks, name);
    const lost = assert.rejects(held.released, { name: 'AbortError' });
    const thief = await other.hold(name, { steal: true });
    assert.equal(await held.lock.publish('late'), false);
    assert.equal(held.lock.signal.aborted, true);
    await lost;
    thief.release();
    await thief.settled;
  });

  const ways = {
    acquire: (name) => locks.acquire(name),
    acquireAll: async (name) => (await locks.acquireAll([name])).locks[0],
    Mutex: (name) => new Mutex(name).acquire(),
  };
  for (const [way, acquire] of Object.entries(ways)) {
    it(`is of a handle of ${way}`, async () => {
      const name = freshName();
      const handle = await acquire(name);
      if (!handle.publish) return;
      assert.equal(await handle.publish(way), true);
      assert.deepEqual(await dataOf(name), [way]);
      await handle.release();
    });
  }

  const callbacks = {
    requestAll: (name, run) => locks.requestAll([name], ([lock]) => run(lock)),
    once: (name, run) => locks.once(name, { keep: 60_000 }, run),
    runExclusive: (name, run) => new Mutex(name).runExclusive(run),
    runShared: (name, run) => new RWLock(name).runShared(run),
    'run of a Semaphore': (name, run) => new Semaphore(name, { permits: 2 }).run(run),
  };
  for (const [way, request] of Object.entries(callbacks)) {
    it(`is of what the callback of ${way} gets`, async () => {
      const name = freshName();
      let seen;
      await request(name, async (lock) => {
        await lock.publish(way);
        seen = await dataOf(name);
      });
      assert.deepEqual(seen, [way]);
    });
  }

  it('of a reentrant lock is of the lock that serves it', async () => {
    const name = freshName();
    const request = (callback) => locks.request(name, { reentrant: true }, callback);
    await request(async (outer) => {
      await outer.publish('outer');
      let inner;
      await request(async (lock) => {
        inner = lock;
        assert.equal(await lock.publish('inner'), true);
        assert.deepEqual(await dataOf(name), ['inner']);
      });
      assert.deepEqual(await dataOf(name), ['inner']);
      assert.equal(await inner.publish('late'), false);
    });
  });

  describe('refuses', () => {
    const circle = {};
    circle.circle = circle;
    const bad = {
      'a function': [() => {}, /a function/],
      'a symbol': [Symbol('x'), /Symbol\(x\)/],
      'a bigint': [1n, /BigInt/],
      'a bigint inside': [{ a: [1n] }, /BigInt/],
      'a circle': [circle, /circular|cyclic/],
      'what toJSON makes undefined': [{ toJSON() {} }, /an object/],
    };
    for (const [what, [value, message]] of Object.entries(bad)) {
      it(`${what} with a TypeError that names the cause`, async () => {
        const name = freshName();
        const held = await hold(locks, name);
        await held.lock.publish('before');
        const error = { name: 'TypeError', errorCode: 'ERR_WEB_LOCKS_INVALID_ARGUMENT', message };
        await assert.rejects(held.lock.publish(value), error);
        assert.deepEqual(await dataOf(name), ['before']);
        await held.release();
      });
    }

    it('what toJSON throws for, and keeps what it threw as the cause', async () => {
      const handle = await locks.acquire(freshName());
      for (const cause of [new Error('mine'), null, 'text']) {
        const toJSON = () => {
          throw cause;
        };
        const error = await handle.publish({ toJSON }).catch((reason) => reason);
        assert.equal(error.name, 'TypeError');
        assert.equal(error.cause, cause);
      }
      await handle.release();
    });

    it('a text of more bytes than are allowed with a RangeError that counts them', async () => {
      const name = freshName();
      const held = await hold(locks, name);
      assert.equal(await held.lock.publish('x'.repeat(MOST - 2)), true);
      const message = new RegExp(`has ${MOST + 1} bytes; at most ${MOST} `);
      await assert.rejects(held.lock.publish('x'.repeat(MOST - 1)), {
        name: 'RangeError',
        message,
      });
      // Each of these letters has two bytes.
      await assert.rejects(held.lock.publish('é'.repeat(MOST / 2)), { name: 'RangeError' });
      assert.equal(await held.lock.publish('é'.repeat(MOST / 2 - 1)), true);
      assert.deepEqual(await dataOf(name), ['é'.repeat(MOST / 2 - 1)]);
      await held.release();
    });

    it('what is no lock', async () => {
      await assert.rejects(Lock.prototype.publish.call({}, 1), TypeError);
    });
  });

  describe('with a toJSON', () => {
    it('that releases the lock is false', async () => {
      const handle = await locks.acquire(freshName());
      let released;
      const value = {
        toJSON() {
          released = handle.release();
          return 1;
        },
      };
      assert.equal(await handle.publish(value), false);
      await released;
    });

    it('that publishes something else is told last', async () => {
      const name = freshName();
      const handle = await locks.acquire(name);
      let inner;
      const value = {
        toJSON() {
          inner = handle.publish('inner');
          return 'outer';
        },
      };
      assert.deepEqual([await handle.publish(value), await inner], [true, true]);
      assert.deepEqual(await dataOf(name), ['outer']);
      await handle.release();
    });
  });
});
