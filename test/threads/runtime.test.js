// slow: 24; long

'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const { Worker } = require('node:worker_threads');
const { locks } = require('../../lib/index.js');
const { FREE, freshName, stateOf } = require('../helpers/locks.js');

const entry = JSON.stringify(require.resolve('../../lib/index.js'));

/** Starts a worker, lets it run until `until` of it resolves, and terminates it there. */
async function terminateAt(code, workerData, until) {
  const worker = new Worker(
    `const { workerData, parentPort } = require('node:worker_threads'); ${code}`,
    { eval: true, workerData },
  );
  await until(worker);
  await worker.terminate();
}

/** A number of turns of this thread's event loop, while the worker goes on by itself. */
const turns = (count) => async () => {
  for (let i = 0; i < count; i++) await new Promise(setImmediate);
};

describe('races with the runtime: a worker is terminated', () => {
  it('while it loads the package', async () => {
    const code = `for (;;) {
      for (const key of Object.keys(require.cache)) delete require.cache[key];
      require(${entry});
    }`;
    for (let i = 0; i < 40; i++) await terminateAt(code, null, turns(i * 50));
    await locks.request(freshName(), () => {});
  });

  it('inside request(), which it calls all the time', async () => {
    const name = freshName();
    const code = `
      const { locks } = require(${entry});
      parentPort.postMessage('loaded');
      for (let i = 0; ; i++) {
        locks.request(workerData, { mode: i % 2 ? 'shared' : 'exclusive' }, () => {});
        if (i % 3 === 0) locks.query();
      }`;
    for (let i = 0; i < 10; i++)
      await terminateAt(code, name, (worker) => once(worker, 'message').then(turns(i * 20)));
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('inside a callback that does not return', async () => {
    const name = freshName();
    const code = `require(${entry}).locks.request(workerData, () => { parentPort.postMessage('in'); for (;;); });`;
    for (let i = 0; i < 5; i++) {
      await terminateAt(code, name, (worker) => once(worker, 'message'));
      await locks.request(name, () => {});
    }
  });

  it('while locks are handed to and fro between it and this thread', async () => {
    const name = freshName();
    const code = `
      const { locks } = require(${entry});
      (async () => { for (;;) await locks.request(workerData, () => {}); })();
      locks.request(workerData, () => parentPort.postMessage('in'));`;
    for (let i = 0; i < 15; i++) {
      await terminateAt(code, name, async (worker) => {
        await once(worker, 'message');
        for (let j = 0; j < i * 10; j++) await locks.request(name, () => {});
      });
    }
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('while this thread steals from it', async () => {
    const name = freshName();
    const code = `
      const { locks } = require(${entry});
      const hold = () => locks.request(workerData, () => { parentPort.postMessage('in'); return new Promise(() => {}); }).catch(hold);
      hold();
      setInterval(() => {}, 1e6);`;
    for (let i = 0; i < 15; i++) {
      await terminateAt(code, name, async (worker) => {
        await once(worker, 'message');
        for (let j = 0; j < i; j++) await locks.request(name, { steal: true }, () => {});
      });
    }
    await locks.request(name, () => {});
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('while it runs out of heap with a lock in its hands', async () => {
    const name = freshName();
    const worker = new Worker(
      `const { locks } = require(${entry});
       const { workerData } = require('node:worker_threads');
       locks.request(workerData, () => { let list; for (;;) list = { list }; });`,
      { eval: true, workerData: name, resourceLimits: { maxOldGenerationSizeMb: 32 } },
    );
    const [error] = await once(worker, 'error');
    assert.equal(error.code, 'ERR_WORKER_OUT_OF_MEMORY');
    await locks.request(name, () => {});
  });
});

describe('a whole program', () => {
  it('prints no warning', async () => {
    const program = `
      const { locks, openBucket } = require(${entry});
      const { Worker, isMainThread, threadId } = require('node:worker_threads');
      require('web-locks/install')();
      const { signal } = new AbortController();
      const all = [];
      for (let i = 0; i < 100; i++) {
        all.push(navigator.locks.request('a', { mode: 'shared', signal }, () => new Promise(setImmediate)));
        all.push(openBucket('b' + i + ' ' + threadId).locks.request('a', { steal: true }, () => {}));
      }
      Promise.all(all).then(() => locks.query());
      if (isMainThread) for (let i = 0; i < 12; i++) new Worker(__filename);
    `;
    const { writeFileSync, mkdtempSync, rmSync } = require('node:fs');
    const path = require('node:path');
    // Inside the package, so that it resolves by its own name.
    const folder = mkdtempSync(path.join(__dirname, 'program-'));
    try {
      const file = path.join(folder, 'program.js');
      writeFileSync(file, program);
      const { stdout, stderr } = await promisify(execFile)(process.execPath, [
        '--trace-warnings',
        file,
      ]);
      assert.equal(stdout + stderr, '');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
