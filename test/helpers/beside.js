'use strict';

/** Runs another thread while this one is blocked and receives no messages. */

const assert = require('node:assert/strict');
const { Worker } = require('node:worker_threads');

const library = require.resolve('../../lib/index.js');

/** A thread needs far less to start, even on a busy machine. */
const LIMIT_MS = 120_000;

/**
 * Runs the body of an async function in a worker. Both threads share a state, at first 0:
 * `say(value)` sets it, and `waitWhile(value)` blocks until it is another value. The body can use
 * these two functions, `library` and the members of `data`.
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
