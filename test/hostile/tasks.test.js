// slow: 2

'use strict';

// When callbacks run: each is a task of its own, as in the specification, so microtasks of one come
// before the next.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { RWLock, locks } = require('../../lib/index.js');
const { freshName, hold, nothing, turn } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');
const { run } = require('../helpers/program.js');

const SHARED = { mode: 'shared' };

/** Notes when a callback begins, and when its chain of many microtasks is over. */
const noteIn = (order, i) => async () => {
  order.push(`${i} begins`);
  for (let j = 0; j < 100; j++) await undefined;
  order.push(`${i} ends`);
};

/** Makes requests of each name; @returns how to check that their callbacks came one by one */
function readers(names, ask = (name, callback) => locks.request(name, SHARED, callback)) {
  const order = [];
  const all = names.map((name, i) => ask(name, noteIn(order, i)));
  return async () => {
    await Promise.all(all);
    assert.deepEqual(
      order,
      names.flatMap((_, i) => [`${i} begins`, `${i} ends`]),
    );
  };
}

describe('callbacks that are granted together run one after the other, with their microtasks', () => {
  const acquire = async (name, callback) => {
    const handle = await locks.acquire(name, SHARED);
    await callback();
    handle.release();
  };
  for (const [title, ask] of [
    ['request()', undefined],
    ['acquire()', acquire],
  ]) {
    it(`where this thread releases: ${title}`, async () => {
      const name = freshName();
      const held = await hold(locks, name);
      const check = readers(Array(4).fill(name), ask);
      await held.release();
      await check();
    });
  }

  it('where another thread releases', async (t) => {
    const other = await RemoteAgent.start(t);
    const name = freshName();
    const held = await other.hold(name);
    const check = readers(Array(4).fill(name));
    held.release();
    await check();
  });

  it('where an abort lets them through', async () => {
    const name = freshName();
    const controller = new AbortController();
    const held = await hold(locks, name, SHARED);
    const writer = locks.request(name, { signal: controller.signal }, nothing);
    const check = readers(Array(4).fill(name));
    controller.abort(new Error('enough'));
    await assert.rejects(writer, { message: 'enough' });
    await check();
    await held.release();
  });

  it('where several names become free', async (t) => {
    const other = await RemoteAgent.start(t);
    const names = [0, 1, 2].map((i) => freshName(`${i}`));
    const held = [];
    for (const name of names) held.push(await other.hold(name));
    const check = readers(names);
    for (const one of held) one.release();
    // This thread comes back to its event loop when all of them are granted.
    for (const name of names) while (new RWLock(name).locked !== 'shared');
    await check();
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
