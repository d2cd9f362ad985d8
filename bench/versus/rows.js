/**
 * The rows of the comparison with Node.js's own locks: `node rows.js ROW own|ours` prints the
 * outcome as JSON: `is`, a word that is the same in each run, and `text` for readers.
 */

const { fork } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');

const [, , row, whose] = process.argv;
const LIB = path.join(__dirname, '..', '..', 'lib');

/** @param {'index' | 'host'} entry of our package */
const locksOf = (entry = 'index') =>
  whose === 'ours'
    ? require(path.join(LIB, `${entry}.js`)).locks
    : require('node:worker_threads').locks;

const WAIT_MS = 2000;
const SPELL_MS = 3000;
const WORKERS = 3;

/** Starts a worker that does a row's part, and waits until it has begun. */
async function start(part, memory) {
  const argv = process.argv.slice(2);
  const worker = new Worker(__filename, { argv, workerData: { part, memory } });
  // It may have ended before the others have begun.
  const ended = once(worker, 'exit');
  await once(worker, 'message');
  return { worker, ended };
}

const startAll = (part, memory) =>
  Promise.all(Array.from({ length: WORKERS }, () => start(part, memory)));

/** @returns {Promise<string | undefined>} undefined: not granted */
const granted = (name) =>
  Promise.race([locksOf().request(name, () => 'granted'), sleep(WAIT_MS, undefined)]);

const PARTS = {
  /** Holds a lock forever. */
  holds() {
    locksOf().request('a', () => {
      parentPort.on('message', () => {}).postMessage('');
      return new Promise(() => {});
    });
  },

  /** Takes a lock repeatedly if it is free, and counts when another holder is inside. */
  async tries(memory) {
    const inside = async (lock) => {
      if (!lock) return;
      if (Atomics.add(memory, 0, 1) > 0) Atomics.add(memory, 1, 1);
      await new Promise(setImmediate);
      Atomics.sub(memory, 0, 1);
    };
    parentPort.postMessage('');
    while (Atomics.load(memory, 2) === 0) {
      await locksOf().request('a', { ifAvailable: true }, inside);
      await new Promise(setImmediate);
    }
  },

  /** Waits for a lock repeatedly, and counts its turns. */
  async takesTurns(memory) {
    const place = Atomics.add(memory, 0, 1) + 1;
    parentPort.postMessage('');
    for (;;) await locksOf().request('a', () => Atomics.add(memory, place, 1));
  },

  /** Steals a lock repeatedly. */
  async steals(memory) {
    parentPort.postMessage('');
    for (let i = 0; i < 300; i++) {
      const told = (error) => Atomics.add(memory, error.name === 'AbortError' ? 0 : 1, 1);
      const hold = () => new Promise((resolve) => setTimeout(resolve, 1));
      await locksOf().request('a', { steal: true }, hold).catch(told);
    }
  },
};

/** @type {Record<string, () => Promise<{ is: string, text: string }>>} */
const ROWS = {
  async processes() {
    const locks = locksOf('host');
    return locks.request('versus', async () => {
      const child = fork(__filename, ['other', whose]);
      const [answer] = await once(child, 'message');
      return answer
        ? { is: 'both', text: 'both processes hold it' }
        : { is: 'one', text: 'one process holds it' };
    });
  },

  async holders() {
    await start('holds');
    const { held } = await locksOf().query({ details: true });
    const details = held[0]?.pid && held[0].held !== undefined;
    return details
      ? { is: 'told', text: 'process, thread, label, and for how long' }
      : { is: 'not told', text: 'not told' };
  },

  async query() {
    await start('holds');
    const { held } = await locksOf().query();
    return held.length === 1
      ? { is: 'all', text: 'sees all threads' }
      : { is: 'own', text: 'sees its own thread only' };
  },

  async exclusion() {
    const memory = new Int32Array(new SharedArrayBuffer(12));
    await startAll('tries', memory);
    await sleep(SPELL_MS);
    Atomics.store(memory, 2, 1);
    const count = Atomics.load(memory, 1);
    return count > 0
      ? { is: 'broken', text: `two inside at a time, ${count.toLocaleString('en')} times` }
      : { is: 'kept', text: 'never two inside' };
  },

  async turns() {
    const memory = new Int32Array(new SharedArrayBuffer(16));
    await startAll('takesTurns', memory);
    await sleep(SPELL_MS);
    const counts = [1, 2, 3].map((place) => Atomics.load(memory, place));
    await sleep(WAIT_MS);
    const later = [1, 2, 3].map((place) => Atomics.load(memory, place));
    const made = (list) => list.reduce((sum, count) => sum + count, 0);
    const busiest = Math.floor((1000 * Math.max(...later)) / made(later)) / 10;
    if (made(later) === made(counts)) {
      return {
        is: 'unfair',
        text: `stopped for good after ${made(later).toLocaleString('en')} grants`,
      };
    }
    return {
      is: busiest > 90 ? 'unfair' : 'fair',
      text: `the busiest worker had ${busiest} % of the grants`,
    };
  },

  async theft() {
    const memory = new Int32Array(new SharedArrayBuffer(8));
    const workers = await startAll('steals', memory);
    await Promise.all(workers.map(({ ended }) => ended));
    const [right, wrong] = memory;
    return wrong > 0 || right === 0
      ? { is: 'wrong', text: `${wrong} holders were told by an error that is no AbortError` }
      : { is: 'told', text: 'each robbed holder gets an AbortError' };
  },

  async terminated() {
    const { worker } = await start('holds');
    const next = granted('a');
    await worker.terminate();
    return (await next)
      ? { is: 'granted', text: 'the next one gets the lock' }
      : { is: 'stuck', text: `not granted within ${WAIT_MS / 1000} s` };
  },

  async throws() {
    const failing = async () => locksOf().request('a', () => JSON.parse('{'));
    await failing().catch(() => {});
    return (await granted('a'))
      ? { is: 'released', text: 'the lock is released' }
      : { is: 'kept', text: 'the lock is kept' };
  },

  async aborted() {
    const locks = locksOf();
    locks.request('a', () => new Promise(() => {}));
    const controller = new AbortController();
    const pending = locks.request('a', { signal: controller.signal }, () => {}).catch(() => {});
    await new Promise(setImmediate);
    controller.abort();
    await pending;
    const { length } = (await locks.query()).pending;
    return length === 0
      ? { is: 'left', text: 'leaves the queue' }
      : { is: 'stays', text: 'stays in the queue' };
  },
};

async function main() {
  if (row === 'other') {
    process.send(await locksOf('host').request('versus', { ifAvailable: true }, Boolean));
  } else {
    console.log(JSON.stringify(await ROWS[row]()));
  }
  process.exit();
}

if (isMainThread && require.main === module) main();
else if (!isMainThread) PARTS[workerData.part](workerData.memory);

module.exports = { ROWS: Object.keys(ROWS) };
