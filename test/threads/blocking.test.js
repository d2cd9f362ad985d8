// slow: 5

'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { locks } = require('../../lib/index.js');
const { FREE, HELD, freshName, hold, stateOf } = require('../helpers/locks.js');
const { start } = require('../helpers/worker.js');

const library = JSON.stringify(require.resolve('../../lib/index.js'));
const helper = JSON.stringify(require.resolve('../helpers/worker.js'));

/** Source code that posts once a thread waits for the lock. */
const TELL_WHEN_BLOCKED = `
  const look = async () => {
    if ((await locks.query()).pending.some((info) => info.name === name)) post('blocked');
    else setImmediate(look);
  };
  look();`;
const BLOCK = 'locks.acquireSync(name);';
/** Source code that holds the lock, and starts a worker that waits for it. */
const HOLD_AND_BLOCK = `
  locks.request(name, () => new Promise(() => {}));
  ${TELL_WHEN_BLOCKED}
  start(${JSON.stringify(BLOCK)}, name);`;

describe('a thread that blocks for a lock', () => {
  it('is ended by worker.terminate(), and its request with it', async (t) => {
    const name = freshName();
    const held = await hold(locks, name);
    const worker = start(BLOCK, name);
    t.after(() => worker.terminate());
    while ((await stateOf(locks, name)).pending.length === 0) await new Promise(setImmediate);
    await worker.terminate();
    assert.deepEqual(await stateOf(locks, name), HELD);
    await held.release();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  for (const [how, end] of [
    ['is terminated', (worker) => worker.terminate()],
    ['calls process.exit()', (worker) => worker.postMessage(3)],
  ]) {
    it(`ends with the worker that started it, which holds the lock and ${how}`, async (t) => {
      const name = freshName();
      const worker = start(`${HOLD_AND_BLOCK} parentPort.on('message', process.exit);`, name);
      t.after(() => worker.terminate());
      await once(worker, 'message');
      const exited = once(worker, 'exit');
      end(worker);
      await exited;
      assert.deepEqual(await stateOf(locks, name), FREE);
    });
  }
});

/** A main thread whose workers hold a lock and block for it; it then exits with 7. */
const BLOCKED_WORKERS = `
  const worker = start(${JSON.stringify(`
    locks.request(name, () => { post('held'); return new Promise(() => {}); });
    ${TELL_WHEN_BLOCKED}`)}, 'x');
  worker.on('message', (what) => {
    if (what === 'held') start(${JSON.stringify(BLOCK)}, 'x');
    else process.exit(7);
  });`;
const THROW = `process.on('exit', () => { throw new Error('no'); });`;

describe('a process ends while a worker blocks for a lock that another worker holds', () => {
  for (const [title, source] of [
    ['although the main thread has not loaded the package', BLOCKED_WORKERS],
    [
      'although its listeners were removed',
      `require(${library}); process.removeAllListeners('exit'); ${BLOCKED_WORKERS}`,
    ],
    ['although a listener throws', `${THROW} require(${library}); ${BLOCKED_WORKERS}`],
    [
      'when it exits again after it failed to exit, and the worker got its lock in between',
      `const { locks } = require(${library});
       locks.request('x', () => new Promise((release) => {
         const worker = start("locks.acquireSync(name); post('had it')", 'x');
         worker.on('message', () => process.exit(7));
         const look = async () => {
           if ((await locks.query()).pending.length === 0) return setImmediate(look);
           process.once('exit', () => { throw new Error('no'); });
           try { process.exit(1); } catch {}
           release();
         };
         look();
       }));`,
    ],
  ]) {
    it(title, async () => {
      const program = `const { start } = require(${helper}); ${source}`;
      const stdio = ['ignore', 'inherit', 'ignore'];
      const [code] = await once(spawn(process.execPath, ['-e', program], { stdio }), 'exit');
      assert.equal(code, 7);
    });
  }
});
