// slow: 18; long

'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const path = require('node:path');
const { it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { locks } = require('../../lib/index.js');

/** Longer by hand: `EXTENSIONS_USES=1000000 node --test test/stress/extensions.test.js`. */
const USES = Number(process.env.EXTENSIONS_USES ?? 5_000);
const ACTOR = path.join(__dirname, 'extensions-actor.js');
const COUNTERS = ['used', 'violations', 'deadlocks', 'timeouts', 'reentered', 'heldTooLong'];

it('handles, blocking, several names, deadlocks, reentrancy and limits at once, in workers that are terminated', async () => {
  const names = ['a', 'b', 'c', 'd'].map((name) => `stress of extensions ${name}`);
  const board = new Int32Array(new SharedArrayBuffer(4 * (names.length + COUNTERS.length)));
  const counted = (counter) => Atomics.load(board, names.length + COUNTERS.indexOf(counter));
  const start = () => new Worker(ACTOR, { workerData: { board, names, COUNTERS } });
  const workers = [start(), start(), start(), start()];
  const failures = [];
  const watch = (worker) => worker.on('error', (error) => failures.push(error));
  workers.forEach(watch);

  // Each thousand uses one of them is terminated, wherever it is, and another one started.
  for (let next = 1000, turn = 0; counted('used') < USES; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    if (failures.length > 0) throw failures[0];
    if (counted('used') < next) continue;
    next += 1000;
    const [worker] = workers.splice(turn % workers.length, 1);
    await worker.terminate();
    workers.push(start());
    watch(workers.at(-1));
  }
  const exits = workers.map((worker) => once(worker, 'exit'));
  for (const worker of workers) worker.postMessage('end');
  await Promise.all(exits);

  assert.deepEqual(failures, []);
  assert.equal(counted('violations'), 0);
  assert.ok(counted('deadlocks') > 0, 'no deadlock came up');
  assert.ok(counted('reentered') > 0, 'no lock was reentered');
  assert.ok(counted('heldTooLong') > 0, 'no lock was held too long');
  const { held, pending } = await locks.query();
  assert.deepEqual(
    [...held, ...pending].filter(({ name }) => names.includes(name)),
    [],
  );
});
