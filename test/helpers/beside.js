'use strict';

/** Another thread that goes on while this one is blocked, and hears of nothing. */

const assert = require('node:assert/strict');
const { Worker } = require('node:worker_threads');

const library = require.resolve('../../lib/index.js');

/** Far more than a thread needs to start on a busy machine. */
const LIMIT_MS = 120_000;

/**
 * Runs the body of an async function in a worker. It finds `library`, the members of `data`, and, as
 * this function returns them, `say`, which changes the state of both (0 at first), and `waitWhile`,
 * which blocks until the state is another one.
 */
function startBeside(t, source, data = {}) {
  const state = new Int32Array(new SharedArrayBuffer(4));
  const code = `
    const { ${['state', 'library', ...Object.keys(data)].join()} } =
      require('node:worker_threads').workerData;
    const say = (value) => {
      Atomics.store(state, 0, value);
      Atomics.notify(state, 0);
    };
    const waitWhile = (value) => Atomics.wait(state, 0, value);
    (async () => {${source}})();`;
  const worker = new Worker(code, { eval: true, workerData: { state, library, ...data } });
  t.after(() => worker.terminate());
  return {
    say(value) {
      Atomics.store(state, 0, value);
      Atomics.notify(state, 0);
    },
    waitWhile: (value) =>
      assert.notEqual(Atomics.wait(state, 0, value, LIMIT_MS), 'timed-out', 'the thread is there'),
  };
}

module.exports = { startBeside };
