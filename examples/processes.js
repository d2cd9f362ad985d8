'use strict';

// Several processes share a lock; one is killed while it holds it, and the next one gets it. Run it
// with `npm run demo:processes`.

const { fork } = require('node:child_process');
const { once } = require('node:events');
const { openBucket } = require('web-locks/host');

const NAME = 'printer';
const { locks } = openBucket('processes.js');

/** A process requests the lock, and prints a page or hangs with it. */
async function print() {
  const [, , who, how] = process.argv;
  const printed = locks.request(NAME, { label: who }, async () => {
    process.send?.('holds');
    if (how === 'stuck') await once(process, 'disconnect');
  });
  // The query is answered after the request was made.
  await locks.query();
  process.send?.('asks');
  await printed;
  process.disconnect();
}

/**
 * Starts a process, and waits until it has requested the lock.
 * @param {string} who
 * @param {string} [how]
 */
async function start(who, how = '') {
  const child = fork(__filename, [who, how]);
  child.on('message', (what) => {
    if (what === 'holds') console.log(`${who} holds the ${NAME}`);
  });
  await once(child, 'message');
  return { child, exited: once(child, 'exit') };
}

async function main() {
  const stuck = await start('the first', 'stuck');
  const others = [await start('the second'), await start('the third')];
  const { held, pending } = await locks.query({ details: true });
  const [holder] = held;
  console.log(`${holder.label} has it: ${holder.pid === stuck.child.pid}`);
  console.log(`waiting: ${pending.map(({ label }) => label).join(', ')}`);
  console.log(`${holder.label} is killed`);
  stuck.child.kill('SIGKILL');
  await Promise.all([stuck, ...others].map(({ exited }) => exited));
  console.log(`left: ${(await locks.query()).held.length}`);
}

if (process.send) print();
else main();
