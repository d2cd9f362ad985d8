// slow: 11

'use strict';
const { describe, it } = require('node:test');
const { run } = require('../helpers/program.js');

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
