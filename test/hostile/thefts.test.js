// slow: 11

'use strict';

// Thefts at moments at which nobody expects them, and what else a fresh reader found.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const install = require('../../lib/install.js');
const { locks } = require('../../lib/index.js');
const { run } = require('../helpers/program.js');
const { nothing } = require('../helpers/locks.js');

describe('a theft between the last grant and the hand-over', () => {
  for (const ticks of [0, 1, 2, 3, 4, 5, 6, 7, 8]) {
    it(`after ${ticks} microtasks: requestAll never calls back without a lock and resolves`, () =>
      run(`
        let saw;
        const all = locks.requestAll(['a', 'b'], async (taken) => {
          saw = taken.map(({ released }) => released);
          await turn();
          return 'result';
        });
        const settled = all.then(() => 'resolved', () => 'rejected');
        for (let i = 0; i < ${ticks}; i++) await null;
        await locks.request('a', { steal: true }, () => turn());
        const outcome = await settled;
        assert.deepEqual(saw ?? [false, false], [false, false]);
        assert.equal(outcome, 'rejected');
      `));
  }
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
    let signal;
    const robbed = locks.request('x', (lock) => {
      signal = lock.signal;
      return new Promise(() => {});
    });
    const outcome = robbed.catch(({ name }) => name);
    await turn();
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
    assert.equal(signal.aborted, true);
  `));

it('a handle with a time limit in a field of what acquired it is collected', async () => {
  const { warnings } = await run(
    `
    class Owner {
      async acquire() {
        this.lock = await locks.acquire('x', { timeout: 1e6 });
      }
    }
    await (async () => {
      await new Owner().acquire();
    })();
    const isFree = async () => (await locks.query()).held.length === 0;
    while (!(await isFree())) {
      gc();
      await turn();
    }
  `,
  );
  assert.equal(warnings.length, 1);
});

it('a time limit counts from the request, whatever the thread does then', async () => {
  const held = await locks.acquire('a busy thread');
  const start = performance.now();
  const request = locks.request('a busy thread', { timeout: 30 }, () => {});
  while (performance.now() - start < 60);
  // Due long before this one.
  setTimeout(() => held.release(), 25);
  await assert.rejects(request, { name: 'TimeoutError' });
});

it('install() twice where there is no navigator, undone in the other order', () => {
  const target = {};
  const [first, second] = [install(target), install(target)];
  first();
  assert.equal(target.navigator.locks, locks);
  second();
  assert.deepEqual(Reflect.ownKeys(target), []);
});

it('an entry without a name is a TypeError', () =>
  assert.rejects(locks.requestAll([{ mode: 'shared' }], nothing), TypeError));
