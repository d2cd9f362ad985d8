// slow: 2

'use strict';

/** locks.once: the effects of time and other agents. programs.test.js tests it in one thread. */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { freshName, notCalled, nothing } = require('../helpers/locks.js');
const { LockStolenError, locks, needs } = require('../helpers/scope.js');
const { start } = require('../helpers/worker.js');

const DAY = { keep: 86_400_000 };

function threadOf(t, name, source) {
  const worker = start(source, name);
  t.after(() => worker.terminate());
  return worker;
}

describe('locks.once', () => {
  it('gives the lock, tells whether it ran, and what the function returned', async () => {
    const name = freshName();
    const seen = ({ mode, token, signal }) => [mode, typeof token, signal.aborted];
    const value = ['exclusive', 'bigint', false];
    assert.deepEqual(await locks.once(name, DAY, seen), { ran: true, value });
    assert.deepEqual(await locks.once(name, DAY, notCalled), { ran: false, value: undefined });
    await assert.rejects(locks.once(name, {}, notCalled), TypeError);
    await assert.rejects(locks.once(name, DAY), TypeError);
  });

  it('runs again when the time is over that the call before gave', async () => {
    const name = freshName();
    assert.equal((await locks.once(name, { keep: 0.5 }, nothing)).ran, true);
    while (!(await locks.once(name, { keep: Number.POSITIVE_INFINITY }, nothing)).ran);
    assert.equal((await locks.once(name, { keep: 0.5 }, notCalled)).ran, false);
  });

  it('finds at the release a theft that was not announced yet', needs('entry'), async (t) => {
    const name = freshName();
    const worker = threadOf(
      t,
      name,
      `parentPort.once('message', (shared) => {
      const wake = () => Atomics.store(shared, 0, 1) + Atomics.notify(shared, 0);
      locks.request(name, { steal: true }, wake);
    });
    post('ready');`,
    );
    await once(worker, 'message');
    const done = locks.once(name, DAY, (lock) => {
      const shared = new Int32Array(new SharedArrayBuffer(4));
      worker.postMessage(shared);
      Atomics.wait(shared, 0, 0);
      assert.equal(lock.signal.aborted, false);
    });
    await assert.rejects(done, LockStolenError);
    assert.equal((await locks.once(name, DAY, nothing)).ran, true);
  });

  it('runs in one of many threads, and again if that thread ends', needs('entry'), async (t) => {
    const name = freshName();
    const source = `locks.once(name, { keep: 1e9 }, () => {
      post('running');
      return new Promise(() => {});
    });`;
    const worker = threadOf(t, name, source);
    await once(worker, 'message');
    const others = [1, 2, 3].map(() =>
      threadOf(t, name, 'locks.once(name, { keep: 1e9 }, () => {}).then(post)'),
    );
    const answers = others.map((other) => once(other, 'message'));
    const here = locks.once(name, DAY, nothing);
    await worker.terminate();
    const all = [...(await Promise.all(answers)).flat(), await here];
    assert.equal(all.filter(({ ran }) => ran).length, 1);
  });
});
