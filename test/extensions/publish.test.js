'use strict';

/** What lock.publish() does and refuses. programs.test.js tests which locks can publish. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Lock, locks } = require('../helpers/scope.js');
const { freshName, hold, timedOut, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

/** The greatest length of a JSON text. */
const MOST = 4_096;

const dataOf = async (name) => valuesOf((await locks.query({ name, details: true })).held, 'data');

/** Calls `work` while a lock is held that has published data. */
async function withPublished(work) {
  const name = freshName();
  const held = await hold(locks, name);
  await held.lock.publish('before');
  await work(held.lock, name);
  await held.release();
}

describe('lock.publish()', () => {
  it('is read in the entries of locks only, with details, and where a request is blocked', () =>
    withPublished(async (_, name) => {
      locks.request(name, () => {});
      const { held, pending } = await locks.query({ name, details: true });
      assert.deepEqual(valuesOf([...held, ...pending[0].blockedBy], 'data'), ['before', 'before']);
      assert.ok(!('data' in pending[0]) && !('data' in (await locks.query({ name })).held[0]));
      assert.equal((await locks.leader(name)).data, 'before');
      const { holders } = await timedOut(() => locks.acquire(name, { timeout: 100 }));
      assert.equal(holders[0].data, 'before');
    }));

  it('is read in the cycle of a deadlock', async () => {
    const name = freshName();
    const { cycle } = await locks.request(
      name,
      { mode: 'shared', reentrant: true },
      async (lock) => {
        await lock.publish('holder');
        return locks.request(name, { reentrant: true }, () => {}).catch((reason) => reason);
      },
    );
    assert.deepEqual(valuesOf(cycle, 'data'), [undefined, 'holder']);
  });

  it('is read by other agents', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const held = await other.hold(name);
    for (const value of [{ from: 'afar' }, 'again']) {
      await held.publish(value);
      assert.deepEqual(await dataOf(name), [value]);
    }
    held.release();
    await held.settled;
  });

  it('is false if another agent has stolen the lock; the loss is then announced', async (t) => {
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

  it('refuses what is no JSON with a TypeError that names the cause', () =>
    withPublished(async (lock, name) => {
      const circle = {};
      circle.circle = circle;
      for (const [value, message] of [
        [() => {}, /a function/],
        [Symbol('x'), /Symbol\(x\)/],
        [1n, /BigInt/],
        [{ a: [1n] }, /BigInt/],
        [circle, /circular|cyclic/],
        [{ toJSON() {} }, /an object/],
      ]) {
        const error = { name: 'TypeError', errorCode: 'ERR_WEB_LOCKS_INVALID_ARGUMENT', message };
        await assert.rejects(lock.publish(value), error);
      }
      for (const cause of [new Error('mine'), null, 'text']) {
        const toJSON = () => {
          throw cause;
        };
        await assert.rejects(lock.publish({ toJSON }), { name: 'TypeError', cause });
      }
      await assert.rejects(Lock.prototype.publish.call({}, 1), TypeError);
      assert.deepEqual(await dataOf(name), ['before']);
    }));

  it('refuses a text of more bytes than are allowed with a RangeError that counts them', () =>
    withPublished(async (lock, name) => {
      const message = new RegExp(`has ${MOST + 1} bytes; at most ${MOST} `);
      const tooLong = lock.publish('x'.repeat(MOST - 1));
      await assert.rejects(tooLong, { name: 'RangeError', message });
      // Each of these letters has two bytes.
      await assert.rejects(lock.publish('é'.repeat(MOST / 2)), { name: 'RangeError' });
      for (const value of ['x'.repeat(MOST - 2), 'é'.repeat(MOST / 2 - 1)]) {
        assert.equal(await lock.publish(value), true);
        assert.deepEqual(await dataOf(name), [value]);
      }
    }));

  it('is false if toJSON releases the lock', async () => {
    const handle = await locks.acquire(freshName());
    let released;
    const toJSON = () => {
      released = handle.release();
      return 1;
    };
    assert.equal(await handle.publish({ toJSON }), false);
    await released;
  });

  it('comes after what its toJSON publishes', () =>
    withPublished(async (lock, name) => {
      let inner;
      const toJSON = () => {
        inner = lock.publish('inner');
        return 'outer';
      };
      assert.deepEqual([await lock.publish({ toJSON }), await inner], [true, true]);
      assert.deepEqual(await dataOf(name), ['outer']);
    }));
});
