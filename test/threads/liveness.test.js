// slow: 5

'use strict';

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { execFile } = require('node:child_process');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const { Worker } = require('node:worker_threads');
const { locks } = require('../../lib/index.js');
const { freshName, hold } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');
const { start } = require('../helpers/worker.js');

const library = JSON.stringify(require.resolve('../../lib/index.js'));
const helper = JSON.stringify(require.resolve('../helpers/worker.js'));

/** Programs that use `locks` and `start`, and their output until they end on their own. */
const PROGRAMS = {
  'a held lock does not keep the process alive': [
    `const hold = () => { console.log('held'); return new Promise(() => {}); };
     locks.request('a', { warnAfter: 1e9, holdTimeout: 1e9, maxTotal: 1e9 }, hold);`,
    'held\n',
  ],
  'a pending request keeps the process alive until it is granted': [
    `const worker = start(\`
       const hold = () => new Promise((resolve) => parentPort.once('message', resolve));
       locks.request('a', () => { post('held'); return hold(); });\`);
     worker.once('message', () => {
       worker.unref();
       locks.request('a', () => console.log('granted'));
       worker.postMessage('release');
     });`,
    'granted\n',
  ],
  'a request that was aborted does not keep the process alive': [
    `locks.request('a', () => new Promise(() => {}));
     const controller = new AbortController();
     const options = { signal: controller.signal, timeout: 1e9, warnAfter: 1e9 };
     locks.request('a', options, () => {}).catch(() => console.log('aborted'));
     controller.abort();`,
    'aborted\n',
  ],
  'a request that was granted, but aborted before its thread noticed, does not keep it alive': [
    `const flags = new Int32Array(new SharedArrayBuffer(4));
     const worker = start(\`
       locks.request('a', () => {
         post('held');
         while (Atomics.load(name, 0) === 0);
       }).then(() => { Atomics.store(name, 0, 2); Atomics.notify(name, 0); });\`, flags);
     worker.once('message', () => {
       const controller = new AbortController();
       locks.request('a', { signal: controller.signal }, () => console.log('called'))
         .catch(() => console.log('aborted'));
       Atomics.store(flags, 0, 1);
       Atomics.wait(flags, 0, 1); // until the worker's release has granted the request here
       controller.abort();
     });`,
    'aborted\n',
  ],
  'the main thread exits while workers hold and wait': [
    `const wait = () => start("locks.request('a', () => {}); post('waits');");
     start("locks.request('a', () => { post('held'); return new Promise(() => {}); });" +
       'setInterval(() => {}, 1e6);')
       .once('message', () => wait().once('message', () => process.exit(0)));`,
    '',
  ],
};

async function run(program) {
  const source = `const { locks } = require(${library}); const { start } = require(${helper});`;
  const args = ['--trace-warnings', '-e', source + program];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args);
  assert.equal(stderr, '');
  return stdout;
}

describe('the event loop', () => {
  for (const [title, [program, output]] of Object.entries(PROGRAMS))
    it(title, async () => assert.equal(await run(program), output));

  it('a held lock does not keep a worker alive', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    await remote.hold(name);
    await remote.end('finish');
    await locks.request(name, () => {});
  });

  it('a pending request keeps a worker alive', async (t) => {
    const name = freshName();
    const held = await hold(locks, name);
    const worker = start(`locks.request(name, () => process.exit(7)); post('requested');`, name);
    t.after(() => worker.terminate());
    await once(worker, 'message');
    // Another worker starts and ends meanwhile: the first would end, too, if it waited for nothing.
    await once(new Worker('', { eval: true }), 'exit');
    const exited = once(worker, 'exit');
    await held.release();
    assert.deepEqual(await exited, [7]);
  });

  it('a grant by another thread calls back in the request’s AsyncLocalStorage', async (t) => {
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

it('a program with many requests, buckets and workers prints no warning', async () => {
  const busy = `
    const { openBucket } = require(${library});
    require(${JSON.stringify(require.resolve('../../lib/install.js'))})();
    const { signal } = new AbortController();
    for (let i = 0; i < 100; i++) {
      navigator.locks.request('a', { mode: 'shared', signal }, () => new Promise(setImmediate));
      const { locks } = openBucket('b' + i + process.pid);
      locks.request('a', { steal: true }, () => {}).catch(() => {});
    }`;
  const workers = `for (let i = 0; i < 12; i++) start(${JSON.stringify(busy)});`;
  assert.equal(await run(`${workers} {${busy}}`), '');
});
