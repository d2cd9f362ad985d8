// slow: 25

'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { locks } = require('../../lib/index.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');
const { start } = require('../helpers/worker.js');

describe('2.6 Termination of locks', () => {
  for (const how of ['terminate', 'process.exit', 'throw', 'finish']) {
    it(`a worker that ends by ${how} leaves neither locks nor requests`, async (t) => {
      const remote = await RemoteAgent.start(t);
      remote.worker.on('error', () => {}); // of 'throw'
      const [exclusive, stolen, queue] = [freshName(), freshName(), freshName()];
      const shared = Array.from({ length: 20 }, () => freshName());
      const robbed = await hold(locks, stolen);
      const reader = await hold(locks, queue, { mode: 'shared' });
      await remote.hold(exclusive);
      await remote.hold(stolen, { steal: true });
      await assert.rejects(robbed.released, { name: 'AbortError' });
      for (const name of [...shared, ...shared]) await remote.hold(name, { mode: 'shared' });
      // A pending request would keep the worker from finishing.
      if (how !== 'finish') await remote.request(queue);
      const behind = hold(locks, queue, { mode: 'shared' });
      const next = [exclusive, stolen, ...shared].map((name) => hold(locks, name));
      await remote.end(how);
      for (const lock of await Promise.all(next)) await lock.release();
      await behind;
      assert.deepEqual(await stateOf(locks, queue), { held: ['shared', 'shared'], pending: [] });
      await Promise.all([reader.release(), (await behind).release()]);
      const { held, pending } = await locks.query();
      assert.deepEqual([...held, ...pending], []);
    });
  }
});

const NEVER = 'new Promise(() => setInterval(() => {}, 1e6))';

/** What a worker does with the lock `name` when it is terminated, and then this thread. */
const MOMENTS = {
  'inside request(), which it calls all the time': {
    source: `
      post('ready');
      for (let i = 0; ; i++) {
        locks.request(name, { mode: i % 2 ? 'shared' : 'exclusive' }, () => {});
        if (i % 3 === 0) locks.query();
      }`,
    meanwhile: () => new Promise(setImmediate),
    rounds: 60,
  },
  'inside a callback that does not return': {
    source: `locks.request(name, () => { post('ready'); for (;;); });`,
    rounds: 3,
  },
  'while its locks are handed to this thread and back': {
    source: `
      (async () => { for (;;) await locks.request(name, () => {}); })();
      locks.request(name, () => post('ready'));`,
    meanwhile: (name) => locks.request(name, () => {}),
    rounds: 100,
  },
  'while this thread steals from it': {
    source: `
      const hold = () => locks.request(name, () => { post('ready'); return ${NEVER}; }).catch(hold);
      hold();`,
    meanwhile: (name) => locks.request(name, { steal: true }, () => {}),
    rounds: 10,
  },
  'while it is granted a lock and blocked by Atomics.wait()': {
    source: `
      locks.request(name, () => ${NEVER});
      post('ready');
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);`,
    isHeldHere: true,
    rounds: 1,
  },
};

describe('a worker is terminated', () => {
  for (const [moment, { source, meanwhile = () => {}, isHeldHere, rounds }] of Object.entries(
    MOMENTS,
  )) {
    it(moment, async (t) => {
      for (let round = 0; round < rounds; round += Math.ceil(rounds / 5)) {
        const name = freshName();
        const held = isHeldHere ? await hold(locks, name) : undefined;
        const worker = start(source, name);
        t.after(() => worker.terminate());
        await once(worker, 'message');
        await held?.release();
        for (let i = 0; i < round; i++) await meanwhile(name);
        await worker.terminate();
        await locks.request(name, () => {});
        assert.deepEqual(await stateOf(locks, name), FREE);
      }
    });
  }

  it('while it loads the package', async () => {
    const source = `for (;;) {
      for (const key of Object.keys(require.cache)) delete require.cache[key];
      require(${JSON.stringify(require.resolve('../../lib/index.js'))});
    }`;
    for (let round = 0; round < 20; round++) {
      const worker = new Worker(source, { eval: true });
      for (let i = 0; i < round * 100; i++) await new Promise(setImmediate);
      await worker.terminate();
    }
    await locks.request(freshName(), () => {});
  });

  it('while it runs out of heap with a lock in its hands', async () => {
    const name = freshName();
    const source = 'locks.request(name, () => { let list; for (;;) list = { list }; });';
    const worker = start(source, name, { resourceLimits: { maxOldGenerationSizeMb: 32 } });
    const [error] = await once(worker, 'error');
    assert.equal(error.code, 'ERR_WORKER_OUT_OF_MEMORY');
    await locks.request(name, () => {});
  });
});
