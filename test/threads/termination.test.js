// slow: 40

'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks } = require('../../lib/index.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

/** How a worker can end, and the stages of a request it can be at. */
const endings = ['terminate', 'process.exit', 'throw', 'finish'];

async function startAndFail(t) {
  const remote = await RemoteAgent.start(t);
  remote.worker.on('error', () => {}); // of the 'throw' ending
  return remote;
}

for (const how of endings) {
  describe(`2.6 Termination of locks: a worker ends by ${how}`, () => {
    it('its lock goes to the next in line', async (t) => {
      const name = freshName();
      const remote = await startAndFail(t);
      await remote.hold(name);
      const next = hold(locks, name);
      await remote.end(how);
      await (await next).release();
      assert.deepEqual(await stateOf(locks, name), FREE);
    });

    it('its pending requests vanish and those behind them move up', async (t) => {
      const name = freshName();
      const held = await hold(locks, name, { mode: 'shared' });
      const remote = await startAndFail(t);
      await remote.request(name);
      await remote.request(name, { mode: 'shared' });
      const behind = hold(locks, name, { mode: 'shared' });
      // A pending request keeps the worker alive: it does not finish by itself.
      await remote.end(how === 'finish' ? 'terminate' : how);
      await behind;
      assert.deepEqual(await stateOf(locks, name), { held: ['shared', 'shared'], pending: [] });
      await Promise.all([held.release(), (await behind).release()]);
    });

    it('all of its shared locks and locks of many names are released', async (t) => {
      const names = Array.from({ length: 20 }, () => freshName());
      const remote = await startAndFail(t);
      for (const name of names) {
        await remote.hold(name, { mode: 'shared' });
        await remote.hold(name, { mode: 'shared' });
      }
      const writers = names.map((name) => locks.request(name, (lock) => lock.name));
      await remote.end(how);
      assert.deepEqual(await Promise.all(writers), names);
    });

    it('as a thief, its stolen lock goes to the next in line', async (t) => {
      const name = freshName();
      const remote = await startAndFail(t);
      const robbed = await hold(locks, name);
      await remote.hold(name, { steal: true });
      await assert.rejects(robbed.released, { name: 'AbortError' });
      const next = hold(locks, name);
      await remote.end(how);
      await (await next).release();
    });

    it('its agent no longer shows in query()', async (t) => {
      const remote = await startAndFail(t);
      await remote.hold(freshName());
      const { threadId } = remote.worker;
      await remote.end(how);
      const { held, pending } = await locks.query();
      const of = new RegExp(`^node-${process.pid}-${threadId}-`);
      assert.deepEqual(
        [...held, ...pending].filter(({ clientId }) => of.test(clientId)),
        [],
      );
    });
  });
}

describe('2.6 Termination of locks: at awkward moments', () => {
  it('a worker that is terminated while its request is being granted: the lock goes on', async (t) => {
    for (let i = 0; i < 20; i++) {
      const name = freshName();
      const remote = await RemoteAgent.start(t);
      const held = await hold(locks, name);
      await remote.request(name);
      const next = hold(locks, name);
      const ended = remote.end('terminate');
      await held.release();
      await ended;
      await (await next).release();
      assert.deepEqual(await stateOf(locks, name), FREE);
    }
  });

  it('a worker blocked in Atomics.wait is granted, and terminated: the lock goes on', async (t) => {
    const { Worker } = require('node:worker_threads');
    const { once } = require('node:events');
    const name = freshName();
    const held = await hold(locks, name);
    const worker = new Worker(
      `const { locks } = require(${JSON.stringify(require.resolve('../../lib/index.js'))});
       const { parentPort, workerData } = require('node:worker_threads');
       locks.request(workerData, () => new Promise(() => {}));
       parentPort.postMessage('requested');
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);`,
      { eval: true, workerData: name },
    );
    t.after(() => worker.terminate());
    await once(worker, 'message');
    await held.release();
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    const next = hold(locks, name);
    await worker.terminate();
    await (await next).release();
  });

  it('hundreds of short-lived workers, several at a time, leave nothing behind', async (t) => {
    const name = freshName();
    const before = await locks.query();
    const one = async (i) => {
      const remote = await startAndFail(t);
      await (i % 2 ? remote.request(name, { mode: 'shared' }) : remote.hold(freshName()));
      await remote.end(['terminate', 'process.exit', 'throw'][i % 3]);
    };
    const held = await hold(locks, name);
    for (let i = 0; i < 200; i += 8) {
      await Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map((j) => one(i + j)));
    }
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    await held.release();
    assert.deepEqual(await locks.query(), before);
  });

  it('a nested worker that ends with its parent frees its locks', async (t) => {
    const { Worker } = require('node:worker_threads');
    const { once } = require('node:events');
    const name = freshName();
    const entry = JSON.stringify(require.resolve('../../lib/index.js'));
    const inner = `
      require(${entry}).locks.request(${JSON.stringify(name)}, () => {
        require('node:worker_threads').parentPort.postMessage('held');
        return new Promise(() => setInterval(() => {}, 1e6));
      });`;
    const outer = new Worker(
      `const { Worker, parentPort } = require('node:worker_threads');
       new Worker(${JSON.stringify(inner)}, { eval: true }).on('message', (m) => parentPort.postMessage(m));`,
      { eval: true },
    );
    t.after(() => outer.terminate());
    await once(outer, 'message');
    const next = hold(locks, name);
    await outer.terminate();
    await (await next).release();
  });
});
