'use strict';

// Several workers use one document: readers share it, a writer has it alone, and a writer that is
// killed while it holds the lock does not block the others. Run it with `npm run demo`.

const { once } = require('node:events');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { locks } = require('web-locks');

const NAME = 'document';

/** @typedef {{ mode: import('web-locks').LockMode, work?: number }} Actor */

/**
 * An actor requests the lock, holds it for `work` milliseconds, or forever without `work`, and
 * reports what happens.
 * @param {import('node:worker_threads').MessagePort} port
 * @param {Actor} actor
 */
async function act(port, { mode, work }) {
  port.postMessage(`requests ${mode}`);
  await locks.request(NAME, { mode }, async () => {
    port.postMessage(`holds    ${mode}`);
    await new Promise((resolve) => setTimeout(resolve, work ?? 2 ** 30));
  });
  port.postMessage('released');
}

async function timeline() {
  const start = performance.now();
  /**
   * @param {string} who
   * @param {string} what
   */
  const print = (who, what) => {
    const ms = (performance.now() - start).toFixed(0).padStart(5);
    console.log(`${ms} ms  ${who.padEnd(10)} ${what}`);
  };

  /**
   * Starts an actor and waits until it has requested the lock, so that actors queue in the order
   * below.
   * @param {string} name
   * @param {Actor} actor
   */
  const begin = async (name, actor) => {
    const worker = new Worker(__filename, { workerData: actor });
    worker.on('message', (what) => print(name, what));
    await once(worker, 'message');
    return { worker, exited: once(worker, 'exit') };
  };

  const readers = [
    await begin('reader 1', { mode: 'shared', work: 200 }),
    await begin('reader 2', { mode: 'shared', work: 200 }),
  ];
  const stuck = await begin('writer 1', { mode: 'exclusive' });
  const stuckHolds = once(stuck.worker, 'message');
  const others = [
    await begin('reader 3', { mode: 'shared', work: 100 }),
    await begin('writer 2', { mode: 'exclusive', work: 100 }),
  ];

  const { held, pending } = await locks.query();
  /** @param {import('web-locks').LockInfo[]} infos */
  const list = (infos) =>
    infos.map((info) => `${info.mode} by thread ${info.clientId.split('-')[2]}`);
  print('main', `query(): held ${list(held).join(', ')}; pending ${list(pending).join(', ')}`);

  await stuckHolds;
  print('main', 'terminates writer 1, which holds the lock and will not let go');
  await stuck.worker.terminate();
  await Promise.all([...readers, ...others].map(({ exited }) => exited));

  const end = await locks.query();
  print('main', `query(): held ${end.held.length}, pending ${end.pending.length}`);
}

if (isMainThread) timeline();
else if (parentPort) act(parentPort, workerData);
