'use strict';

/** The content of a DeadlockError. programs.test.js tests when one is thrown. */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { DeadlockError, locks, needs } = require('../helpers/scope.js');
const {
  FREE,
  freshName,
  notCalled,
  rejectionOf,
  stateOf,
  valuesOf,
} = require('../helpers/locks.js');
const { start } = require('../helpers/worker.js');

const REJECT = { deadlock: 'reject' };

describe("deadlock: 'reject'", needs('deadlock'), () => {
  it('rejects a request inside of a lock that it waits for, with both of them', async () => {
    const name = freshName();
    await locks.request(name, { ...REJECT, label: 'outer' }, async (lock) => {
      const asked = locks.request(name, { ...REJECT, label: 'inner' }, notCalled);
      const error = await rejectionOf(asked);
      assert.ok(error instanceof DeadlockError && error instanceof DOMException);
      assert.deepEqual([error.name, error.lockName], ['DeadlockError', name]);
      assert.deepEqual(valuesOf(error.cycle, 'name', 'label'), [
        [name, 'inner'],
        [name, 'outer'],
      ]);
      assert.match(error.message, /inner.*outer/);
      assert.equal(lock.signal.aborted, false);
    });
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('rejects the request of the last of several threads that wait in a circle', async (t) => {
    const names = [0, 1, 2].map((i) => freshName(`ring ${i}`));
    const state = new Int32Array(new SharedArrayBuffer(4));
    const workers = names.map((outer, i) => {
      const source = `
        const { outer, inner, state } = name;
        locks.request(outer, { deadlock: 'reject', label: 'of ' + outer }, async () => {
          Atomics.add(state, 0, 1);
          Atomics.notify(state, 0);
          for (let n; (n = Atomics.load(state, 0)) < 3; ) Atomics.wait(state, 0, n);
          return locks.request(inner, { deadlock: 'reject' }, () => 'both');
        }).then((value) => post({ value }), ({ name, cycle }) => post({ name, cycle }));`;
      const worker = start(source, { outer, inner: names[(i + 1) % 3], state });
      t.after(() => worker.terminate());
      return once(worker, 'message');
    });
    const results = (await Promise.all(workers)).flat();
    const [{ cycle }, ...others] = results.filter(({ name }) => name === 'DeadlockError');
    assert.deepEqual(
      [others.length, results.filter(({ value }) => value === 'both').length],
      [0, 2],
    );
    assert.deepEqual([cycle.length, new Set(valuesOf(cycle, 'threadId')).size], [6, 3]);
    assert.ok(cycle.every(({ label }, i) => i % 2 === 0 || label.startsWith('of ')));
  });
});
