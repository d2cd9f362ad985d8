// slow: 5

'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { locks } = require('../../lib/index.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');
const { start } = require('../helpers/worker.js');

const library = JSON.stringify(require.resolve('../../lib/index.js'));
const helper = JSON.stringify(require.resolve('../helpers/worker.js'));

/** Source that posts when somebody waits for the lock. */
const TELL_WHEN_BLOCKED = `
  const look = async () => {
    if ((await locks.query()).pending.some((info) => info.name === name)) post('blocked');
    else setImmediate(look);
  };
  look();`;
const BLOCK = 'locks.acquireSync(name);';
/** Source that holds the lock, and has a worker of this one wait for it. */
const HOLD_AND_BLOCK = `
  locks.request(name, () => new Promise(() => {}));
  ${TELL_WHEN_BLOCKED}
  start(${JSON.stringify(BLOCK)}, name);`;

/** Resolves when somebody waits for `name`. */
async function somebodyWaits(name) {
  while ((await stateOf(locks, name)).pending.length === 0) await new Promise(setImmediate);
}

/** A worker that blocks for a lock that is held here. */
async function startBlocked(t) {
  const name = freshName();
  const held = await hold(locks, name);
  const worker = start(BLOCK, name);
  t.after(() => worker.terminate());
  await somebodyWaits(name);
  return { name, held, worker };
}

describe('a thread that blocks for a lock', () => {
  it('is ended by worker.terminate(), and its request with it', async (t) => {
    const { name, held, worker } = await startBlocked(t);
    await worker.terminate();
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    await held.release();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('ends with the worker that it is a worker of, which holds the lock', async (t) => {
    const name = freshName();
    const worker = start(HOLD_AND_BLOCK, name);
    t.after(() => worker.terminate());
    await once(worker, 'message');
    await worker.terminate();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('ends with the worker that it is a worker of, when that calls process.exit()', async (t) => {
    const name = freshName();
    const worker = start(`${HOLD_AND_BLOCK} parentPort.on('message', process.exit);`, name);
    t.after(() => worker.terminate());
    await once(worker, 'message');
    worker.postMessage(3);
    assert.deepEqual(await once(worker, 'exit'), [3]);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('is granted although the process failed to exit while it blocked', async () => {
    assert.deepEqual(
      await exitOf(`
        const { locks } = require(${library});
        locks.request('x', () => new Promise((release) => {
          const worker = start("locks.acquireSync(name); post('had it')", 'x');
          worker.on('message', () => process.exit(5));
          const look = async () => {
            if ((await locks.query()).pending.length === 0) return setImmediate(look);
            process.once('exit', () => { throw new Error('no'); });
            try { process.exit(1); } catch {}
            release();
          };
          look();
        }));`),
      [5, null],
    );
  });
});

/** How a process ends that runs `source` with `start`. */
async function exitOf(source) {
  const child = spawn(process.execPath, ['-e', `const { start } = require(${helper}); ${source}`], {
    stdio: ['ignore', 'inherit', 'ignore'],
  });
  return once(child, 'exit');
}

describe('process.exit() while a worker blocks for a lock that another holds', () => {
  const HOLD = `
    locks.request(name, () => {
      post('held');
      return new Promise(() => {});
    });
    ${TELL_WHEN_BLOCKED}`;
  const BLOCKED_WORKERS = `
    const worker = start(${JSON.stringify(HOLD)}, 'x');
    worker.on('message', (what) => {
      if (what === 'held') start(${JSON.stringify(BLOCK)}, 'x');
      else process.exit(7);
    });`;

  it('ends the process where the main thread has not loaded the package', async () => {
    assert.deepEqual(await exitOf(BLOCKED_WORKERS), [7, null]);
  });

  it('ends the process where its listeners were removed', async () => {
    const source = `require(${library}); process.removeAllListeners('exit'); ${BLOCKED_WORKERS}`;
    assert.deepEqual(await exitOf(source), [7, null]);
  });

  it('ends the process where one of its listeners throws', async () => {
    const [code] = await exitOf(
      `process.on('exit', () => { throw new Error('no'); }); require(${library}); ${BLOCKED_WORKERS}`,
    );
    assert.equal(code, 7);
  });
});
