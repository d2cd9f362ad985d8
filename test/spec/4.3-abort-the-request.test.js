// slow: 2

'use strict';

const assert = require('node:assert/strict');
const { getEventListeners } = require('node:events');
const { describe, it } = require('node:test');
const { MANY, locks, turn } = require('../helpers/scope.js');
const { FREE, HELD, freshName, hold, notCalled, rejectionOf } = require('../helpers/locks.js');
const { stateOf } = require('../helpers/locks.js');

describe('4.3 Abort a request', () => {
  it('steps 6 and 7: it leaves the queue at once, those behind it move up', async () => {
    const name = freshName();
    const reader = await hold(locks, name, { mode: 'shared' });
    const controller = new AbortController();
    const writer = locks.request(name, { signal: controller.signal }, notCalled);
    const rejected = assert.rejects(writer, { name: 'AbortError' });
    const behind = hold(locks, name, { mode: 'shared' });
    assert.deepEqual(await stateOf(locks, name), {
      held: ['shared'],
      pending: ['exclusive', 'shared'],
    });
    controller.abort();
    assert.deepEqual(await stateOf(locks, name), { held: ['shared', 'shared'], pending: [] });
    await rejected;
    await (await behind).release();
    await reader.release();
  });

  it('rejects with the reason of the signal, as it is', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const ask = (signal) => rejectionOf(locks.request(name, { signal }, notCalled));
    for (const reason of [new TypeError('reason'), 'a string', 0, null, { plain: true }]) {
      const controller = new AbortController();
      const { signal } = controller;
      const rejected = [ask(signal), ask(AbortSignal.any([signal]))];
      controller.abort(reason);
      assert.deepEqual(await Promise.all(rejected), [reason, reason]);
    }
    assert.equal((await ask(AbortSignal.timeout(1))).name, 'TimeoutError');
    await held.release();
  });

  it('right after request(), before the callback, aborts although the lock was free', async () => {
    const name = freshName();
    const controller = new AbortController();
    const aborted = locks.request(name, { signal: controller.signal }, notCalled);
    const behind = hold(locks, name);
    controller.abort();
    const rejected = assert.rejects(aborted, { name: 'AbortError' });
    assert.deepEqual(await stateOf(locks, name), HELD);
    await rejected;
    await (await behind).release();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('4.4 step 2.14.1: after the grant, before the callback, it releases the lock', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const controller = new AbortController();
    // One release grants both; the callback of the first runs before that of the second.
    const first = locks.request(name, { mode: 'shared' }, async () => {
      const before = stateOf(locks, name);
      controller.abort();
      assert.deepEqual(await before, { held: ['shared', 'shared'], pending: [] });
      assert.deepEqual(await stateOf(locks, name), { held: ['shared'], pending: [] });
    });
    const aborted = locks.request(name, { mode: 'shared', signal: controller.signal }, notCalled);
    await Promise.all([held.release(), first, assert.rejects(aborted, { name: 'AbortError' })]);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('after the callback began the signal is ignored', async () => {
    const name = freshName();
    const controller = new AbortController();
    const held = await hold(locks, name, { signal: controller.signal });
    controller.abort();
    await turn();
    assert.deepEqual(await stateOf(locks, name), HELD);
    await held.release('result');
    assert.equal(await held.released, 'result');
  });

  it('happens even if another listener stops the propagation of the event', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const controller = new AbortController();
    controller.signal.addEventListener('abort', (event) => event.stopImmediatePropagation());
    const waiting = locks.request(name, { signal: controller.signal }, notCalled);
    controller.abort();
    await assert.rejects(waiting, { name: 'AbortError' });
    await held.release();
  });

  it('of a stolen lock before its callback calls none, and leaves the thief its lock', async () => {
    const name = freshName();
    const controller = new AbortController();
    let calls = 0;
    const stolen = locks.request(name, { signal: controller.signal }, () => {
      calls++;
    });
    const thief = hold(locks, name, { steal: true });
    controller.abort();
    await assert.rejects(stolen, { name: 'AbortError' });
    await turn();
    assert.equal(calls, 0);
    assert.deepEqual(await stateOf(locks, name), HELD);
    await (await thief).release();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });
});

describe('4.3 signals and their listeners', () => {
  const listeners = (signal) => getEventListeners(signal, 'abort').length;

  it('a request leaves no listener once it is granted, aborted or refused', async () => {
    const name = freshName();
    const controller = new AbortController();
    const { signal } = controller;
    const held = await hold(locks, name, { signal });
    assert.equal(listeners(signal), 0, 'granted');
    const waiting = [1, 2].map(() => locks.request(name, { signal }, notCalled));
    assert.equal(listeners(signal), 1, 'pending');
    controller.abort();
    assert.equal(listeners(signal), 0, 'aborted');
    for (const { status } of await Promise.allSettled(waiting)) assert.equal(status, 'rejected');
    await held.release();
    const fresh = new AbortController();
    await assert.rejects(locks.request('-', { signal: fresh.signal }, notCalled));
    assert.equal(listeners(fresh.signal), 0, 'refused');
  });

  it(`${MANY} requests on one signal give no warning, and one abort ends them all`, async () => {
    const name = freshName();
    const warnings = [];
    const onWarning = (warning) => warnings.push(warning);
    process.on('warning', onWarning);
    const held = await hold(locks, name);
    const controller = new AbortController();
    const all = Array.from({ length: MANY }, () =>
      locks.request(name, { signal: controller.signal }, notCalled),
    );
    assert.equal((await stateOf(locks, name)).pending.length, MANY);
    controller.abort();
    const settled = Promise.allSettled(all);
    assert.deepEqual(await stateOf(locks, name), HELD);
    const outcomes = await settled;
    assert.ok(outcomes.every(({ reason }) => reason === controller.signal.reason));
    await held.release();
    await turn();
    process.off('warning', onWarning);
    assert.deepEqual(warnings, []);
  });
});
