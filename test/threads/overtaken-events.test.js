'use strict';

/**
 * A theft of a lock that comes with the call that granted it: the thread has more events than one
 * call brings, and another thread steals before it has asked for the rest.
 */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { addon } = require('../../lib/backend/addon.js');
const { openBucket } = require('../../lib/index.js');

/** More than an exchange has room for. */
const MANY = 300;
const BUCKET = 'overtaken events';

/** Steals what it is told to, while the other thread is blocked. */
const THIEF = `
  const { workerData } = require('node:worker_threads');
  const { openBucket } = require(workerData.library);
  const { locks } = openBucket(workerData.bucket);
  const { state } = workerData;
  const steal = (name) => locks.request(name, { steal: true }, () => {});
  const say = (value) => {
    Atomics.store(state, 0, value);
    Atomics.notify(state, 0);
  };
  (async () => {
    for (let i = 0; i < ${MANY}; i++) await steal('many ' + i);
    say(1);
    Atomics.wait(state, 0, 1);
    await steal('last');
    say(3);
  })();
`;

/** The thief, and how to wait for what it does without letting this thread hear of it. */
function startThief(t) {
  const state = new Int32Array(new SharedArrayBuffer(4));
  const library = require.resolve('../../lib/index.js');
  const worker = new Worker(THIEF, { eval: true, workerData: { library, bucket: BUCKET, state } });
  t.after(() => worker.terminate());
  const waitWhile = (value) =>
    assert.notEqual(Atomics.wait(state, 0, value, 20_000), 'timed-out', 'the thief is there');
  return {
    stealMany: () => waitWhile(0),
    stealLast() {
      Atomics.store(state, 0, 2);
      Atomics.notify(state, 0);
      waitWhile(2);
    },
  };
}

describe('a theft that comes with the rest of the events of a call', () => {
  it('is not undone by the grant that the call answered', async (t) => {
    const { locks } = openBucket(BUCKET);
    const many = Array.from({ length: MANY }, (_, i) => locks.tryAcquireSync(`many ${i}`));
    const thief = startThief(t);
    thief.stealMany();
    const { drain } = addon;
    t.after(() => {
      addon.drain = drain;
    });
    addon.drain = (...args) => {
      addon.drain = drain;
      thief.stealLast();
      return drain(...args);
    };
    const seen = [];
    const released = locks.request('last', (lock) => seen.push(lock.held));
    await assert.rejects(released, { name: 'AbortError' });
    assert.equal(addon.drain, drain, 'the events had no room');
    assert.deepEqual(
      many.filter(({ held }) => held),
      [],
    );
    assert.deepEqual(
      seen.filter((held) => held),
      [],
    );
  });
});
