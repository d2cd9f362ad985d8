// slow: 80; long; waits; needs: redis

'use strict';

/**
 * Tests keepers at real servers. The world tests what they promise while time passes
 * (model.test.js, rules.test.js). Here, leases are so long that none ends, and an event loop is
 * blocked until the server shows that the keeper has extended its lease.
 */

const assert = require('node:assert/strict');
const { execFile, execFileSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { inspect } = require('node:util');
const { Worker } = require('node:worker_threads');
const pg = require('pg');
const postgresJs = require('postgres');
const { RedisAdapter } = require('../../lib/cluster/engines/redis/adapter.js');
const { keeperOf } = require('../../lib/cluster/keeper/keeper.js');
const { LeaseCells } = require('../../lib/cluster/session/lease-cells.js');
const etcd = require('../../lib/etcd.js');
const postgres = require('../../lib/postgres.js');
const { openBucket } = require('../../lib/redis.js');
const { introduce } = require('./redis-bucket.js');
const { clients, clusterClients } = require('./redis-clients.js');
const { lacks, startEtcd, startPostgres, startRedis, stopAll } = require('./servers.js');

const root = path.join(__dirname, '..', '..');
const TTL = 30_000;

/** @type {Awaited<ReturnType<typeof startRedis>>} */
let server;
let folder;
// A bucket keeps the process alive only while a request waits.
const alive = setInterval(() => {}, 60_000);
before(async () => {
  folder = fs.mkdtempSync(path.join(root, 'build', 'keeper-'));
  server = await startRedis();
});
after(async () => {
  clearInterval(alive);
  fs.rmSync(folder, { recursive: true });
  await stopAll();
});

let count = 0;
/** Introduces a bucket to the server, so that it begins without a quarantine; returns its name. */
async function fresh(keyPrefix = '') {
  const name = `bucket ${++count}`;
  await introduce(new RedisAdapter(name, { client: clients.ioredis(server.port, { keyPrefix }) }));
  return name;
}

/** Writes a file for the option `module` of a keeper. */
function moduleOf(text) {
  const file = path.join(folder, `${++count}.js`);
  fs.writeFileSync(file, text);
  return file;
}

async function until(isSo) {
  while (!(await isSo())) await sleep(20);
}

/** Waits until no session has a connection. */
const untilDisconnected = () =>
  until(async () => {
    const all = await server.call('CLIENT', 'LIST');
    return !all.some((line) => /cmd=(evalsha|eval|subscribe|ping)/.test(line));
  });

async function sessionsOf(name, keyPrefix = '') {
  const [sessions] = await server.call('ZCARD', `${keyPrefix}{wl:${name}}:s`);
  return Number(sessions);
}

/**
 * Blocks the event loop until all leases are extended twice: then the keeper has shared what the
 * first extension of each has left.
 * @param {string} read the body of a function that runs in another process and returns numbers
 *   which only an extension raises: the ends of the leases, or how long they last
 */
function blockUntilExtended(read) {
  const program = `
    const read = async () => { ${read} };
    (async () => {
      const last = await read();
      const times = last.map(() => 0);
      while (Math.min(...times) < 2)
        for (const [i, next] of (await read()).entries()) {
          if (next > last[i]) times[i]++;
          last[i] = next;
        }
      process.exit();
    })();`;
  execFileSync(process.execPath, ['-e', program], { cwd: root });
}

/** Makes such a body for buckets at Redis. */
const readRedis = (names, prefix = '') => `
  globalThis.client ??= new (require('ioredis'))(${server.port});
  const keys = ${JSON.stringify(names.map((name) => `${prefix}{wl:${name}}:s`))};
  const all = await Promise.all(keys.map((key) => client.zrange(key, 0, 0, 'WITHSCORES')));
  return all.map(([, end]) => Number(end));`;

/** Checks that a lock of each bucket is still held in the first line after a block. */
async function surviveBlock(buckets, read) {
  const locks = await Promise.all(buckets.map(({ locks }) => locks.acquire('a')));
  const before = locks.map(({ remaining }) => remaining);
  const began = performance.now();
  blockUntilExtended(read);
  const blocked = performance.now() - began;
  for (const [i, { held, remaining, signal }] of locks.entries()) {
    assert.ok(held && !signal.aborted);
    assert.ok(remaining > before[i] - blocked, `${remaining} of ${before[i]} after ${blocked}`);
  }
  for (const lock of locks) lock.release();
  await Promise.all(buckets.map((bucket) => bucket.close()));
}

describe('a keeper extends the lease of a blocked event loop', () => {
  test('at Redis, with clients of each kind, and with one that a file makes', async () => {
    // It makes no client at first, and is asked again.
    const made = `let times = 0;
      module.exports = () => {
        if (times++ === 0) throw new Error('not yet');
        return new (require('ioredis'))({ port: ${server.port}, lazyConnect: true });
      };`;
    const keyPrefix = 'app:';
    const all = Object.values(clients).map((make) => ({
      client: make(server.port, { keyPrefix }),
      prefix: make === clients['node-redis 5'] ? keyPrefix : undefined,
      keeper: true,
    }));
    all.push({
      // This option cannot be sent to another thread.
      client: clients.ioredis(server.port, { natMap: () => null, keyPrefix }),
      keeper: { module: moduleOf(made) },
    });
    const names = await Promise.all(all.map(() => fresh(keyPrefix)));
    const buckets = all.map((options, i) => openBucket(names[i], { ttl: TTL, ...options }));
    await surviveBlock(buckets, readRedis(names, keyPrefix));
    for (const name of names) assert.equal(await sessionsOf(name, keyPrefix), 0);
    await untilDisconnected();
  });

  test('at PostgreSQL', { skip: lacks.postgres }, async () => {
    const { config } = await startPostgres();
    const pool = new pg.Pool({ ...config, password: 'none is asked for' });
    const sql = postgresJs({ ...config, onnotice() {} });
    const buckets = [
      postgres.openBucket('a', { pool, schema: 'one', ttl: TTL, keeper: true }),
      postgres.openBucket('a', { sql, schema: 'two', ttl: TTL, keeper: true }),
    ];
    await surviveBlock(
      buckets,
      `globalThis.client ??= new (require('pg').Client)(${JSON.stringify(config)});
      if (!client.processID) await client.connect();
      const { rows } = await client.query(
        'SELECT (SELECT max(expires) FROM one.session) AS a, ' +
        '(SELECT max(expires) FROM two.session) AS b');
      return Object.values(rows[0]);`,
    );
    await Promise.all([pool.end(), sql.end()]);
  });

  test('at etcd', { skip: lacks.etcd }, async () => {
    const { endpoints } = await startEtcd();
    // The keeper goes on to the next endpoint.
    const options = { endpoints: ['http://127.0.0.1:1', ...endpoints], ttl: TTL, keeper: true };
    await surviveBlock(
      [etcd.openBucket('a', options)],
      `const call = async (path, body) =>
        (await fetch('${endpoints[0]}/v3/lease/' + path, { method: 'POST', body })).json();
      const { leases } = await call('leases', '{}');
      const { TTL } = await call('timetolive', JSON.stringify({ ID: leases[0].ID }));
      return [Number(TTL)];`,
    );
  });
});

/** Makes the beginning of a program, which opens a bucket and requests a lock. */
const acquiring = (name, options = 'keeper: true') => `
  const { openBucket } = require('./lib/redis.js');
  const { clients } = require('./test/cluster/redis-clients.js');
  const client = clients.ioredis(${server.port});
  const bucket = openBucket('${name}', { client, ttl: ${TTL}, ${options} });
  const acquired = bucket.locks.acquire('a');`;

test('the keeper of a thread ends with it, even if the thread is blocked', async () => {
  const name = await fresh();
  const program = `${acquiring(name)}
    const { parentPort } = require('node:worker_threads');
    acquired.then(() => {
      parentPort.postMessage('held');
      for (;;);
    });`;
  const worker = new Worker(program, { eval: true });
  await once(worker, 'message');
  blockUntilExtended(readRedis([name]));
  await worker.terminate();
  await untilDisconnected();
});

test('a session gets a thread of its own if another one ends, or if its thread does', async () => {
  const workers = [];
  const note = (worker) => workers.push(worker);
  process.on('worker', note);
  const keeper = keeperOf({ engine: 'redis', bucket: 'a', options: {} }, 1000);
  const keep = () => keeper.keep({ ttl: TTL, maxBlocked: 1000 }, new LeaseCells());
  const stopped = keep().stop();
  const next = keep();
  await stopped;
  // The thread of the first session has ended.
  assert.equal(workers.length, 2);
  await workers[1].terminate();
  next.update({ life: '', token: 0n });
  await next.stop();
  assert.equal(workers.length, 3);
  process.off('worker', note);
});

describe('a program with a keeper', () => {
  const keeper = 'keeper: true';
  for (const [what, { program = '', options = keeper, skip = false, left, ...expected }] of [
    ['gives its locks back when it ends', { code: 0, signal: null, left: 0 }],
    [
      'exits, and its keeper with it',
      { program: 'process.exit(3)', code: 3, signal: null, left: 1 },
    ],
    [
      'releases its locks on a signal',
      {
        program: `setInterval(() => {}, 1000); process.kill(process.pid, 'SIGTERM')`,
        options: `${keeper}, releaseOnSignal: true`,
        skip: process.platform === 'win32' && 'signals end a process at once',
        ...{ code: null, signal: 'SIGTERM', left: 0 },
      },
    ],
  ]) {
    test(what, { skip }, async () => {
      const name = await fresh();
      const whole = `${acquiring(name, options)} acquired.then((lock) => { ${program} });`;
      const child = execFile(process.execPath, ['-e', whole], { cwd: root });
      let stderr = '';
      child.stderr.on('data', (data) => (stderr += data));
      const [code, signal] = await once(child, 'close');
      assert.deepEqual({ code, signal, stderr }, { ...expected, stderr: '' });
      await untilDisconnected();
      assert.equal(await sessionsOf(name), left);
    });
  }
});

describe('a keeper that cannot work is reported by a warning, and costs no lock', () => {
  const untilWarned = async (pattern) => {
    for (;;) {
      const [{ code, message }] = await once(process, 'warning');
      if (code === 'ERR_WEB_LOCKS_KEEPER') return assert.match(message, pattern);
    }
  };

  for (const [what, text, pattern] of [
    ['throws', "module.exports = () => { throw new Error('no secret'); };", /no secret/],
    [
      'exports no function',
      'exports.client = 1;',
      /'keeper\.module' \(.*\) is an object; expected/,
    ],
    ['ends the thread', "setImmediate(() => { throw new Error('oh'); });", /thread has failed: oh/],
  ])
    test(`its file ${what}`, async () => {
      const client = clients.ioredis(server.port);
      const keeper = { module: moduleOf(text) };
      const bucket = openBucket(await fresh(), { client, ttl: 2_000, keeper });
      await untilWarned(pattern);
      await bucket.locks.request('a', () => {});
      await bucket.close();
    });
});

describe('keeper refuses', () => {
  const open = (keeper, client = clients.ioredis(1)) => openBucket('a', { client, keeper });

  test('values that are none', () => {
    for (const wrong of [1, null, 'true', { maxBlocked: 999 }, { maxBlocked: '1s' }, { other: 1 }])
      assert.throws(() => open(wrong), TypeError, inspect(wrong));
    assert.throws(
      () => open({ module: './client.js' }),
      /expected an absolute path or a file: URL/,
    );
  });

  const provider = { type: 'async-credentials-provider', credentials: async () => ({}) };
  for (const [option, openIt] of Object.entries({
    natMap: () => open(true, clients.ioredis(1, { natMap: () => null })),
    'tls.checkServerIdentity': () =>
      open(true, clients.ioredis(1, { tls: { checkServerIdentity() {} } })),
    'socket.lookup': () => open(true, clients['node-redis'](1, { socket: { lookup() {} } })),
    'credentialsProvider.credentials': () =>
      open(true, clients['node-redis'](1, { credentialsProvider: provider })),
    password: () =>
      postgres.openBucket('a', { pool: new pg.Pool({ password: () => '' }), keeper: true }),
    fetch: () => etcd.openBucket('a', { endpoints: 'http://127.0.0.1:1', fetch, keeper: true }),
  }))
    test(`a client whose option ${option} cannot be sent to a thread`, () => {
      assert.throws(openIt, new RegExp(`'keeper' cannot send the client's option '${option}'`));
    });

  test('clients of a cluster, without a module', () => {
    for (const make of Object.values(clusterClients))
      assert.throws(() => open(true, make(1)), /'keeper' cannot make a client of a cluster/);
  });
});
