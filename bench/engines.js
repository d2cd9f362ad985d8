/**
 * Measures what locks cost at an engine: `npm run bench -- --only cluster,redis,etcd`. For each
 * engine, at a server of its own:
 *
 * - beside its peers: one after another, and 32 at once, each on its own name
 * - by the number of sessions: one session requests while the others are idle; four contend for one
 *   name beside the others; all contend for it; all are idle
 * - by the delay of the line between the client and the server
 *
 * Clients and server are on one machine, and clients in one process. Processor time is that of the
 * process, or of all processes of the server (Linux).
 */

const fs = require('node:fs');

const { Missing } = require('./missing.js');
const { duration, isBrief, size } = require('./size.js');
const { ms, rank, row, wait } = require('./tools.js');

const AT_ONCE = 32;
const CONTENDERS = 4;
/** With more sessions, not all contend: a round of them would take too long. */
const MOST_CONTENDERS = 200;

/** @returns {Map<number, number>} the processor time of each process in microseconds */
function cpuOf(pids) {
  const times = new Map();
  for (const pid of pids) {
    let sum = 0;
    for (const task of listOf(`/proc/${pid}/task`)) {
      sum += Number(textOf(`/proc/${pid}/task/${task}/schedstat`).split(' ')[0]) / 1e3;
    }
    times.set(pid, sum);
  }
  return times;
}

/** @returns {number} microseconds since `before` of the processes that exist now */
function cpuSince(before, server) {
  let sum = 0;
  for (const [pid, time] of cpuOf(server.pids())) sum += Math.max(time - (before.get(pid) ?? 0), 0);
  return sum;
}

/** @returns {number} the bytes of processes, with their share of shared memory */
const memoryOf = (pids) =>
  pids.reduce((sum, pid) => {
    const [, kilobytes = 0] = /^Pss: +(\d+)/m.exec(textOf(`/proc/${pid}/smaps_rollup`)) ?? [];
    return sum + Number(kilobytes) * 1024;
  }, 0);

/** @returns {number} connections to a port of this machine */
function connectionsTo(port) {
  const local = new RegExp(`^\\d+: \\w+:${port.toString(16).toUpperCase().padStart(4, '0')} `);
  const lines = ['tcp', 'tcp6'].flatMap((file) => textOf(`/proc/net/${file}`).split('\n'));
  return lines
    .map((line) => line.trim())
    .filter((line) => local.test(line) && line.split(/ +/)[3] === '01').length;
}

// Returns '' if the process has ended.
function textOf(file) {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function listOf(folder) {
  try {
    return fs.readdirSync(folder);
  } catch {
    return [];
  }
}

/**
 * Uses locks for a while.
 * @param {((i: number) => Promise<unknown>)[]} users each is called repeatedly
 * @param {number} milliseconds
 * @param {{ pids: () => number[] }} server
 * @returns {Promise<{ p50: number, p99: number, perSecond: number, client: number, server: number
 * }>}
 *   milliseconds of a use; uses a second; microseconds of processor time for a use
 */
async function use(users, milliseconds, server) {
  for (const [i, user] of users.entries()) await user(i);
  const times = [];
  const cpu = cpuOf(server.pids());
  const own = process.cpuUsage();
  const from = ms();
  await Promise.all(
    users.map(async (user, i) => {
      do {
        const at = ms();
        await user(i);
        times.push(ms() - at);
      } while (ms() - from < milliseconds);
    }),
  );
  const passed = ms() - from;
  const { user, system } = process.cpuUsage(own);
  const count = times.length;
  return {
    p50: rank(times, 0.5),
    p99: rank(times, 0.99),
    perSecond: count / (passed / 1e3),
    client: (user + system) / count,
    server: cpuSince(cpu, server) / count,
  };
}

const textOfUse = ({ p50, p99, perSecond, client, server }) =>
  `p50 ${p50.toFixed(2)} ms  p99 ${p99.toFixed(2)}  ${perSecond.toFixed(0)}/s` +
  `  client ${client.toFixed(0)} µs  server ${server.toFixed(0)} µs`;

const pairOf =
  ({ run }) =>
  (i) =>
    run(`own ${i}`, () => {});

/** The same with handles: a release is sent together with the next request of the same turn. */
function pairByHandles({ locks }) {
  const held = new Map();
  return async (i) => {
    const released = held.get(i)?.release();
    held.set(i, await locks.acquire(`held ${i}`));
    await released;
  };
}

/** @returns the results of each subject; there are two rounds in turns, and the later one counts */
async function besidePeers(engine) {
  console.log(`\n${engine.name}, beside its peers: a request and a release`);
  const opened = new Map();
  const left = {};
  for (const [name, open] of Object.entries(engine.peers)) {
    try {
      opened.set(name, await open());
    } catch (error) {
      if (!(error instanceof Missing)) throw error;
      left[name] = error.message;
    }
  }
  const pairs = new Map([...opened].map(([name, subject]) => [name, pairOf(subject)]));
  pairs.set('web-locks, handles', pairByHandles(opened.get('web-locks')));
  const results = {};
  for (let round = 0; round < (isBrief ? 1 : 2); round++) {
    for (const [name, pair] of pairs) {
      results[name] = {
        sequential: await use([pair], duration(1_000), engine.server),
        atOnce: await use(Array(AT_ONCE).fill(pair), duration(1_500), engine.server),
      };
    }
  }
  for (const [name, { sequential, atOnce }] of Object.entries(results)) {
    row(name, `one after the other  ${textOfUse(sequential)}`);
    row('', `${AT_ONCE} at once           ${textOfUse(atOnce)}`);
  }
  for (const [name, why] of Object.entries(left)) row(name, why);
  for (const { close } of opened.values()) await close();
  return results;
}

/** @returns the cost of one, four and no active sessions beside so many idle ones */
async function bySessions(engine) {
  const results = [];
  const opened = [];
  // By then the peers have released their resources.
  await wait(duration(6_000));
  const others = connectionsTo(engine.server.port);
  for (const count of isBrief ? [CONTENDERS + 1] : engine.sessions) {
    const before = { memory: memoryOf(engine.server.pids()), count: opened.length };
    while (opened.length < count) {
      const next = Math.min(count - opened.length, 25);
      const more = Array.from({ length: next }, () => engine.open());
      opened.push(...(await Promise.all(more)));
    }
    // By then each session has renewed its lease, which takes longer on a new connection.
    await wait(duration(4_000));
    const grown = memoryOf(engine.server.pids()) - before.memory;
    const contend = (most) =>
      use(
        opened.slice(0, most).map(
          ({ run }) =>
            () =>
              run('one', () => {}),
        ),
        duration(1_500),
        engine.server,
      );
    const haveAll = count > CONTENDERS && count <= MOST_CONTENDERS;
    const result = {
      sessions: count,
      alone: await use([pairOf(opened[0])], duration(1_500), engine.server),
      contended: await contend(CONTENDERS),
      all: haveAll ? await contend(count) : undefined,
      idle: await idle(engine, count, others),
      memory: grown / Math.max(count - before.count, 1),
    };
    results.push(result);
    console.log(`\n${engine.name}, ${count} session${count > 1 ? 's' : ''}`);
    row('one asks', textOfUse(result.alone));
    row(`${Math.min(count, CONTENDERS)} contend`, textOfUse(result.contended));
    if (result.all) row('all contend', textOfUse(result.all));
    const { calls, connections, cpu } = result.idle;
    row(
      'idle, of each',
      `${cpu.toFixed(0)} µs of the server's processor a second, ${calls.toFixed(2)} calls a ` +
        `second, ${connections.toFixed(2)} connections, ${(result.memory / 1024).toFixed(0)} KiB`,
    );
  }
  await Promise.all(opened.map(({ close }) => close()));
  return results;
}

/**
 * @param {object} engine
 * @param {number} count of sessions
 * @param {number} others connections that do not belong to sessions
 * @returns for each session: microseconds of the server's processor and calls, a second
 */
async function idle(engine, count, others) {
  // By then, used resources are released and lingering ones have ended.
  await wait(duration(1_500));
  const calls = await engine.server.calls();
  const cpu = cpuOf(engine.server.pids());
  const from = ms();
  // This is longer than a third of a lease, so each is renewed.
  await wait(duration(7_000));
  const passed = ms() - from;
  const spent = cpuSince(cpu, engine.server);
  return {
    cpu: spent / passed / 1e-3 / count,
    // One of the calls is this query.
    calls: Math.max((await engine.server.calls()) - calls - 1, 0) / passed / 1e-3 / count,
    connections: (connectionsTo(engine.server.port) - others) / count,
  };
}

/** @returns the results over a line with this round-trip time in milliseconds */
async function byDelay(engine) {
  const { FaultyProxy } = require('../test/cluster/proxy.js');
  const results = [];
  for (const roundTrip of isBrief ? [0, 5] : [0, 1, 5, 50]) {
    const proxy = await FaultyProxy.open(engine.server.port);
    const both = [await engine.open(proxy.port), await engine.open(proxy.port)];
    if (roundTrip > 0) proxy.delay(roundTrip / 2);
    const [one] = both;
    const time = Math.max(duration(1_000), 20 * roundTrip);
    const sequential = await use([pairOf(one)], time, engine.server);
    const atOnce = await use(Array(AT_ONCE).fill(pairOf(one)), time, engine.server);
    const query = await use([() => one.query()], time, engine.server);
    const handOver = await handOverOf(both, Math.max(20, size(100)), roundTrip);
    proxy.heal?.();
    for (const { close } of both) await close();
    await proxy.close();
    const result = { roundTrip, sequential, atOnce, query, handOver };
    results.push(result);
    console.log(`\n${engine.name}, ${roundTrip} ms to the server and back`);
    row('sequential', textOfUse(sequential));
    row(`${AT_ONCE} at once`, textOfUse(atOnce));
    row('query', textOfUse(query));
    row('hand-over', `p50 ${handOver.p50.toFixed(2)} ms  p99 ${handOver.p99.toFixed(2)}`);
    row('ratio', `${(atOnce.perSecond / sequential.perSecond).toFixed(1)} × of ${AT_ONCE} at once`);
  }
  return results;
}

/** @returns the milliseconds from the end of one client's use to the beginning of the other's */
async function handOverOf(both, count, roundTrip) {
  const gaps = [];
  let last = { who: -1, at: 0 };
  const again = async ({ run }, who) => {
    for (let i = 0; i < count / 2; i++) {
      await run('handed over', async () => {
        if (last.who === 1 - who) gaps.push(ms() - last.at);
        // It is long enough that the other client waits.
        await wait(5 + roundTrip);
        last = { who, at: ms() };
      });
    }
  };
  await Promise.all(both.map(again));
  return { p50: rank(gaps, 0.5), p99: rank(gaps, 0.99) };
}

/** If one process opens hundreds of buckets, that may take longer than a lease. */
async function untilReady(bucket) {
  for (let attempts = 1; ; attempts++) {
    try {
      await bucket.ready;
      return;
    } catch (error) {
      if (attempts === 6) throw error;
    }
  }
}

/** Wraps a bucket of ours like the subjects of the benches. */
const ofBucket = async (bucket, close = () => {}) => {
  await untilReady(bucket);
  return {
    run: (name, callback) => bucket.locks.request(name, callback),
    query: () => bucket.locks.query(),
    async close() {
      await bucket.close();
      await close();
    },
  };
};

/** The servers, and what is measured there; `close` closes each. */
const engines = {
  async redis() {
    const { lacks, startRedis } = require('../test/cluster/servers.js');
    if (lacks.redis) throw new Missing(lacks.redis);
    const Redis = require('ioredis');
    const { openBucket } = require('../lib/redis.js');
    const { subjects } = require('./redis.js');
    const server = await startRedis({ clock: null });
    // A new bucket then grants at once.
    await server.until(/uptime_in_seconds:(1[2-9]|[2-9]\d)/);
    const admin = new Redis(server.port);
    const info = async (what, field) =>
      Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(await admin.info(what))[1]);
    const pid = await info('server', 'process_id');
    const clients = [admin];
    const client = (port = server.port) => {
      const one = new Redis(port, { lazyConnect: true });
      clients.push(one);
      return one;
    };
    const peers = {};
    for (const [name, open] of Object.entries(subjects)) peers[name] = () => open(client());
    return {
      name: 'redis',
      server: {
        port: server.port,
        pids: () => [pid],
        calls: () => info('stats', 'total_commands_processed'),
      },
      peers,
      sessions: [1, 4, 20, 160, 1_000],
      open: (port) => ofBucket(openBucket('bench of sessions', { client: client(port) })),
      close() {
        for (const one of clients) one.disconnect();
      },
    };
  },

  async cluster() {
    const { lacks, startPostgres } = require('../test/cluster/servers.js');
    if (lacks.postgres) throw new Missing(lacks.postgres);
    const pg = require('pg');
    const { openBucket } = require('../lib/postgres.js');
    const { subjects } = require('./cluster.js');
    const server = await startPostgres({ settings: ['max_connections=300'] });
    const pools = [];
    const poolOf = (max, port = server.port) => {
      const pool = new pg.Pool({ ...server.config, port, max, idleTimeoutMillis: 3_000 });
      // An idle client loses its connection when the proxy ends.
      pool.on('error', () => {});
      pools.push(pool);
      return pool;
    };
    const pool = poolOf(AT_ONCE);
    await pool.query('CREATE TABLE polled (name text PRIMARY KEY, at timestamptz)');
    const sessions = poolOf(150);
    const text = `SELECT sum(xact_commit + xact_rollback)::int8 AS n FROM pg_stat_database`;
    const peers = {};
    for (const name of ['web-locks', 'rows', 'FOR UPDATE', 'advisory']) {
      peers[name] = () => subjects[name](name === 'rows' ? poolOf(AT_ONCE) : pool);
    }
    return {
      name: 'cluster',
      server: {
        port: server.port,
        pids: () => server.pids(),
        calls: async () => Number((await pool.query(text)).rows[0].n),
      },
      peers,
      // By default a server allows 100 connections.
      sessions: [1, 4, 20, 80],
      open: (port) =>
        ofBucket(openBucket('bench of sessions', { pool: port ? poolOf(3, port) : sessions })),
      close: () => Promise.all(pools.map((one) => one.end())),
    };
  },

  async etcd() {
    const { lacks, startEtcd } = require('../test/cluster/servers.js');
    if (lacks.etcd) throw new Missing(lacks.etcd);
    const { openBucket } = require('../lib/etcd.js');
    const { subjects } = require('./etcd.js');
    const server = await startEtcd();
    const [url] = server.endpoints;
    const peers = {};
    for (const name of ['web-locks', 'steps', 'steps, http', 'etcd3']) {
      peers[name] = () => subjects[name](url);
    }
    return {
      name: 'etcd',
      server: {
        port: server.port,
        pids: () => server.members.map(({ child }) => child.pid),
        async calls() {
          const metrics = await (await fetch(`${url}/metrics`)).text();
          const counts = metrics.matchAll(/^grpc_server_handled_total\{.*\} (\S+)$/gm);
          return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
        },
      },
      peers,
      sessions: [1, 4, 20, 160, 1_000],
      open: (port = server.port) =>
        ofBucket(openBucket('bench of sessions', { endpoints: [`http://127.0.0.1:${port}`] })),
      close() {},
    };
  },
};

/**
 * @param {'redis' | 'cluster' | 'etcd'} name
 * @returns {Promise<object>} the results; rejects with Missing if there is no such server
 */
async function measureEngine(name) {
  const { stopAll } = require('../test/cluster/servers.js');
  const engine = await engines[name]();
  const peers = await besidePeers(engine);
  const sessions = await bySessions(engine);
  const delays = await byDelay(engine);
  await engine.close();
  await stopAll();
  return { peers, sessions, delays };
}

module.exports = { measureEngine };
