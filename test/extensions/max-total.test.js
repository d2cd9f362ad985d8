'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { after, describe, it } = require('node:test');
const { LockTimeoutError, Mutex, locks, needs } = require('../helpers/scope.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');

/** Nothing else keeps the event loop alive while a lock is held. */
const awake = setInterval(() => {}, 2 ** 30);
after(() => clearInterval(awake));

const lost = async ({ signal }) => signal.aborted || once(signal, 'abort');

describe('the option maxTotal', () => {
  it('ends the wait, as a timeout does', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const asked = locks.request(name, { maxTotal: 5 }, () => assert.fail('called'));
    const error = await asked.then(assert.fail, (reason) => reason);
    assert.ok(error instanceof LockTimeoutError);
    assert.ok(error.waited >= 4 && error.held === 0);
    assert.equal((await stateOf(locks, name)).pending.length, 0);
    await held.release();
  });

  it('ends the hold, as a holdTimeout does, and says which of both it was', async () => {
    const name = freshName('report');
    const reasons = await Promise.all(
      [
        { maxTotal: 500, holdTimeout: 1e6 },
        { maxTotal: 1e6, holdTimeout: 500 },
      ].map((options, i) =>
        locks.request(`${name} ${i}`, options, lost).then(assert.fail, (reason) => reason),
      ),
    );
    for (const reason of reasons) assert.ok(reason instanceof LockTimeoutError);
    assert.match(reasons[0].message, / was released after [\d,]+ ms: its 'maxTotal' is 500 ms\.$/);
    assert.match(
      reasons[1].message,
      / was released after [\d,]+ ms: its 'holdTimeout' is 500 ms\.$/,
    );
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('leaves to the hold what the wait has left', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const began = performance.now();
    let isLate = false;
    const asked = locks.request(name, { maxTotal: 1000 }, (lock) => {
      // Of timers that are due at once the one that was to come first does.
      setTimeout(() => {
        isLate = true;
      }, 950);
      return lost(lock);
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    await held.release();
    const { held: time, waited } = await asked.then(assert.fail, (reason) => reason);
    assert.ok(performance.now() - began >= 999);
    assert.ok(waited >= 99 && time >= 1, `${waited} ${time}`);
    assert.ok(!isLate, 'it began with the grant');
  });

  it('does nothing to what ends in time', async () => {
    const name = freshName();
    assert.equal(await locks.request(name, { maxTotal: 1e6 }, () => 'done'), 'done');
    const handle = await locks.acquire(name, { maxTotal: 5e9, ifAvailable: true });
    assert.equal(handle.held, true);
    await handle.release();
  });

  it('is about the whole of several locks', async () => {
    const [one, other] = [freshName('a'), freshName('b')];
    const held = await hold(locks, other);
    const asked = locks.requestAll([one, other], { maxTotal: 20 }, () => assert.fail('called'));
    await assert.rejects(asked, LockTimeoutError);
    await held.release();
    // So long that a server grants them in it.
    const handles = await locks.acquireAll([one, other], { maxTotal: 500 });
    await Promise.all(handles.locks.map(lost));
    // Which also keeps the handles from being collected, and so released, before.
    assert.ok(handles.locks.every(({ held }) => !held));
    assert.deepEqual(await stateOf(locks, one), FREE);
  });

  it('goes with a Mutex', async () => {
    const mutex = new Mutex(freshName());
    await assert.rejects(mutex.runExclusive(lost, { maxTotal: 5 }), LockTimeoutError);
    await assert.rejects(mutex.tryAcquire({ maxTotal: 5 }), TypeError);
  });

  it('limits how long acquireSync blocks, in place of a timeout', needs('sync'), async () => {
    const name = freshName();
    const held = await hold(locks, name, { mode: 'shared' });
    const code = { name: 'DeadlockError' };
    assert.throws(() => locks.acquireSync(name, { maxTotal: 5 }), code);
    await held.release();
    const handle = locks.acquireSync(name, { maxTotal: 5 });
    await lost(handle);
    assert.equal(handle.released, true);
  });
});
