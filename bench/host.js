/**
 * The works between processes, beside today's alternatives. A process of a work runs this file:
 * `node host.js ROLE SUBJECT DIRECTORY COUNT`.
 *
 * A subject here has `request(name, callback)`, which returns a promise; `hold(name)`, which holds
 * the lock until the process ends; and `many`, the number of requests in a measurement.
 */

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { Missing, need } = require('./missing.js');
const { duration, size } = require('./size.js');
const { startProcess, wait } = require('./tools.js');
const { root } = require('../test/helpers/root.js');

const callback = async () => {};
const now = () => Number(process.hrtime.bigint());
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

/** @param locks anything with the API of the specification */
const webApi = (locks) => ({
  many: size(50_000),
  locks,
  request: (name, work) => locks.request(name, work),
  hold: (name) =>
    new Promise((resolve) => {
      locks.request(name, () => {
        resolve();
        return new Promise(() => {});
      });
    }),
});

/** The lock of a file that is opened once for each name. */
function flockOf(directory) {
  const { flock } = need('fs-ext');
  const files = new Map();
  const fileOf = (name) => {
    if (!files.has(name)) files.set(name, fs.openSync(path.join(directory, name), 'w'));
    return files.get(name);
  };
  const lock = (name, how) =>
    new Promise((resolve, reject) => {
      flock(fileOf(name), how, (error) => (error ? reject(error) : resolve()));
    });
  return {
    many: size(10_000),
    hold: (name) => lock(name, 'ex'),
    async request(name, work) {
      await lock(name, 'ex');
      try {
        return await work();
      } finally {
        await lock(name, 'un');
      }
    },
  };
}

const isInstalled = (program) =>
  process.env.PATH.split(path.delimiter).some((folder) =>
    fs.existsSync(path.join(folder, program)),
  );

/** The program flock(1), which holds the lock while it runs another program. */
function flockProgram(directory) {
  if (!isInstalled('flock')) throw new Missing('flock is not installed');
  const start = async (name) => {
    const child = spawn('flock', [path.join(directory, name), 'sh', '-c', 'echo; read _'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');
    return child;
  };
  return {
    many: size(50),
    // It ends with this process, because it reads from its pipe.
    hold: start,
    async request(name, work) {
      const child = await start(name);
      const result = await work();
      child.stdin.end();
      await once(child, 'exit');
      return result;
    },
  };
}

/** A transaction, which blocks the event loop while it waits. It needs a Node.js with SQLite. */
function sqlite(directory) {
  const { DatabaseSync } = need('node:sqlite');
  const databases = new Map();
  const databaseOf = (name) => {
    if (databases.has(name)) return databases.get(name);
    const database = new DatabaseSync(path.join(directory, `${name}.db`));
    database.exec('PRAGMA busy_timeout = 10000');
    const [begin, commit] = ['BEGIN IMMEDIATE', 'COMMIT'].map((sql) => database.prepare(sql));
    databases.set(name, { begin, commit });
    return databases.get(name);
  };
  return {
    many: size(10_000),
    hold: async (name) => databaseOf(name).begin.run(),
    async request(name, work) {
      const { begin, commit } = databaseOf(name);
      begin.run();
      try {
        return await work();
      } finally {
        commit.run();
      }
    },
  };
}

function properLockfile(directory) {
  const { lock } = need('proper-lockfile');
  const retries = { retries: 1e6, minTimeout: 5, maxTimeout: 5 };
  const options = { realpath: false, stale: 2000, update: 1000, retries };
  const take = (name) => lock(path.join(directory, name), options);
  return {
    many: size(100),
    hold: take,
    async request(name, work) {
      const release = await take(name);
      try {
        return await work();
      } finally {
        await release();
      }
    },
  };
}

/** @type {Record<string, (directory: string) => any>} */
const makers = {
  'web-locks': () => webApi(require('..').locks),
  host: (directory) => webApi(require('../lib/host.js').openBucket('bench', { directory }).locks),
  'fs-ext': flockOf,
  'flock(1)': flockProgram,
  sqlite,
  lockfile: properLockfile,
};

/** Starts a process of this file, and waits for its first message. */
async function start(role, subject, directory, count = 0) {
  const other = startProcess(__filename, [role, subject, directory, String(count)]);
  await other.next();
  return other;
}

/** Measures `count` requests, after a few that are not counted. */
async function sequential({ request }, name, count) {
  for (let i = 0; i < count / 10; i++) await request(name, callback);
  const begin = now();
  for (let i = 0; i < count; i++) await request(name, callback);
  return (now() - begin) / count;
}

/**
 * Two holders request again before they release, so that each release hands the lock to the other.
 */
async function alternate({ locks }, count) {
  let held = await locks.acquire('resource');
  for (let i = 0; i < count; i++) {
    const next = locks.acquire('resource');
    await held.release();
    held = await next;
  }
  await held.release();
}

async function handOff(directory, name) {
  if (name === 'socket') return roundTrip(directory);
  const count = size(3000);
  const other = await start('alternate', name, directory, count);
  const subject = makers[name](directory);
  // Both are ready when the clock starts: the other one waits for the lock that is held here.
  const gate = await subject.locks.acquire('resource');
  other.send('go');
  while ((await subject.locks.query({ name: 'resource' })).pending.length === 0);
  const begin = now();
  const done = alternate(subject, count);
  await gate.release();
  await done;
  return (now() - begin) / 2 / count / 1000;
}

/** Sends a message over a Unix socket or a pipe of Windows, and waits for the answer. */
async function roundTrip(directory) {
  const isWindows = process.platform === 'win32';
  const file = isWindows
    ? `\\\\.\\pipe\\web-locks-bench-${process.pid}`
    : path.join(directory, 'socket');
  const other = await start('echo', 'none', file);
  const socket = net.connect(file);
  await once(socket, 'connect');
  const count = size(3000);
  const begin = now();
  for (let i = 0; i < count; i++) {
    socket.write('x');
    await once(socket, 'data');
  }
  const time = (now() - begin) / count / 1000;
  other.kill('SIGTERM');
  return time;
}

/** Measures from `kill -9` of the holder to the grant. */
async function kill(directory, name) {
  const subject = makers[name](directory);
  const times = [];
  const end = now() + duration(1_800) * 1e6;
  for (let i = 0; i < size(25) && now() < end; i++) {
    const holder = await start('hold', name, directory);
    // A subject that blocks the event loop can only request afterwards.
    const asked = name === 'sqlite' ? undefined : subject.request('resource', now);
    if (asked) await wait(20);
    const begin = now();
    holder.kill('SIGKILL');
    const granted = await (asked ?? subject.request('resource', now));
    times.push((granted - begin) / 1e6);
  }
  return { value: median(times), worst: Math.max(...times), times: times.length };
}

async function ownNames(directory, name) {
  const count = makers[name](directory).many;
  const all = [1, 2].map((i) => start(`own ${i}`, name, directory, count));
  const others = await Promise.all(all);
  const results = others.map(({ next }) => next());
  for (const { send } of others) send('go');
  const times = await Promise.all(results);
  return times.reduce((sum, time) => sum + 1000 / time, 0);
}

/**
 * Measures `openBucket` and the first grant in new buckets; the first one is reported separately.
 */
async function open(directory) {
  const { openBucket } = require('../lib/host.js');
  const times = [];
  for (let i = 0; i < size(30); i++) {
    const begin = now();
    const { locks } = openBucket(`bench ${i}`, { directory });
    await locks.request('resource', callback);
    times.push((now() - begin) / 1e6);
  }
  const [first] = times;
  return { value: median(times), 'first, µs': first * 1000 };
}

/** Runs a measurement in a directory, which it then removes. */
const inDirectory = (measure) => async (_subject, name) => {
  const directory = fs.mkdtempSync(path.join(root, 'web-locks-bench-'));
  const remove = () => {
    try {
      fs.rmSync(directory, { recursive: true, force: true });
    } catch (error) {
      // On Windows a file exists while this process has it open, as subjects may.
      if (process.platform !== 'win32') throw error;
    }
  };
  // The measurement took too long.
  process.once('SIGTERM', () => {
    remove();
    process.exit(1);
  });
  try {
    return await measure(directory, name);
  } finally {
    remove();
  }
};

const uncontended = (directory, name) => {
  const subject = makers[name](directory);
  return sequential(subject, 'resource', subject.many);
};

const OTHERS = ['fs-ext', 'sqlite', 'lockfile', 'flock(1)'];

const hostWorks = [
  { name: 'host, uncontended', subjects: ['web-locks', 'host', ...OTHERS], run: uncontended },
  { name: 'host, hand-off', subjects: ['socket', 'host'], unit: 'µs', run: handOff },
  { name: 'host, kill -9 to grant', subjects: ['host', ...OTHERS], unit: 'ms', run: kill },
  {
    name: 'host, own names, 2 processes',
    subjects: ['host', 'fs-ext', 'sqlite', 'lockfile'],
    unit: 'requests/µs',
    run: ownNames,
  },
  { name: 'host, open and first grant', subjects: ['host'], unit: 'ms', run: open },
].map((work) => ({ rounds: 3, ...work, run: inDirectory(work.run) }));

const roles = {
  async hold(name, directory) {
    await makers[name](directory).hold('resource');
    // A lock does not keep the process alive.
    process.on('disconnect', () => process.exit());
    process.send('held');
  },
  async alternate(name, directory, count) {
    const subject = makers[name](directory);
    await subject.request('other', callback);
    process.send('ready');
    await once(process, 'message');
    await alternate(subject, count);
    process.disconnect();
  },
  async own(name, directory, count) {
    const subject = makers[name](directory);
    const resource = process.argv[2];
    await subject.request(resource, callback);
    process.send('ready');
    await once(process, 'message');
    process.send(await sequential(subject, resource, count), () => process.disconnect());
  },
  echo(_name, file) {
    const server = net.createServer((socket) => socket.pipe(socket));
    server.listen(file, () => process.send('ready'));
    process.on('disconnect', () => process.exit());
  },
};

if (require.main === module) {
  const [, , role, subject, directory, count] = process.argv;
  roles[role.split(' ')[0]](subject, directory, Number(count));
}

module.exports = { hostWorks };
