// slow: 40; long; waits; needs: redis

'use strict';

/**
 * Keepers at real servers. What they promise while time passes is tried in the world (model.test.js,
 * rules.test.js); here leases are so long that none ends, and an event loop is blocked until the
 * server shows that the keeper has extended its lease.
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
const etcd = require('../../lib/etcd.js');
const postgres = require('../../lib/postgres.js');
const { openBucket } = require('../../lib/redis.js');
const { clients, clusterClients } = require('./redis-clients.js');
const { programs } = require('../helpers/programs.js');
const { lacks, startEtcd, startPostgres, startRedis, stopAll } = require('./servers.js');

const root = path.join(__dirname, '..', '..');
const TTL = 30_000;
const redisCli = programs.redis?.replace(/-server$/, '-cli');

/** @type {Awaited<ReturnType<typeof startRedis>>} */
let server;
before(async () => {
  server = await startRedis();
});
after(() => stopAll());

let buckets = 0;
/**
 * The name of a bucket that the server seems to know, so that it begins with no quarantine, although
 * the server is younger than a lease.
 */
async function fresh() {
  const name = `bucket ${++buckets}`;
  const [, run] = /run_id:(\w+)/.exec((await server.call('INFO', 'server')).join('\n'));
  const now = Date.now();
  const its = { run, life: 'life', lives: '', from: 0, renewed: now, tok: `${now}000` };
  await server.call('HSET', `{wl:${name}}:m`, ...Object.entries(its).flat().map(String));
  return name;
}

const keyOf = (bucket) => `{wl:${bucket}}:s`;
/** The ends of leases, read while the event loop is blocked. */
function leaseEnds(bucket) {
  const args = ['-p', server.port, 'ZRANGE', keyOf(bucket), 0, -1, 'WITHSCORES'].map(String);
  return execFileSync(redisCli, args, { encoding: 'utf8' });
}

/** Blocks the event loop until the server has another end of the lease of each bucket. */
function blockUntilExtended(...names) {
  const before = names.map(leaseEnds);
  for (const [i, name] of names.entries()) while (leaseEnds(name) === before[i]);
}

const connectionsOf = async () =>
  (await server.call('CLIENT', 'LIST')).filter((line) =>
    /cmd=(evalsha|eval|subscribe|ping)/.test(line),
  ).length;

async function until(isSo) {
  while (!(await isSo())) await sleep(20);
}

/** Runs a program with a bucket, `bucket`, and a lock of it, `lock`. */
function run(name, program, options = 'keeper: true') {
  const whole = `
    const { openBucket } = require('./lib/redis.js');
    const { clients } = require('./test/cluster/redis-clients.js');
    const client = clients.ioredis(${server.port});
    const bucket = openBucket('${name}', { client, ttl: ${TTL}, ${options} });
    (async () => {
      const lock = await bucket.locks.acquire('a');
      ${program}
    })();`;
  const child = execFile(process.execPath, ['-e', whole], { cwd: root });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (data) => (stdout += data));
  child.stderr.on('data', (data) => (stderr += data));
  return once(child, 'close').then(([code, signal]) => ({ code, signal, stdout, stderr }));
}

const sessionsOf = async (name) => Number((await server.call('ZCARD', keyOf(name)))[0]);

/** Right after a block that began when at most `most` was left of the lease. */
function assertExtended({ held, remaining, signal }, most, blocked) {
  assert.ok(held && !signal.aborted);
  assert.ok(remaining > most - blocked, `${remaining} of ${most} after ${blocked}`);
}

test('locks are held in the first line after a block, by clients of each kind', async () => {
  const opening = Object.values(clients).map(async (make) => {
    const name = await fresh();
    const client = make(server.port);
    return { name, bucket: openBucket(name, { client, ttl: TTL, keeper: true }) };
  });
  const open = await Promise.all(opening);
  const locks = await Promise.all(open.map(({ bucket }) => bucket.locks.acquire('a')));
  const most = Math.max(...locks.map(({ remaining }) => remaining));
  const began = performance.now();
  blockUntilExtended(...open.map(({ name }) => name));
  const blocked = performance.now() - began;
  for (const lock of locks) assertExtended(lock, most, blocked);
  for (const lock of locks) lock.release();
  await Promise.all(open.map(({ bucket }) => bucket.close()));
  for (const { name } of open) assert.equal(await sessionsOf(name), 0);
  await until(async () => (await connectionsOf()) === 0);
});

/**
 * Blocks the event loop until a lease is extended.
 * @param {string} read the body of a function that returns, in another process, something that grows
 *   only by that: when the lease ends, or how long it still lasts
 */
function blockUntilLonger(read) {
  const program = `
    const read = async () => { ${read} };
    (async () => {
      for (let last = await read(), next = last; next <= last; next = await read()) last = next;
      process.exit();
    })();`;
  execFileSync(process.execPath, ['-e', program], { cwd: root });
}

async function survivesBlock(bucket, read) {
  const lock = await bucket.locks.acquire('a');
  const most = lock.remaining;
  const began = performance.now();
  blockUntilLonger(read);
  assertExtended(lock, most, performance.now() - began);
  lock.release();
  await bucket.close();
}

describe('PostgreSQL', { skip: lacks.postgres }, () => {
  let config;
  before(async () => {
    config = (await startPostgres()).config;
  });
  const makers = {
    'a Pool of pg': () => ({ pool: new pg.Pool({ ...config, password: 'none is asked for' }) }),
    'a `sql`': () => ({ sql: postgresJs({ ...config, onnotice() {} }) }),
  };
  for (const [what, make] of Object.entries(makers))
    test(`a lock is held in the first line after a block, with ${what}`, async () => {
      const client = make();
      const schema = `schema_${++buckets}`;
      const bucket = postgres.openBucket('a', { ...client, schema, ttl: TTL, keeper: true });
      await survivesBlock(
        bucket,
        `globalThis.client ??= new (require('pg').Client)(${JSON.stringify(config)});
        if (!client.processID) await client.connect();
        const { rows } = await client.query('SELECT max(expires) AS ends FROM ${schema}.session');
        return rows[0].ends;`,
      );
      await (client.pool ?? client.sql).end();
    });

  test('a password that is a function cannot be sent to a thread', () => {
    const pool = new pg.Pool({ password: () => 'secret' });
    assert.throws(
      () => postgres.openBucket('a', { pool, keeper: true }),
      /'keeper' cannot send the client's option 'password'/,
    );
  });
});

describe('etcd', { skip: lacks.etcd }, () => {
  test('a lock is held in the first line after a block', async () => {
    const { endpoints } = await startEtcd();
    // The keeper goes on to the next endpoint.
    const options = { endpoints: [...endpoints, 'http://127.0.0.1:1'], ttl: TTL, keeper: true };
    await survivesBlock(
      etcd.openBucket('a', options),
      `const call = async (path, body) =>
        (await fetch('${endpoints[0]}/v3/lease/' + path, { method: 'POST', body })).json();
      const { leases } = await call('leases', '{}');
      const { TTL } = await call('timetolive', JSON.stringify({ ID: leases[0].ID }));
      return Number(TTL);`,
    );
  });

  test('a fetch cannot be sent to a thread', () => {
    assert.throws(
      () => etcd.openBucket('a', { endpoints: 'http://127.0.0.1:1', fetch, keeper: true }),
      /'keeper' cannot send the client's option 'fetch'/,
    );
  });
});

test('the keeper of a thread ends with it, even if the thread is blocked', async () => {
  const name = await fresh();
  const program = `
    const { parentPort } = require('node:worker_threads');
    const { openBucket } = require('./lib/redis.js');
    const { clients } = require('./test/cluster/redis-clients.js');
    const bucket = openBucket('${name}', { client: clients.ioredis(${server.port}), ttl: ${TTL}, keeper: true });
    bucket.locks.acquire('a').then(() => {
      parentPort.postMessage('held');
      for (;;);
    });`;
  const worker = new Worker(program, { eval: true });
  await once(worker, 'message');
  const first = leaseEnds(name);
  await until(() => leaseEnds(name) !== first);
  await worker.terminate();
  await until(async () => (await connectionsOf()) === 0);
});

test('a program that ends gives its locks back, and is not kept alive', async () => {
  const name = await fresh();
  const { code, stderr } = await run(name, '');
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  assert.equal(await sessionsOf(name), 0);
});

test('a program that exits ends, and its keeper with it', async () => {
  const name = await fresh();
  const { code, stderr } = await run(name, 'process.exit(3);');
  assert.deepEqual({ code, stderr }, { code: 3, stderr: '' });
  await until(async () => (await connectionsOf()) === 0);
});

test('a signal releases the locks of a bucket with a keeper', {
  skip: process.platform === 'win32' && 'signals end a process at once',
}, async () => {
  const name = await fresh();
  const options = 'keeper: true, releaseOnSignal: true';
  const program = `setInterval(() => {}, 1000); process.kill(process.pid, 'SIGTERM');`;
  const { signal, stderr } = await run(name, program, options);
  assert.deepEqual({ signal, stderr }, { signal: 'SIGTERM', stderr: '' });
  assert.equal(await sessionsOf(name), 0);
});

describe('module', () => {
  let folder;
  before(() => {
    folder = fs.mkdtempSync(path.join(root, 'build', 'keeper-'));
  });
  after(() => fs.rmSync(folder, { recursive: true }));
  const moduleOf = (text) => {
    const file = path.join(folder, `${++buckets}.js`);
    fs.writeFileSync(file, text);
    return file;
  };

  test('a file makes the client', async () => {
    const name = await fresh();
    const made = `module.exports = () => new (require('ioredis'))({ port: ${server.port}, lazyConnect: true });`;
    // Its options cannot be sent to another thread.
    const client = clients.ioredis(server.port, { natMap: () => null });
    const keeper = { module: moduleOf(made) };
    const bucket = openBucket(name, { client, ttl: TTL, keeper });
    const lock = await bucket.locks.acquire('a');
    blockUntilExtended(name);
    assert.ok(lock.held);
    await bucket.close();
  });

  for (const [what, text, pattern] of [
    ['throws', "module.exports = () => { throw new Error('no secret'); };", /no secret/],
    [
      'exports no function',
      'exports.client = 1;',
      /'keeper\.module' \(.*\) is an object; expected/,
    ],
    ['ends the thread', "setImmediate(() => { throw new Error('oh'); });", /thread has failed: oh/],
  ])
    test(`a file that ${what} is told of, and the bucket works without it`, async () => {
      const keeper = { module: moduleOf(text) };
      const client = clients.ioredis(server.port);
      const bucket = openBucket(await fresh(), { client, ttl: 2_000, keeper });
      // Nothing of a bucket keeps the process alive while nobody waits for a lock.
      const alive = setInterval(() => {}, 1_000);
      for (;;) {
        const [warning] = await once(process, 'warning');
        if (warning.code !== 'ERR_WEB_LOCKS_KEEPER') continue;
        assert.match(warning.message, pattern);
        break;
      }
      clearInterval(alive);
      await bucket.locks.request('a', () => {});
      await bucket.close();
    });
});

describe('a keeper that reaches another database', { skip: lacks.postgres }, () => {
  test('costs no lock, and is told of when the bucket is closed', async () => {
    const { config } = await startPostgres();
    const made = `module.exports = () =>
      new (require('pg').Pool)(${JSON.stringify({ ...config, database: 'template1' })});`;
    const file = path.join(root, 'build', `keeper-${process.pid}.js`);
    fs.writeFileSync(file, made);
    const pool = new pg.Pool(config);
    const bucket = postgres.openBucket('a', { pool, ttl: TTL, keeper: { module: file } });
    const lock = await bucket.locks.acquire('a');
    // There are no tables.
    const failed = `SELECT xact_rollback > 0 AS is FROM pg_stat_database WHERE datname = 'template1'`;
    const isAsked = async () => (await pool.query(failed)).rows[0].is;
    await until(isAsked);
    await bucket.locks.query();
    assert.ok(lock.held);
    lock.release();
    const warned = once(process, 'warning');
    await bucket.close();
    const [{ code, message }] = await warned;
    assert.equal(code, 'ERR_WEB_LOCKS_KEEPER');
    assert.match(message, /another server or database/);
    await pool.end();
    fs.rmSync(file);
  });
});

describe('refuses', () => {
  const open = (keeper, client = clients.ioredis(1)) => openBucket('a', { client, keeper });

  test('values that are none', () => {
    for (const wrong of [1, null, 'true', { maxBlocked: 999 }, { maxBlocked: '1s' }, { other: 1 }])
      assert.throws(() => open(wrong), TypeError, inspect(wrong));
    assert.throws(
      () => open({ module: './client.js' }),
      /expected an absolute path or a file: URL/,
    );
  });

  for (const [option, make] of Object.entries({
    natMap: () => clients.ioredis(1, { natMap: () => null }),
    'tls.checkServerIdentity': () => clients.ioredis(1, { tls: { checkServerIdentity() {} } }),
    'socket.lookup': () => clients['node-redis'](1, { socket: { lookup() {} } }),
    'credentialsProvider.credentials': () =>
      clients['node-redis'](1, {
        credentialsProvider: { type: 'async-credentials-provider', credentials: async () => ({}) },
      }),
  }))
    test(`a client whose option ${option} cannot be sent to a thread`, () => {
      const named = new RegExp(`'keeper' cannot send the client's option '${option}'`);
      assert.throws(() => open(true, make()), named);
    });

  test('clients of a cluster, without a module', () => {
    for (const make of Object.values(clusterClients))
      assert.throws(() => open(true, make(1)), /'keeper' cannot make a client of a cluster/);
  });
});
