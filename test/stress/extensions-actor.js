'use strict';

// A thread of extensions.test.js: takes locks in every way there is, and looks that it is alone.

const { parentPort, threadId, workerData } = require('node:worker_threads');
const { DeadlockError, LockTimeoutError, locks } = require('../../lib/index.js');

/** Who is inside of each name's exclusive lock; then the counters. */
const { board, names, COUNTERS } = workerData;
const count = (counter) => Atomics.add(board, names.length + COUNTERS.indexOf(counter), 1);
const random = (limit) => Math.floor(Math.random() * limit);

/** Uses a lock: nobody else may write to its place meanwhile. */
function* use(lock) {
  const place = names.indexOf(lock.name);
  const exclusive = lock.mode === 'exclusive';
  if (exclusive) Atomics.store(board, place, threadId);
  yield;
  if (exclusive && Atomics.load(board, place) !== threadId) count('violations');
  count('used');
}

async function useAsync(...held) {
  const uses = held.map(use);
  for (const one of uses) one.next();
  await undefined;
  for (const one of uses) one.next();
}

/** An inner request for each lock, which may outlive its outer one, and keeps it then. */
async function useReentrantly(held) {
  const inner = held.map((lock) => {
    const mode = lock.mode === 'shared' || random(2) > 0 ? 'shared' : 'exclusive';
    const form = random(3);
    const options = { mode, reentrant: true, deadlock: 'reject' };
    if (form === 0) return locks.request(lock.name, options, () => undefined);
    if (form === 1) return locks.acquire(lock.name, options).then((handle) => handle.release());
    return locks.acquireSync(lock.name, { mode, reentrant: true, timeout: 0 }).release();
  });
  await useAsync(...held);
  if (random(2) > 0) await Promise.all(inner);
  else for (const one of inner) one?.catch(() => {});
  count('reentered');
}

/** Holds a lock until it is taken away: it must not be used afterwards. */
async function holdTooLong(name) {
  const options = { holdTimeout: 1 + random(3), timeout: 50 };
  const handle = await locks.acquire(name, options);
  const lost = new Promise((resolve) => {
    handle.signal.addEventListener('abort', resolve);
  });
  await useAsync(handle);
  await lost;
  if (!handle.released || !(handle.signal.reason instanceof LockTimeoutError)) count('violations');
  count('heldTooLong');
}

function useSync(handle) {
  const [...steps] = use(handle);
  handle.release();
  return steps;
}

const ways = [
  (name, mode) => useSync(locks.acquireSync(name, { mode, timeout: random(20) })),
  (name, mode) => {
    const handle = locks.tryAcquireSync(name, { mode });
    if (handle) useSync(handle);
  },
  async (name, mode) => {
    const handle = await locks.acquire(name, { mode, timeout: 50 });
    await useAsync(handle);
    handle.release();
  },
  (name) => {
    const several = [...new Set([name, names[random(names.length)]])];
    const options = { deadlock: 'reject', timeout: 50 };
    return locks.requestAll(several, options, (held) => useAsync(...held));
  },
  (name) => holdTooLong(name),
  (name, mode) => {
    const options = { mode, reentrant: true, deadlock: 'reject', timeout: 50 };
    return locks.request(name, options, (lock) => useReentrantly([lock]));
  },
  (name) => {
    const several = [...new Set([name, names[random(names.length)]])];
    const options = { reentrant: true, timeout: 50 };
    return locks.requestAll(several, options, useReentrantly);
  },
  (name, mode, depth) =>
    locks.request(name, { mode, deadlock: 'reject', label: `depth ${depth}` }, async (lock) => {
      if (depth < 2) await act(depth + 1);
      await useAsync(lock);
    }),
];

async function act(depth) {
  const name = names[random(names.length)];
  const mode = random(4) > 0 ? 'exclusive' : 'shared';
  // A thread that blocks inside of a lock keeps it: only where there is a time limit.
  try {
    await ways[random(ways.length)](name, mode, depth);
  } catch (error) {
    if (error instanceof DeadlockError) count('deadlocks');
    else if (error instanceof LockTimeoutError) count('timeouts');
    else throw error;
  }
}

let ended = false;
parentPort.once('message', () => {
  ended = true;
});

async function loop() {
  while (!ended) {
    await act(0);
    await new Promise(setImmediate);
  }
}

Promise.all([loop(), loop(), loop()]).then(() => process.exit());
