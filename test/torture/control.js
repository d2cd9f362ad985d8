'use strict';

/**
 * The smallest test of mutual exclusion, for web-locks and, as a control, for Node.js's own
 * `worker_threads.locks` where it exists. Three workers request one lock all the time, with and
 * without ifAvailable, and count how often two are inside.
 *
 *   npx -y node@24 test/torture/control.js [seconds]
 */

const { Worker, isMainThread, workerData, locks: nodeLocks } = require('node:worker_threads');

const [INSIDE, GRANTS, VIOLATIONS] = [0, 1, 2];

async function actor({ memory, subject, ifAvailable }) {
  const locks = subject === 'web-locks' ? require('../../lib/index.js').locks : nodeLocks;
  const inside = async (lock) => {
    if (lock === null) return;
    if (Atomics.add(memory, INSIDE, 1) > 0) Atomics.add(memory, VIOLATIONS, 1);
    await new Promise(setImmediate);
    Atomics.add(memory, GRANTS, 1);
    Atomics.sub(memory, INSIDE, 1);
  };
  for (;;) {
    await locks.request('control', { ifAvailable }, inside);
    if (ifAvailable) await new Promise(setImmediate);
  }
}

/** Runs three actors for a while. @returns what they counted, second by second */
async function control(subject, ifAvailable, seconds) {
  const memory = new Int32Array(new SharedArrayBuffer(12));
  const data = { workerData: { memory, subject, ifAvailable } };
  const workers = [1, 2, 3].map(() => new Worker(__filename, data));
  const grants = [];
  for (let i = 0; i < seconds; i++) {
    const before = memory[GRANTS];
    await new Promise((resolve) => setTimeout(resolve, 1000));
    grants.push(memory[GRANTS] - before);
  }
  const violations = memory[VIOLATIONS];
  await Promise.all(workers.map((worker) => worker.terminate()));
  return { violations, grants };
}

async function main() {
  const seconds = Number(process.argv[2] ?? 4);
  for (const subject of nodeLocks ? ['web-locks', 'node'] : ['web-locks']) {
    for (const ifAvailable of [true, false]) {
      const { violations, grants } = await control(subject, ifAvailable, seconds);
      const how = ifAvailable ? 'ifAvailable' : 'waiting';
      console.log(
        `${process.version} ${subject}, ${how}: ${violations} violations,`,
        `grants in each second: ${grants.join(' ')}`,
      );
    }
  }
  process.exit(0);
}

if (isMainThread) main();
else actor(workerData);
