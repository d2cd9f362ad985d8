// slow: 3

'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { DeadlockError, LockTimeoutError, Mutex, locks, needs } = require('../helpers/scope.js');
const { FREE, freshName, hold, stateOf, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const library = JSON.stringify(require.resolve('../fixtures/library.js'));

/** A worker that runs `source` with `locks`, `post` and its `workerData`. */
function start(source, workerData, options) {
  const code = `
    const { parentPort, workerData } = require('node:worker_threads');
    const { locks } = require(${library});
    const post = (message) => parentPort.postMessage(message);
    ${source}`;
  return new Worker(code, { eval: true, workerData, ...options });
}

describe('locks.acquireSync', needs('sync'), () => {
  it('blocks the main thread until a worker releases, and the other way round', async (t) => {
    const name = freshName();
    const worker = start(
      `for (let i = 0; i < 200; i++) locks.acquireSync(workerData).release();
       post('done');`,
      name,
    );
    t.after(() => worker.terminate());
    const done = once(worker, 'message');
    await once(worker, 'online');
    for (let i = 0; i < 200; i++) locks.acquireSync(name, { timeout: 60_000 }).release();
    await done;
  });

  it('throws a TimeoutError when the time is over, and leaves the queue', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const held = await other.hold(name);
    assert.throws(
      () => locks.acquireSync(name, { timeout: 20 }),
      (error) => error instanceof LockTimeoutError && error.waited >= 20,
    );
    assert.throws(() => locks.acquireSync(name, { timeout: 0 }), LockTimeoutError);
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    held.release();
  });

  it('throws at once where a request of the thread itself is ahead, and tells it', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const held = await other.hold(name);
    const ahead = locks.request(name, { label: 'earlier' }, () => {});
    assert.throws(
      () => locks.acquireSync(name, { timeout: 1e9, label: 'later' }),
      (error) =>
        error instanceof DeadlockError &&
        /: .*"later"\) waits for .*, requested before by .*"earlier"\)\.$/.test(error.message) &&
        valuesOf(error.cycle, 'label').join() === 'later,earlier',
    );
    held.release();
    await ahead;
  });

  it(
    'tells the request and one lock where the thread holds two shared ones',
    needs('firstOfSeveral'),
    async () => {
      const name = freshName();
      const readers = ['one', 'two'].map((label) =>
        locks.tryAcquireSync(name, { mode: 'shared', label }),
      );
      assert.throws(
        () => locks.acquireSync(name, { timeout: 1e9, label: 'writer' }),
        ({ cycle, message }) =>
          cycle.length === 2 &&
          cycle.every((entry) => entry.name === name && !('isHeld' in entry)) &&
          [cycle[0].label, cycle[0].mode].join() === 'writer,exclusive' &&
          [cycle[1].label, cycle[1].mode].join() === 'one,shared' &&
          /: .*"writer"\) waits for .*, held by .*"one"\)\.$/.test(message),
      );
      for (const reader of readers) reader.release();
      assert.deepEqual(await stateOf(locks, name), FREE);
    },
  );

  it('waits behind what only waits for the unlock in the thread, which holds nothing', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const held = await other.hold(name);
    const unlocked = new Mutex(name).waitForUnlock();
    held.release();
    locks.acquireSync(name, { timeout: 60_000 }).release();
    await unlocked;
  });

  it('waits behind a shared request of the thread: they are granted together', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const held = await other.hold(name);
    const ahead = hold(locks, name, { mode: 'shared' });
    held.release();
    const reader = locks.acquireSync(name, { mode: 'shared', timeout: 60_000 });
    await (await ahead).release();
    reader.release();
  });

  it("throws where somebody's request waits for a shared lock of the thread", async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const reader = await hold(locks, name, { mode: 'shared' });
    const writer = await other.request(name);
    const options = { mode: 'shared', timeout: 1e9 };
    assert.throws(() => locks.acquireSync(name, options), DeadlockError);
    await reader.release();
    await writer.granted;
    writer.release();
    await writer.settled;
  });

  it('promises of the thread settle after it, not during it', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const [one, two] = [await other.hold(name), await other.hold(`${name} two`)];
    let granted = false;
    const asynchronous = locks.request(`${name} two`, () => {
      granted = true;
    });
    two.release();
    one.release();
    locks.acquireSync(name, { timeout: 60_000 }).release();
    assert.equal(granted, false);
    await asynchronous;
    assert.equal(granted, true);
  });

  it('throws when somebody gets ahead so that the thread waits for itself', async () => {
    const name = freshName();
    const unit = { mode: 'shared', limit: 2 };
    const held = await hold(locks, name, unit);
    const worker = start(
      `const options = { mode: 'shared', limit: 2 };
       const own = locks.acquireSync(workerData, options);
       try {
         locks.acquireSync(workerData, options);
       } catch ({ name, cycle }) {
         post({ name, cycle });
       }
       own.release();`,
      name,
    );
    const exited = once(worker, 'exit');
    const told = once(worker, 'message');
    while ((await locks.query({ name })).pending.length < 1) await new Promise(setImmediate);
    const urgent = locks.request(name, { priority: 1 }, () => 'granted');
    const [{ name: error, cycle }] = await told;
    assert.deepEqual([error, cycle.length], ['DeadlockError', 2]);
    await held.release();
    assert.equal(await urgent, 'granted');
    await exited;
  });

  it('process.exit() ends the process while a worker blocks', async () => {
    const { spawn } = require('node:child_process');
    const script = `
      const { Worker } = require('node:worker_threads');
      const { locks } = require(${library});
      locks.request('x', () => new Promise(() => {}));
      new Worker("require('node:worker_threads'); require(" + ${JSON.stringify(library)} + ").locks.acquireSync('x')", { eval: true });
      const look = async () => {
        if ((await locks.query()).pending.length === 1) process.exit(7);
        setImmediate(look);
      };
      look();`;
    const child = spawn(process.execPath, ['-e', script], { stdio: 'inherit' });
    assert.deepEqual(await once(child, 'exit'), [7, null]);
  });
});
