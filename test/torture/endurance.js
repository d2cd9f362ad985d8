'use strict';

/**
 * Makes many requests and starts many short-lived workers in one process; memory must not grow.
 *
 *   npm run endurance -- --requests 10000000 --workers 5000
 *
 * After each tenth it prints the resident memory and, in a checked build
 * (docs/internals/reliability.md), the core's live allocations.
 */

const { once } = require('node:events');
const { parseArgs } = require('node:util');
const { Worker } = require('node:worker_threads');
const { locks, openBucket } = require('../../lib/index.js');
const { liveBlocks } = require('../../lib/backend/native.js');
const { gc } = require('../helpers/kept.js');

/** The program of a worker. Each worker ends in another way. */
const WORKER = `
  const { locks, openBucket } = require(${JSON.stringify(require.resolve('../../lib/index.js'))});
  const { workerData } = require('node:worker_threads');
  const never = () => new Promise(() => {});
  locks.request('endurance ' + workerData, never);
  locks.request('endurance', { mode: 'shared' }, () => {});
  openBucket('endurance ' + workerData).locks.request('a', never);
  if (workerData % 3 === 0) locks.request('endurance ' + workerData, () => {});
  if (workerData % 3 < 2) setImmediate(() => process.exit(0));
`;

async function requestMany(count) {
  const batch = 1000;
  const pending = [];
  for (let i = 0; i < count; i++) {
    const controller = i % 7 === 0 ? new AbortController() : undefined;
    const options = { mode: i % 3 ? 'shared' : 'exclusive', signal: controller?.signal };
    const manager = i % 1009 === 0 ? openBucket(`bucket ${i}`).locks : locks;
    pending.push(
      manager.request(`endurance ${i % 97} ${i % 13}`, options, () => {}).catch(() => {}),
    );
    controller?.abort();
    if (pending.length === batch) await Promise.all(pending.splice(0));
  }
  await Promise.all(pending);
}

async function startMany(count, first) {
  for (let i = 0; i < count; i += 8) {
    const exits = Array.from({ length: Math.min(8, count - i) }, (_, j) =>
      once(new Worker(WORKER, { eval: true, workerData: first + i + j }), 'exit'),
    );
    await Promise.all(exits);
  }
}

/** Collects garbage. @returns the memory in MB, and the core's live allocations if counted */
async function measure() {
  for (let i = 0; i < 3; i++) {
    gc();
    await new Promise(setImmediate);
  }
  const { rss, heapUsed } = process.memoryUsage();
  return { rss: rss / 2 ** 20, heap: heapUsed / 2 ** 20, blocks: liveBlocks?.() };
}

/**
 * @param {{ requests: number, workers: number, print?: boolean }} load
 * @returns measurements, first after a warm-up of a tenth of the load, then after each further
 *   tenth
 */
async function endure({ requests, workers, print = false }) {
  const measurements = [];
  for (let tenth = 0; tenth < 10; tenth++) {
    await requestMany(Math.ceil(requests / 10));
    await startMany(Math.ceil(workers / 10), tenth * workers);
    measurements.push(await measure());
    if (!print) continue;
    const { rss, heap, blocks } = measurements.at(-1);
    const memory = `${rss.toFixed(1)} MB resident, ${heap.toFixed(1)} MB of heap used`;
    console.log(`${(tenth + 1) * 10} %  ${memory}, ${blocks ?? 'uncounted'} native allocations`);
  }
  const { held, pending } = await locks.query();
  return { measurements, left: held.length + pending.length };
}

if (require.main === module) {
  const number = { type: 'string' };
  const { values } = parseArgs({ options: { requests: number, workers: number } });
  const { requests = 10_000_000, workers = 5000 } = values;
  console.log(`Node.js ${process.version}, ${requests} requests, ${workers} workers`);
  endure({ requests: Number(requests), workers: Number(workers), print: true }).then(({ left }) => {
    const resources = process.getActiveResourcesInfo().join() || 'none';
    console.log(`${left} locks and requests left, resources: ${resources}`);
  });
}

module.exports = { endure };
