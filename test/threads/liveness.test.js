// slow: 4

'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const { Worker } = require('node:worker_threads');
const { locks } = require('../../lib/index.js');
const { freshName, hold } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const entry = JSON.stringify(require.resolve('../../lib/index.js'));

/**
 * Runs a program that has `locks`, `Worker` and `inWorker(code)`; resolves to its output when it
 * exits with 0.
 */
async function run(program) {
  const prelude = `
    const { locks } = require(${entry});
    const { Worker, parentPort } = require('node:worker_threads');
    const inWorker = (code, workerData) => new Worker(
      'const { locks } = require(' + ${JSON.stringify(entry)} + ');' +
      'const { parentPort } = require("node:worker_threads");' + code, { eval: true, workerData });
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', prelude + program], {
    timeout: 60_000, // a process that does not end fails the test instead of stopping it
  });
  return stdout;
}

describe('the event loop', () => {
  it('a held lock does not keep the process alive', async () => {
    assert.equal(
      await run(
        `locks.request('a', () => { console.log('held'); return new Promise(() => {}); });`,
      ),
      'held\n',
    );
  });

  it('a held lock does not keep a worker alive', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    await remote.hold(name);
    await remote.end('finish');
    await locks.request(name, () => {});
  });

  it('a pending request keeps the process alive until it is granted', async () => {
    const out = await run(`
      const worker = inWorker(\`
        locks.request('a', () => { parentPort.postMessage('held'); return new Promise((r) => setTimeout(r, 50)); });\`);
      worker.once('message', () => {
        worker.unref();
        locks.request('a', () => console.log('granted'));
      });
    `);
    assert.equal(out, 'granted\n');
  });

  it('a pending request keeps a worker alive', async (t) => {
    const name = freshName();
    const flags = new Int32Array(new SharedArrayBuffer(4));
    const held = await hold(locks, name);
    const worker = new Worker(
      `const { parentPort, workerData: { flags, name } } = require('node:worker_threads');
       require(${entry}).locks.request(name, () => Atomics.store(flags, 0, 1));
       parentPort.postMessage('requested');`,
      { eval: true, workerData: { flags, name } },
    );
    t.after(() => worker.terminate());
    const exited = once(worker, 'exit');
    await once(worker, 'message');
    // Another worker's whole life: time enough for the first to end, had it nothing to wait for.
    await once(new Worker('', { eval: true }), 'exit');
    await held.release();
    await exited;
    assert.equal(flags[0], 1, 'the request was granted');
  });

  it('a request that was aborted does not keep the process alive', async () => {
    const out = await run(`
      locks.request('a', () => new Promise(() => {}));
      const controller = new AbortController();
      locks.request('a', { signal: controller.signal }, () => {}).catch(() => console.log('aborted'));
      controller.abort();
    `);
    assert.equal(out, 'aborted\n');
  });

  it('a request that was granted, and aborted before this thread heard of it, does not keep it alive', async () => {
    const out = await run(`
      const flags = new Int32Array(new SharedArrayBuffer(4));
      const worker = inWorker(\`
        const { workerData: flags } = require('node:worker_threads');
        locks.request('a', () => {
          parentPort.postMessage('held');
          while (Atomics.load(flags, 0) === 0);
        }).then(() => { Atomics.store(flags, 0, 2); Atomics.notify(flags, 0); });\`, flags);
      worker.once('message', () => {
        const controller = new AbortController();
        locks.request('a', { signal: controller.signal }, () => console.log('called'))
          .catch(() => console.log('aborted'));
        Atomics.store(flags, 0, 1);
        Atomics.wait(flags, 0, 1); // until the worker has released, which grants the request here
        controller.abort();
      });
    `);
    assert.equal(out, 'aborted\n');
  });

  it('the main thread exits while workers hold and wait', async () => {
    const out = await run(`
      const code = \`locks.request('a', () => { parentPort.postMessage('held'); return new Promise(() => setInterval(() => {}, 1e6)); });
        locks.request('a', () => {});\`;
      inWorker(code).once('message', () => { inWorker(code); console.log('exiting'); setTimeout(() => process.exit(0), 20); });
    `);
    assert.equal(out, 'exiting\n');
  });

  it('a grant by another thread calls back in the AsyncLocalStorage context of the request', async (t) => {
    const { AsyncLocalStorage } = require('node:async_hooks');
    const storage = new AsyncLocalStorage();
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    const there = await remote.hold(name);
    const contexts = ['one', 'two'].map((context) =>
      storage.run(context, () => locks.request(name, { mode: 'shared' }, () => storage.getStore())),
    );
    there.release();
    assert.deepEqual(await Promise.all(contexts), ['one', 'two']);
  });
});
