// slow: 2

'use strict';

/** Each callback is a task of its own: its microtasks run before the next callback. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Mutex, RWLock, locks } = require('../../lib/index.js');
const { freshName, hold, nothing, turn } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const SHARED = { mode: 'shared' };

/** Notes when a callback begins, and when its chain of many microtasks ends. */
const noteIn = (order, i) => async () => {
  order.push(`${i} begins`);
  for (let j = 0; j < 100; j++) await undefined;
  order.push(`${i} ends`);
};

const request = (name, callback) => locks.request(name, SHARED, callback);
const acquire = async (name, callback) => {
  const handle = await locks.acquire(name, SHARED);
  await callback();
  handle.release();
};

/** Requests each name. @returns a function that checks that the callbacks ran one after another */
function startReaders(names, ask = request) {
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

describe('callbacks granted together run one after another, with their microtasks', () => {
  for (const ask of [request, acquire]) {
    it(`after a release of this thread: ${ask.name}()`, async () => {
      const name = freshName();
      const held = await hold(locks, name);
      const check = startReaders(Array(4).fill(name), ask);
      await held.release();
      await check();
    });
  }

  it('after an abort', async () => {
    const name = freshName();
    const controller = new AbortController();
    const held = await hold(locks, name, SHARED);
    const writer = locks.request(name, { signal: controller.signal }, nothing);
    const check = startReaders(Array(4).fill(name));
    controller.abort(new Error('enough'));
    await assert.rejects(writer, { message: 'enough' });
    await check();
    await held.release();
  });

  it('after releases of several names by another thread', async (t) => {
    const other = await RemoteAgent.start(t);
    const names = [0, 1, 2].map((i) => freshName(`${i}`));
    const held = [];
    for (const name of names) held.push(await other.hold(name));
    const check = startReaders(names);
    for (const one of held) one.release();
    // This thread returns to its event loop when all of them are granted.
    for (const name of names) while (new RWLock(name).locked !== 'shared');
    await check();
  });
});

it('the released promise settles before the next callback is called', async () => {
  const name = freshName();
  const order = [];
  const first = locks.request(name, () => turn());
  const second = locks.request(name, () => order.push('callback'));
  first.then(() => order.push('released'));
  await Promise.all([first, second]);
  assert.deepEqual(order, ['released', 'callback']);
});

it('`this` in a callback is undefined', async () => {
  const reject = { deadlock: 'reject' };
  const held = await hold(locks, 'this');
  for (const call of [
    (callback) => locks.request('this', { ifAvailable: true }, callback),
    (callback) => locks.request('other', reject, callback),
    (callback) => locks.requestAll(['other'], callback),
    (callback) => locks.requestAll(['other'], reject, callback),
    (callback) => new Mutex().runExclusive(callback),
  ]) {
    let seen = 'not called';
    await call(function () {
      seen = this;
    });
    assert.equal(seen, undefined, String(call));
  }
  await held.release();
});
