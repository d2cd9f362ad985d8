// slow: 2

'use strict';

// Locks that are stolen at unusual moments, and what the robbed are told.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { LockStolenError, locks } = require('../../lib/index.js');
const { freshName, hold, notCalled, nothing } = require('../helpers/locks.js');
const { rejectionOf, turn, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');
const { run } = require('../helpers/program.js');

const STEAL = { steal: true };

describe('several locks of which one is stolen', () => {
  for (const form of ['requestAll', 'acquireAll']) {
    it(`by another thread, while ${form}() waits for the others: it rejects at once`, async (t) => {
      const other = await RemoteAgent.start(t);
      const [a, b] = [freshName('a'), freshName('b')];
      const held = await hold(locks, b);
      const all = locks[form]([a, b], {}, ...(form === 'requestAll' ? [notCalled] : []));
      const rejected = rejectionOf(all);
      await turn();
      // Its theft is told after that of the first.
      const last = await locks.acquire(freshName('last'));
      const told = once(last.signal, 'abort');
      const thefts = [await other.hold(a, STEAL), await other.hold(last.name, STEAL)];
      await told;
      const outcome = await Promise.race([rejected, turn()]);
      await held.release();
      for (const theft of thefts) {
        theft.release();
        await theft.settled;
      }
      assert.ok(outcome instanceof LockStolenError, `it waits: ${outcome}`);
    });
  }

  it('by a subscriber that hears of the last grant before anybody else: nobody is called', () =>
    run(`
      const thieves = [];
      subscribe('locks.request.grant', ({ name, label }) => {
        if (name === 'b' && label === 'all') {
          thieves.push(locks.request('a', { steal: true }, () => {}));
        }
      });
      const all = locks.requestAll(['a', 'b'], { label: 'all' }, () => assert.fail('called'));
      await assert.rejects(all, library.LockStolenError);
      await Promise.all(thieves);
    `));

  it('between the last grant and the hand-over: no callback without a lock resolves', async () => {
    for (let ticks = 0; ticks < 9; ticks++) {
      const [a, b] = [freshName('a'), freshName('b')];
      let seen = [];
      const all = locks.requestAll([a, b], async (taken) => {
        seen = valuesOf(taken, 'released');
        await turn();
      });
      const rejected = rejectionOf(all);
      for (let i = 0; i < ticks; i++) await null;
      await locks.request(a, STEAL, () => turn());
      assert.ok((await rejected) instanceof LockStolenError);
      assert.ok(!seen.includes(true), `after ${ticks} microtasks`);
    }
  });
});

it('a callback whose thread hears of the theft only when it releases rejects', () =>
  run(`
    const shared = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(
      'const { locks } = require(' + JSON.stringify(entry) + ');' +
      'const { parentPort, workerData } = require("node:worker_threads");' +
      'locks.request("x", () => {' +
      '  parentPort.postMessage("held");' +
      '  while (Atomics.load(workerData, 0) === 0);' +
      '  return "written";' +
      '}).then(() => parentPort.postMessage("resolved"), ({ name }) => parentPort.postMessage(name));',
      { eval: true, workerData: shared },
    );
    await once(worker, 'message');
    const outcome = once(worker, 'message');
    const exited = once(worker, 'exit');
    await locks.request('x', { steal: true }, () => Atomics.store(shared, 0, 1));
    assert.deepEqual(await outcome, ['AbortError']);
    await exited;
  `));

it('a theft near the end of the stack is told, however many there are', () =>
  run(`
    const robbed = await hold(locks, 'x');
    const outcome = robbed.released.catch(({ name }) => name);
    let thefts = 0;
    const thieves = [];
    const recurse = () => {
      try {
        recurse();
      } catch (error) {
        if (thefts < 20) {
          try {
            thieves[thefts] = locks.request('x', { steal: true }, () => {});
            thefts++;
          } catch {}
        }
        throw error;
      }
    };
    try { recurse(); } catch {}
    await Promise.allSettled(thieves);
    await locks.request('x', { steal: true }, () => {});
    assert.equal(await outcome, 'AbortError');
    assert.equal(robbed.lock.signal.aborted, true);
  `));

it('a robbed request rejects with a LockStolenError that is a DOMException', async () => {
  const name = freshName();
  const robbed = await hold(locks, name);
  const thief = await hold(locks, name, STEAL);
  const [{ clientId }] = (await locks.query({ name })).held;
  const error = await rejectionOf(robbed.released);
  await thief.release();
  await locks.request(name, nothing);
  assert.ok(error instanceof LockStolenError && error.constructor === DOMException);
  const { code, lockName } = error;
  const expected = ['AbortError', DOMException.ABORT_ERR, name, clientId];
  assert.deepEqual([error.name, code, lockName, error.clientId], expected);
  assert.match(error.stack, /stolen/);
});
