'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { FREE, deferred, freshName, hold, stateOf } = require('../helpers/locks.js');
const { LockLostError, LockStolenError, locks, needs, openBucket } = require('../helpers/scope.js');
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

describe('locks.once', needs('marks'), () => {
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
  });

  it('those who ask meanwhile and later do not run, and end after who runs', async () => {
    const name = freshName();
    const { started, run, end } = job();
    const first = locks.once(name, DAY, run);
    await started;
    let isEarly = true;
    const others = [1, 2].map(async () => {
      const answer = await locks.once(name, DAY, notRun);
      assert.equal(isEarly, false);
      return answer;
    });
    isEarly = false;
    end();
    assert.deepEqual(await Promise.all([first, ...others]), [
      { ran: true, value: undefined },
      NOT_RUN,
      NOT_RUN,
    ]);
    assert.deepEqual(await locks.once(name, DAY, notRun), NOT_RUN);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('a function that throws marks nothing, and the next one runs', async () => {
    const name = freshName();
    const failure = new Error('mine');
    const { started, run, fail } = job();
    const first = locks.once(name, DAY, run);
    const second = locks.once(name, DAY, () => {
      throw failure;
    });
    const third = locks.once(name, DAY, () => 'third');
    await started;
    fail(failure);
    await assert.rejects(first, failure);
    await assert.rejects(second, failure);
    assert.deepEqual(await third, { ran: true, value: 'third' });
  });

  it('runs again when the time is over that the one before has said', async () => {
    const name = freshName();
    assert.equal((await locks.once(name, { keep: 0.5 }, () => {})).ran, true);
    while (!(await locks.once(name, DAY, () => {})).ran);
    assert.equal((await locks.once(name, { keep: 0.5 }, notRun)).ran, false);
  });

  it('other requests take no notice of the mark, and leave it as it is', async () => {
    const name = freshName();
    await locks.once(name, DAY, () => {});
    assert.equal(await locks.request(name, (lock) => lock.name), name);
    await steal(name);
    assert.deepEqual(await locks.once(name, DAY, notRun), NOT_RUN);
  });

  it('a caller that loses the lock while it runs marks nothing, and rejects with the loss', async () => {
    const name = freshName();
    const { started, run, end } = job();
    const robbed = assert.rejects(locks.once(name, DAY, run), LockStolenError);
    const lock = await started;
    await steal(name);
    await robbed;
    assert.equal(lock.signal.aborted, true);
    end();
    assert.deepEqual(await locks.once(name, DAY, () => 2), { ran: true, value: 2 });
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

  it('its signal ends the wait, and is not heard by who runs', async () => {
    const name = freshName();
    const controller = new AbortController();
    const { signal } = controller;
    const { started, run, end } = job();
    const first = locks.once(name, { ...DAY, signal }, run);
    const second = locks.once(name, { ...DAY, signal }, notRun);
    await started;
    controller.abort(new Error('enough'));
    await assert.rejects(second, { message: 'enough' });
    end('value');
    assert.equal((await first).value, 'value');
  });

  it('timeout ends the wait', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    await assert.rejects(locks.once(name, { ...DAY, timeout: 1 }, notRun), {
      name: 'TimeoutError',
    });
    await held.release();
  });

  it('requests inside of it that are reentrant end before the mark is written', async () => {
    const name = freshName();
    const inner = job();
    const outer = locks.once(name, DAY, () => {
      locks.request(name, { reentrant: true }, inner.run);
    });
    await inner.started;
    inner.end();
    assert.equal((await outer).ran, true);
    assert.deepEqual(await locks.once(name, DAY, notRun), NOT_RUN);
  });

  it('each bucket has marks of its own', async () => {
    const name = freshName();
    const bucket = openBucket(freshName('bucket'));
    await locks.once(name, DAY, () => {});
    assert.equal((await bucket.locks.once(name, DAY, () => {})).ran, true);
    assert.equal((await bucket.locks.once(name, DAY, notRun)).ran, false);
    await bucket.close();
  });

  it('closing the bucket takes the lock away from who runs', async () => {
    const bucket = openBucket(freshName('bucket'));
    const { started, run, end } = job();
    const done = bucket.locks.once('a', DAY, run);
    await started;
    const lost = assert.rejects(done, LockLostError);
    await bucket.close();
    end();
    await lost;
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

  it('checks its arguments; options that make no sense are refused', async () => {
    await assert.rejects(locks.once('a', DAY), TypeError);
    await assert.rejects(locks.once('a', DAY, 'no function'), TypeError);
    for (const keep of [undefined, 0, -1, Number.NaN, Number.POSITIVE_INFINITY, 4e12, '5']) {
      await assert.rejects(locks.once('a', { keep }, notRun), TypeError);
    }
    await assert.rejects(locks.once('-a', DAY, notRun), { name: 'NotSupportedError' });
    const refused = [
      { mode: 'shared' },
      { ifAvailable: true },
      { steal: true },
      { holdTimeout: 1 },
      { reentrant: true },
      { mode: 'shared', limit: 2 },
    ];
    for (const options of refused) {
      await assert.rejects(locks.once('a', { ...DAY, ...options }, notRun), {
        name: 'NotSupportedError',
      });
    }
  });
});
