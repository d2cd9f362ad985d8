'use strict';

// Node.js's own locks (24.5 and newer) and these in situations that the specification defines.

const { once } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const workerThreads = require('node:worker_threads');

/** @param {string} module one with `locks`, of which a worker takes a lock and keeps it */
async function report(module) {
  /** @type {import('web-locks').LockManager | undefined} */
  const locks = require(module).locks;
  if (!locks) return console.log('this Node.js has no locks of its own');
  console.log(`${module}:`);
  const isGranted = async (/** @type {string} */ name) =>
    Promise.race([locks.request(name, () => 'granted'), sleep(3000, 'never granted')]);

  const code = `require(${JSON.stringify(require.resolve(module))}).locks.request('job', () => {
    require('node:worker_threads').parentPort.on('message', () => {}).postMessage('holds it');
    return new Promise(() => {});
  });`;
  const worker = new workerThreads.Worker(code, { eval: true });
  await once(worker, 'message');
  console.log('  locks that query() sees of another thread:', (await locks.query()).held.length);
  const next = isGranted('job');
  await worker.terminate();
  console.log('  a request whose holder was terminated:', await next);

  const failing = locks.request('fails', () => JSON.parse('{'));
  await failing.catch(() => {});
  console.log('  a request after a callback that threw:', await isGranted('fails'));
}

report('node:worker_threads')
  .then(() => report('web-locks'))
  .then(() => process.exit());
