'use strict';

// Synchronous code in workers: each appends to a file while no other does.

const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Worker, isMainThread, threadId, workerData } = require('node:worker_threads');
const { locks } = require('web-locks');

async function main() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-'));
  const file = path.join(folder, 'log');
  const workers = [1, 2].map(() => new Worker(__filename, { workerData: file }));
  await Promise.all(workers.map((worker) => once(worker, 'exit')));
  const lines = fs.readFileSync(file, 'utf8').trim().split('\n');
  const pairs = lines.filter((_, i) => i % 2 === 0).map((line, i) => line === lines[2 * i + 1]);
  console.log(`${lines.length} lines, in pairs: ${pairs.every(Boolean)}`);
  fs.rmSync(folder, { recursive: true });
}

function work() {
  for (let i = 0; i < 50; i++) {
    const lock = locks.acquireSync('log');
    try {
      fs.appendFileSync(workerData, `thread ${threadId}, line ${i}\n`);
      fs.appendFileSync(workerData, `thread ${threadId}, line ${i}\n`);
    } finally {
      lock.release();
    }
  }
}

if (isMainThread) main();
else work();
