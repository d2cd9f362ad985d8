// slow: 3

'use strict';

/** Blocking threads. programs.test.js tests what blocks within one thread. */

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { DeadlockError, LockTimeoutError, Mutex, locks, needs } = require('../helpers/scope.js');
const { FREE, HELD, freshName, hold, stateOf, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');
const { start } = require('../helpers/worker.js');

const library = JSON.stringify(require.resolve('../fixtures/library.js'));
const SHARED = { mode: 'shared' };
const LONG = { timeout: 60_000 };

/** @returns a name that another agent holds, and its lock */
async function heldElsewhere(t) {
  const name = freshName();
  const other = await RemoteAgent.start(t);
  return { name, other, held: await other.hold(name) };
}

describe('locks.acquireSync', needs('sync'), () => {
  it('blocks the main thread until a worker releases, and the other way round', async (t) => {
    const name = freshName();
    const source = `
      for (let i = 0; i < 200; i++) locks.acquireSync(name).release();
      post('done');`;
    const worker = start(source, name);
    t.after(() => worker.terminate());
    const done = once(worker, 'message');
    await once(worker, 'online');
    for (let i = 0; i < 200; i++) locks.acquireSync(name, LONG).release();
    await done;
  });

  it('throws a TimeoutError when the time is over, and leaves the queue', async (t) => {
    const { name, held } = await heldElsewhere(t);
    const [soon, never] = [20, 1e9];
    for (const options of [
      { timeout: 0 },
      { timeout: soon, maxTotal: never },
      { timeout: never, maxTotal: soon },
      { maxTotal: soon },
    ]) {
      const acquire = () => locks.acquireSync(name, options);
      const least = Math.min(...Object.values(options));
      assert.throws(acquire, (error) => error instanceof LockTimeoutError && error.waited >= least);
    }
    assert.deepEqual(await stateOf(locks, name), HELD);
    held.release();
  });

  /** Checks that it throws a DeadlockError with both requests, or the request and the lock. */
  function rejectsDeadlock(name, options, cycle, message) {
    assert.throws(
      () => locks.acquireSync(name, { timeout: 1e9, label: 'later', ...options }),
      (error) => {
        assert.ok(error instanceof DeadlockError, error);
        assert.deepEqual(valuesOf(error.cycle, 'label'), cycle);
        assert.match(error.message, message);
        return true;
      },
    );
  }

  it('throws at once if a request of its own thread is ahead, which the error names', async (t) => {
    const { name, held } = await heldElsewhere(t);
    const ahead = locks.request(name, { label: 'earlier' }, () => {});
    const message = /: .*"later"\) waits for .*, requested before by .*"earlier"\)\.$/;
    rejectsDeadlock(name, {}, ['later', 'earlier'], message);
    held.release();
    await ahead;
  });

  it('names one of the shared locks that the thread holds', needs('firstOfSeveral'), async () => {
    const name = freshName();
    const readers = ['one', 'two'].map((label) => locks.tryAcquireSync(name, { ...SHARED, label }));
    rejectsDeadlock(name, {}, ['later', 'one'], /: .*"later"\) waits for .*, held by .*"one"\)\.$/);
    for (const reader of readers) reader.release();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it("throws if another agent's request waits for a shared lock of the thread", async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const reader = await hold(locks, name, SHARED);
    const writer = await other.request(name);
    assert.throws(() => locks.acquireSync(name, { ...SHARED, timeout: 1e9 }), DeadlockError);
    await reader.release();
    await writer.granted;
    writer.release();
    await writer.settled;
  });

  it('waits behind requests of its thread that may end later: shared, waitForUnlock', async (t) => {
    const { name, other, held } = await heldElsewhere(t);
    const unlocked = new Mutex(name).waitForUnlock();
    held.release();
    locks.acquireSync(name, LONG).release();
    await unlocked;
    const again = await other.hold(name);
    const ahead = hold(locks, name, SHARED);
    again.release();
    const reader = locks.acquireSync(name, { ...SHARED, ...LONG });
    await (await ahead).release();
    reader.release();
  });

  it('promises of the thread settle after it, not during it', async (t) => {
    const { name, other, held } = await heldElsewhere(t);
    const second = await other.hold(`${name} two`);
    let granted = false;
    const asynchronous = locks.request(`${name} two`, () => {
      granted = true;
    });
    second.release();
    held.release();
    locks.acquireSync(name, LONG).release();
    assert.equal(granted, false);
    await asynchronous;
    assert.equal(granted, true);
  });

  it('throws when a request gets ahead so that the thread waits for itself', async () => {
    const name = freshName();
    const unit = { mode: 'shared', limit: 2 };
    const held = await hold(locks, name, unit);
    const source = `
      const own = locks.acquireSync(name, { mode: 'shared', limit: 2 });
      try {
        locks.acquireSync(name, { mode: 'shared', limit: 2 });
      } catch (error) {
        post([error.name, error.cycle.length]);
      }
      own.release();`;
    const worker = start(source, name);
    const exited = once(worker, 'exit');
    const told = once(worker, 'message');
    while ((await locks.query({ name })).pending.length < 1) await new Promise(setImmediate);
    const urgent = locks.request(name, { priority: 1 }, () => 'granted');
    assert.deepEqual(await told, [['DeadlockError', 2]]);
    await held.release();
    assert.equal(await urgent, 'granted');
    await exited;
  });

  it('process.exit() ends the process while a worker blocks', async () => {
    const script = `
      const { Worker } = require('node:worker_threads');
      const { locks } = require(${library});
      locks.request('x', () => new Promise(() => {}));
      const source = 'require(' + ${JSON.stringify(library)} + ").locks.acquireSync('x')";
      new Worker(source, { eval: true });
      const look = async () => {
        if ((await locks.query()).pending.length === 1) process.exit(7);
        setImmediate(look);
      };
      look();`;
    const child = spawn(process.execPath, ['-e', script], { stdio: 'inherit' });
    assert.deepEqual(await once(child, 'exit'), [7, null]);
  });
});
