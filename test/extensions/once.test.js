// slow: 2

'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { FREE, deferred, freshName, stateOf } = require('../helpers/locks.js');
const { LockStolenError, locks, needs } = require('../helpers/scope.js');
const { start } = require('../helpers/worker.js');

const DAY = { keep: 86_400_000 };
const NOT_RUN = { ran: false, value: undefined };
const notRun = () => assert.fail('called');
const steal = (name) => locks.request(name, { steal: true }, () => {});

/** A function that runs until it is told to end. */
function job() {
  const started = deferred();
  const ended = deferred();
  const run = (lock) => {
    started.resolve(lock);
    return ended.promise;
  };
  return { started: started.promise, run, end: ended.resolve, fail: ended.reject };
}

function threadOf(t, name, source) {
  const worker = start(source, name);
  t.after(() => worker.terminate());
  return worker;
}

describe('locks.once', () => {
  it('runs with the lock, and tells what the function returned', async () => {
    const name = freshName();
    const { started, run, end } = job();
    const done = locks.once(name, { ...DAY, label: 'me' }, run);
    const lock = await started;
    const { held } = await locks.query({ name, details: true });
    assert.deepEqual(
      [lock.name, lock.mode, lock.token, held[0].label],
      [name, 'exclusive', held[0].token, 'me'],
    );
    assert.equal(lock.signal.aborted, false);
    end('value');
    assert.deepEqual(await done, { ran: true, value: 'value' });
    assert.deepEqual(await stateOf(locks, name), FREE);
    await assert.rejects(locks.once(name, {}, notRun), TypeError);
    await assert.rejects(locks.once(name, DAY), TypeError);
  });

  it('runs again when the time is over that the one before has said', async () => {
    const name = freshName();
    assert.equal((await locks.once(name, { keep: 0.5 }, () => {})).ran, true);
    while (!(await locks.once(name, DAY, () => {})).ran);
    assert.equal((await locks.once(name, { keep: 0.5 }, notRun)).ran, false);
  });

  it('a caller that is robbed before it could look does not run', async () => {
    const name = freshName();
    const held = await locks.acquire(name);
    const robbed = assert.rejects(locks.once(name, DAY, notRun), LockStolenError);
    held.release();
    const stolen = steal(name);
    await Promise.all([robbed, stolen]);
    assert.equal((await locks.once(name, DAY, () => {})).ran, true);
  });

  it('a theft that was not heard of is found by the release', needs('entry'), async (t) => {
    const name = freshName();
    const worker = threadOf(
      t,
      name,
      `parentPort.once('message', (shared) => {
      locks.request(name, { steal: true }, () => Atomics.store(shared, 0, 1) + Atomics.notify(shared, 0));
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
    assert.equal((await locks.once(name, DAY, () => {})).ran, true);
  });

  it('of two that are never to run again, one runs', async () => {
    const forEver = { keep: Number.POSITIVE_INFINITY };
    const name = freshName();
    assert.equal((await locks.once(name, forEver, () => 1)).ran, true);
    assert.deepEqual(await locks.once(name, forEver, notRun), NOT_RUN);
  });

  it('of many threads one runs', needs('entry'), async (t) => {
    const name = freshName();
    const source = 'locks.once(name, { keep: 1e9 }, () => {}).then(post)';
    const workers = [1, 2, 3].map(() => threadOf(t, name, source));
    const here = locks.once(name, DAY, () => {});
    const answers = await Promise.all(workers.map((worker) => once(worker, 'message')));
    const all = [...answers.flat(), await here];
    assert.equal(all.filter(({ ran }) => ran).length, 1);
    assert.deepEqual(await locks.once(name, DAY, notRun), NOT_RUN);
  });

  it(
    'a thread that ends while it runs marks nothing, and the next one runs',
    needs('entry'),
    async (t) => {
      const name = freshName();
      const source = `locks.once(name, { keep: 1e9 }, () => {
      post('running');
      return new Promise(() => {});
    });`;
      const worker = threadOf(t, name, source);
      await once(worker, 'message');
      const done = locks.once(name, DAY, () => 'here');
      await worker.terminate();
      assert.deepEqual(await done, { ran: true, value: 'here' });
    },
  );
});
