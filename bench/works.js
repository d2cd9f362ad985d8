/**
 * The works. Each runs in a process of its own for one subject and returns its results as `{ value,
 * … }`: nanoseconds per request unless it has another unit. `subjects` are those that can run it;
 * the others are compared with the first.
 */

const path = require('node:path');
const { MessageChannel, Worker } = require('node:worker_threads');
const { hostWorks } = require('./host.js');
const { Missing } = require('./missing.js');
const { isBrief, size } = require('./size.js');
const { subjects } = require('./subjects.js');

const JAVASCRIPT = [
  'floor',
  'web-locks',
  'in one thread',
  'async-mutex',
  'async-lock',
  'node',
  'metarhia',
];
const WITH_ABORT = ['listeners', 'web-locks', 'node'];
const callback = async () => {};
const now = () => Number(process.hrtime.bigint());

/**
 * The median of several results of `measure`, after one that is not counted; or the only result.
 */
async function median(given, measure) {
  const rounds = isBrief ? 1 : given;
  if (rounds > 1) await measure();
  const values = [];
  for (let i = 0; i < rounds; i++) values.push(await measure());
  return values.sort((a, b) => a - b)[rounds >> 1];
}

async function sequential({ request }, full) {
  const count = size(full);
  const start = now();
  for (let i = 0; i < count; i++) await request('resource', callback);
  return (now() - start) / count;
}

/** Requests all names at once, and awaits them together. */
async function burst({ request }, names) {
  const start = now();
  await Promise.all(names.map((name) => request(name, callback)));
  return (now() - start) / names.length;
}

const sameName = (count) => new Array(size(count)).fill('resource');
const ownNames = (count) => Array.from({ length: size(count) }, (_, i) => `resource-${i}`);

/** Few rounds of many requests, or many rounds of few, so that they take about the same time. */
const roundsFor = (count) => (count >= 1e6 ? 1 : count >= 1e5 ? 3 : count >= 1e4 ? 7 : 101);

const burstOf = (names) => async (subject) => {
  await median(11, () => burst(subject, names.slice(0, 1000)));
  return median(roundsFor(names.length), () => burst(subject, names));
};

async function readers({ request }) {
  const modes = Array.from({ length: size(10_000) }, (_, i) =>
    i % 100 === 99 ? 'exclusive' : 'shared',
  );
  return median(21, async () => {
    const start = now();
    await Promise.all(modes.map((mode) => request('resource', callback, { mode })));
    return (now() - start) / modes.length;
  });
}

/**
 * Aborts pending requests: from the first request to the last rejection; `alone` is the part from
 * the first abort on. Both are reported, because Node.js's own locks take most of their time for
 * the requests. There are enough rounds that the engine has compiled what it runs.
 */
function aborts(fullCount, fullSignalCount) {
  const [count, signalCount] = [size(fullCount), Math.min(fullSignalCount, size(fullSignalCount))];
  return async ({ request }) => {
    const parts = [];
    const value = await median(fullCount > 5000 ? 11 : 21, async () => {
      let release;
      const held = request('resource', () => new Promise((resolve) => (release = resolve)));
      await new Promise(setImmediate);
      const controllers = Array.from({ length: signalCount }, () => new AbortController());
      require('node:events').setMaxListeners(0, ...controllers.map(({ signal }) => signal));
      const start = now();
      const requests = Array.from({ length: count }, (_, i) =>
        request('resource', callback, { signal: controllers[i % signalCount].signal }),
      );
      const settled = Promise.allSettled(requests);
      const asked = now();
      for (const controller of controllers) controller.abort();
      await settled;
      const end = now();
      parts.push((end - asked) / count);
      release?.();
      await Promise.race([held, new Promise(setImmediate)]);
      return (end - start) / count;
    });
    return { value, alone: parts.sort((a, b) => a - b)[parts.length >> 1] };
  };
}

async function unrelatedPending(subject) {
  const alone = await median(11, () => sequential(subject, 20_000));
  const ends = [];
  const all = [];
  for (let i = 0; i < size(1000); i++) {
    const end = new Promise((resolve) => ends.push(resolve));
    all.push(subject.request(`other-${i}`, () => end));
    for (let j = 0; j < 100; j++) all.push(subject.request(`other-${i}`, callback));
  }
  await new Promise(setImmediate);
  const beside = await median(11, () => sequential(subject, 20_000));
  for (const end of ends) end();
  await Promise.all(all);
  return { value: beside, alone };
}

async function query({ request, query }) {
  const entries = size(100_000);
  let end;
  const held = request('resource-0', () => new Promise((resolve) => (end = resolve)));
  const all = [held];
  for (let i = 1; i < entries; i++) all.push(request(`resource-${i % 1000}`, () => held));
  await new Promise(setImmediate);
  const value = await median(5, async () => {
    const start = now();
    await query();
    return (now() - start) / entries;
  });
  end();
  await Promise.all(all);
  return value;
}

/** Starts workers of threads.js together. @returns their results */
async function workers(count, workerData) {
  const all = Array.from({ length: count }, (_, index) => {
    const file = path.join(__dirname, 'threads.js');
    return new Worker(file, { workerData: { index, ...workerData } });
  });
  const message = (worker) => new Promise((resolve) => worker.once('message', resolve));
  const listeners = await Promise.all(all.map(message));
  const results = all.map(message);
  const { port1, port2 } = new MessageChannel();
  const ports = [port1, port2];
  all.forEach((worker, i) => {
    const port = ports[i];
    worker.postMessage({ peer: listeners[1 - i], port }, port ? [port] : []);
  });
  const values = await Promise.all(results);
  await Promise.all(all.map((worker) => worker.terminate()));
  return values;
}

const handOff = (kind) => async () =>
  Math.max(...(await workers(2, { kind, count: size(20_000) })));

/** Requests per microsecond of all threads together. */
const threads =
  (kind, workerCount, count = 300_000) =>
  async () => {
    const times = await workers(workerCount, { kind, count: size(count) });
    return times.reduce((sum, time) => sum + 1000 / time, 0);
  };

/** Bytes for each pending request and each held lock, resident and native, and what remains. */
async function memory({ request }, full, name) {
  const count = size(full);
  const { allocated } = require('./build/Release/probe.node');
  const look = () => {
    for (let i = 0; i < 3; i++) global.gc();
    return { rss: process.memoryUsage.rss(), native: allocated() };
  };
  await burst({ request }, sameName(1000));
  const before = look();
  let end;
  const held = new Promise((resolve) => (end = resolve));
  const all = [];
  for (let i = 0; i < count; i++) all.push(request(name(i), () => held));
  await new Promise(setImmediate);
  const during = look();
  end();
  await Promise.all(all);
  all.length = 0;
  for (let i = 0; i < 5; i++) await new Promise(setImmediate);
  const after = look();
  return {
    value: (during.native - before.native) / count,
    resident: (during.rss - before.rss) / count,
    left: (after.native - before.native) / count,
  };
}

async function startUp() {
  const start = now();
  require('..');
  return (now() - start) / 1e6;
}

async function startUpInWorker() {
  const [value] = await workers(1, { kind: 'startUp' });
  return value;
}

/** @type {{ name: string, subjects: string[], unit?: string, run: Function, rounds?: number }[]} */
const works = [
  { name: 'sequential', rounds: 5, run: (subject) => median(9, () => sequential(subject, 50_000)) },
  {
    name: 'profile',
    subjects: ['web-locks', 'profiled, no call sites', 'profiled'],
    rounds: 5,
    run: (subject) => median(9, () => sequential(subject, 2_000)),
  },
  {
    name: 'handles',
    subjects: ['web-locks', 'locks.acquire', 'mutex.acquire', 'async-mutex, acquire'],
    rounds: 5,
    run: (subject) => median(9, () => sequential(subject, 20_000)),
  },
  ...[1e3, 1e4, 1e5, 1e6].map((n) => ({ name: `queue of ${n}`, run: burstOf(sameName(n)) })),
  ...[1e3, 1e5, 1e6].map((n) => ({ name: `${n} names`, run: burstOf(ownNames(n)) })),
  { name: 'readers', subjects: ['floor', 'web-locks', 'node'], run: readers },
  // Node.js's own locks can handle so few.
  { name: 'abort 2000, a signal each', subjects: WITH_ABORT, run: aborts(2000, 2000) },
  { name: 'abort 10000, a signal each', subjects: WITH_ABORT, run: aborts(10_000, 10_000) },
  { name: 'abort 10000, one signal', subjects: WITH_ABORT, run: aborts(10_000, 1) },
  { name: 'unrelated pending', subjects: ['web-locks'], run: unrelatedPending, rounds: 3 },
  { name: 'query', subjects: ['web-locks', 'node'], unit: 'ns/entry', run: query },
  { name: 'hand-off: bare wake', subjects: ['threads'], run: handOff('wake') },
  { name: 'hand-off: web-locks', subjects: ['threads'], run: handOff('handOff') },
  { name: 'hand-off: MessagePort', subjects: ['threads'], run: handOff('port') },
  ...[1, 2, 4].map((n) => ({
    name: `own names, ${n} worker${n > 1 ? 's' : ''}`,
    subjects: ['threads'],
    unit: 'requests/µs',
    run: threads('ownNames', n),
  })),
  ...[1, 2].map((n) => ({
    name: `one name, ${n} worker${n > 1 ? 's' : ''}`,
    subjects: ['threads'],
    unit: 'requests/µs',
    run: threads('oneName', n, 20_000),
  })),
  ...[1, 2, 4].map((n) => ({
    name: `no locks, ${n} worker${n > 1 ? 's' : ''}`,
    subjects: ['threads'],
    unit: 'requests/µs',
    run: threads('noLocks', n),
  })),
  {
    name: 'memory, pending',
    subjects: ['floor', 'web-locks'],
    unit: 'native bytes',
    run: (subject) => memory(subject, 300_000, () => 'resource'),
    rounds: 1,
  },
  {
    name: 'memory, held',
    subjects: ['floor', 'web-locks'],
    unit: 'native bytes',
    run: (subject) => memory(subject, 300_000, (i) => `resource-${i}`),
    rounds: 1,
  },
  { name: 'start-up', subjects: ['threads'], unit: 'ms', run: startUp, rounds: 7 },
  { name: 'start-up, worker', subjects: ['threads'], unit: 'ms', run: startUpInWorker, rounds: 7 },
  ...(process.platform === 'linux' ? hostWorks : []),
].map((work) => ({ subjects: JAVASCRIPT, unit: 'ns', rounds: 2, ...work }));

// Run as a program (node works.js WORK SUBJECT), it prints the result as JSON.
async function main([name, subjectName]) {
  const work = works.find((candidate) => candidate.name === name);
  const result = await resultOf(work, subjectName);
  const value = typeof result === 'number' ? { value: result } : result;
  process.stdout.write(JSON.stringify(value), () => process.exit());
}

async function resultOf(work, subjectName) {
  if (!work.subjects.includes(subjectName)) throw new Error(`no such subject: ${subjectName}`);
  try {
    return await work.run(subjects[subjectName]?.(), subjectName);
  } catch (error) {
    if (error instanceof Missing) return { missing: error.message };
    throw error;
  }
}

if (require.main === module) main(process.argv.slice(2));

module.exports = { works };
