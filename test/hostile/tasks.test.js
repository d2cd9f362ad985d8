// slow: 2

'use strict';

// When callbacks run: each is a task of its own, as in the specification, so microtasks of one come
// before the next.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { RWLock, locks } = require('../../lib/index.js');
const { freshName, hold, turn } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');
const { run } = require('../helpers/program.js');

/** A chain of many microtasks. */
async function chain(length) {
  for (let i = 0; i < length; i++) await undefined;
}

const LENGTH = 100;

/** Makes shared requests, whose callbacks note when they begin and when their microtasks are over. */
function readers(name, count, order) {
  return Array.from({ length: count }, (_, i) =>
    locks.request(name, { mode: 'shared' }, async () => {
      order.push(`${i} begins`);
      await chain(LENGTH);
      order.push(`${i} ends`);
    }),
  );
}

const oneByOne = (count) =>
  Array.from({ length: count }, (_, i) => [`${i} begins`, `${i} ends`]).flat();

describe('callbacks that one release grants run one after the other', () => {
  it('the microtasks of each before the next, where this thread releases', async () => {
    const name = freshName();
    const order = [];
    const held = await hold(locks, name);
    const all = readers(name, 4, order);
    await held.release();
    await Promise.all(all);
    assert.deepEqual(order, oneByOne(4));
  });

  it('the microtasks of each before the next, where another thread releases', async (t) => {
    const other = await RemoteAgent.start(t);
    const name = freshName();
    const order = [];
    const held = await other.hold(name);
    const all = readers(name, 4, order);
    held.release();
    await Promise.all(all);
    assert.deepEqual(order, oneByOne(4));
  });

  it('the microtasks of each before the next, where an abort lets them through', async () => {
    const name = freshName();
    const order = [];
    const controller = new AbortController();
    const held = await hold(locks, name, { mode: 'shared' });
    const writer = locks.request(name, { signal: controller.signal }, () => {});
    const all = readers(name, 4, order);
    controller.abort(new Error('enough'));
    await assert.rejects(writer, { message: 'enough' });
    await Promise.all(all);
    await held.release();
    assert.deepEqual(order, oneByOne(4));
  });

  it('the microtasks of each before the next, where several names become free', async (t) => {
    const other = await RemoteAgent.start(t);
    const order = [];
    const names = [0, 1, 2].map((i) => freshName(`${i}`));
    const held = [];
    for (const name of names) held.push(await other.hold(name));
    const all = names.map((name, i) =>
      locks.request(name, { mode: 'shared' }, async () => {
        order.push(`${i} begins`);
        await chain(LENGTH);
        order.push(`${i} ends`);
      }),
    );
    for (const one of held) one.release();
    // This thread comes back to its event loop when all of them are granted.
    for (const name of names) while (new RWLock(name).locked !== 'shared');
    await Promise.all(all);
    assert.deepEqual(order, oneByOne(3));
  });

  it('what acquire() resolves, too', async () => {
    const name = freshName();
    const order = [];
    const held = await hold(locks, name);
    const all = [0, 1, 2].map(async (i) => {
      const handle = await locks.acquire(name, { mode: 'shared' });
      order.push(`${i} begins`);
      await chain(LENGTH);
      order.push(`${i} ends`);
      handle.release();
    });
    await held.release();
    await Promise.all(all);
    assert.deepEqual(order, oneByOne(3));
  });
});

describe('when others are told', () => {
  it('a theft while grants wait for their turn is told at once', () =>
    run(`
      const held = await hold(locks, 'x');
      const victim = await locks.acquire('y');
      const order = [];
      let thief;
      victim.signal.addEventListener('abort', () => order.push('theft'));
      const all = [0, 1, 2].map((i) =>
        locks.request('x', { mode: 'shared' }, () => {
          order.push('callback ' + i);
          if (i === 0) {
            thief = locks.request('y', { steal: true }, () => order.push('thief'));
            order.push('stolen');
          }
        }),
      );
      await held.release();
      await Promise.all(all);
      await thief;
      const others = ['callback 1', 'callback 2', 'thief'];
      assert.deepEqual(order, ['callback 0', 'theft', 'stolen', ...others]);
    `));

  it('a shared lock that is stolen before its callback’s turn rejects, and is not called or is told', () =>
    run(`
      const held = await hold(locks, 'x');
      let called;
      let thief;
      const first = locks.request('x', { mode: 'shared' }, () => {
        // No callback runs beside the thief without knowing of it.
        thief = locks.request('x', { steal: true }, turn);
        return thief;
      });
      const second = locks.request('x', { mode: 'shared' }, (lock) => {
        called = lock.signal.aborted;
      });
      await held.release();
      await assert.rejects(first, library.LockStolenError);
      await second.catch((error) => assert.ok(error instanceof library.LockStolenError));
      await thief;
      assert.notEqual(called, false);
    `));

  it('the released promise of the one that released settles before the next callback', async () => {
    const name = freshName();
    const order = [];
    const first = locks.request(name, () => turn());
    const second = locks.request(name, () => order.push('callback'));
    first.then(() => order.push('released'));
    await Promise.all([first, second]);
    assert.deepEqual(order, ['released', 'callback']);
  });
});
