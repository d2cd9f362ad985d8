// slow: 72; long; waits

'use strict';

/** `--at`: the locks of an engine. */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { createServer } = require('node:net');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { openEngine } = require('../../lib/cli/engines.js');
const servers = require('../cluster/servers.js');
const { pendingOn } = require('../helpers/process.js');
const { UNTIL_LINE, check, root, run, afterEnd, skip, start } = require('./command.js');

const { lacks, startEtcd, startPgbouncer, startPostgres, startRedis, stopAll } = servers;
const BUILT = path.join('build', 'Release', 'web_locks.node');

after(stopAll);

/** An empty folder, from which no package can be resolved. */
function emptyFolder(t) {
  const folder = mkdtempSync(path.join(tmpdir(), 'web-locks-cli-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

describe('--at', { skip }, () => {
  it('is a URL that an engine can read, with options of that engine', () => {
    const other = (option, engine) => `${option} cannot be used with ${engine}:`;
    for (const [url, settings, message] of [
      ['mysql://host', {}, "--at is 'mysql:"],
      ['postgres', {}, "--at is 'postgres'; expected "],
      ['etcd+http://', {}, "--at is 'etcd"],
      ['etcd+http://host/path', {}, "--at is 'etcd"],
      ['redis://host', { schema: 'x' }, other('--schema', 'redis')],
      ['etcd+http://host', { schema: 'x' }, other('--schema', 'etcd+http')],
      ['postgres://host', { shards: 2 }, other('--shards', 'postgres')],
      ['etcd+http://host', { prefix: 'dev:' }, other('--prefix', 'etcd+http')],
      ['redis://host:99999', {}, '--at: Invalid URL.'],
      ['postgres://host:port/db', {}, '--at: Invalid URL.'],
    ]) {
      const isRight = (error) => error.status === 64 && error.message.startsWith(message);
      assert.throws(() => openEngine(url, { bucket: 'x', ...settings }, '--at'), isRight, url);
    }
  });

  /** Installs the package in a new folder like npm; its neighbour `pg` prints the given text. */
  function installed(t, pg) {
    const modules = path.join(emptyFolder(t), 'node_modules');
    for (const part of ['bin', 'lib', 'package.json'])
      cpSync(path.join(root, part), path.join(modules, 'web-locks', part), { recursive: true });
    if (pg) writePackage(path.join(modules, 'pg'), pg);
    const WEB_LOCKS_BINARY = process.env.WEB_LOCKS_BINARY ?? path.join(root, BUILT);
    const program = path.join(modules, 'web-locks', 'bin', 'web-locks.js');
    return { program, env: { WEB_LOCKS_BINARY } };
  }

  /** A client library that prints its name. */
  function writePackage(folder, says) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, 'index.js'), `console.error('${says}'); process.exit(42);`);
  }

  it('finds its package in the current folder or its own, or says how to install it', async (t) => {
    const cwd = emptyFolder(t);
    const args = ['run', 'a', '--at', 'postgres://localhost', '--', 'echo', 'runs'];
    const stderr =
      `web-locks: --at needs the package pg, which is installed neither in ${cwd} nor with ` +
      'web-locks.\nInstall it: npm install pg (with --global if web-locks is global).\n';
    check(await run(t, args, { cwd, ...installed(t) }), { code: 69, stdout: '', stderr });
    const beside = { cwd, ...installed(t, 'the pg beside it') };
    check(await run(t, args, beside), { code: 42, stderr: 'the pg beside it\n' });
    writePackage(path.join(cwd, 'node_modules', 'pg'), 'the pg of the folder');
    check(await run(t, args, beside), { code: 42, stderr: 'the pg of the folder\n' });
  });

  const NOBODY = 'postgres://nobody@127.0.0.1:1/none';

  it('says once that the server cannot be reached in time, and why', async (t) => {
    for (const [words, seconds] of [
      [['--ttl', '2'], 2],
      [['--ttl', '3600', '-w', '1.5'], 1.5],
    ]) {
      const ending = await run(t, ['run', 'a', '--at', NOBODY, ...words, '--', 'echo', 'runs']);
      const stderr =
        `web-locks: the lock server could not be used within ${seconds} s: ` +
        'PostgreSQL cannot be reached: connect ECONNREFUSED 127.0.0.1:1\n';
      check(ending, { code: 69, stdout: '', stderr });
    }
  });

  it('gives a server up that does not answer within --timeout or, with -n, 10 s', async (t) => {
    const sockets = [];
    const server = createServer((socket) => sockets.push(socket.on('error', () => {})));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    t.after(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const tryOne = async ([scheme, seconds, ...how]) => {
      const at = ['--at', `${scheme}://127.0.0.1:${server.address().port}`, '--ttl', '3600'];
      const ending = await run(t, ['run', 'a', ...at, ...how, '--', 'true']);
      const stderr = `web-locks: no answer from the lock server within ${seconds} s.\n`;
      check(ending, { code: 69, stdout: '', stderr }, scheme);
    };
    const all = ['postgres', 'redis', 'etcd+http'].map((scheme) => [scheme, 1, '-w', '1']);
    await Promise.all([...all, ['redis', 10, '-n', '-E', '0']].map(tryOne));
  });

  it('ends by a signal while the server does not answer', async (t) => {
    const env = { NODE_DEBUG: 'net' };
    const words = ['run', 'a', '--at', NOBODY, '--ttl', '3600', ...UNTIL_LINE];
    const command = start(t, words, { env });
    await command.says(/NET/, 'stderr');
    command.kill('SIGTERM');
    assert.equal((await command.ended).signal, 'SIGTERM');
  });
});

/** What all engines have in common; `at` returns the URL, `openBucket` opens `default` there. */
function conform(at, openBucket) {
  it('run excludes others; query shows holders and waiters; steal ends the command', async (t) => {
    const { locks } = await openBucket(t);
    const env = { WEB_LOCKS_AT: at() };
    const first = start(t, ['run', 'a', ...UNTIL_LINE], { env });
    await first.says(/runs/);
    const place = ['--bucket', 'default', '--at', at(), '--priority', '0'];
    const second = start(t, ['run', 'a', ...place, ...UNTIL_LINE]);
    await pendingOn(locks, 'a');
    const third = start(t, ['run', 'a', '--label', 'third', ...UNTIL_LINE], { env });
    await pendingOn(locks, 'a', 2);
    const { stdout } = await run(t, ['query', '--name', 'a', '--json'], { env });
    const { held, pending } = JSON.parse(stdout);
    assert.deepEqual([held[0].label, held[0].pid], [UNTIL_LINE.at(-1), first.pid]);
    assert.match(held[0].token, /^\d+$/);
    assert.deepEqual([pending[1].label, pending[1].pid], ['third', third.pid]);
    third.kill('SIGTERM');
    assert.equal((await third.ended).signal, 'SIGTERM');
    assert.equal((await locks.query({ name: 'a' })).pending.length, 1);
    let said;
    // It names the holder if that is known at once, which a busy machine may not manage.
    for (let i = 0; i < 10 && !said?.includes('held by'); i++) {
      const { code, stderr } = await run(t, ['run', 'a', '-n', '--', 'true'], { env });
      assert.equal(code, 1);
      said = stderr;
    }
    assert.match(said, new RegExp(`held by process ${first.pid} \\("echo runs; `));
    const robbed = new RegExp(`^stolen from process ${first.pid} `);
    check(await run(t, ['steal', 'a', '--yes'], { env }), { code: 0, stdout: robbed });
    check(await first.ended, { code: 75, stderr: /was stolen/ });
    await second.says(/runs/);
    await second.endsAfter('');
    await locks.request('a', { ifAvailable: true }, assert.ok);
  });

  it('once runs the command of one caller, and that of the next one if it fails', async (t) => {
    const env = { WEB_LOCKS_AT: at() };
    const name = `once ${Math.random()}`;
    const once = (...words) => ['once', name, '--keep', '1h', ...words];
    const first = start(t, once(...UNTIL_LINE), { env });
    await first.says(/runs/);
    const bucket = await openBucket(t);
    const second = start(t, once('--', 'sh', '-c', 'echo second; exit 7'), { env });
    await pendingOn(bucket.locks, name);
    first.kill('SIGTERM');
    assert.equal((await first.ended).signal, 'SIGTERM');
    check(await second.ended, { code: 7, signal: null, stdout: 'second\n', stderr: '' });
    // Node.js has no name for this signal.
    if (process.platform === 'linux')
      assert.equal((await run(t, once('--', 'sh', '-c', 'kill -40 $$'), { env })).code, 168);
    assert.equal((await run(t, once('--', 'echo', 'third'), { env })).stdout, 'third\n');
    const stderr = `web-locks: another caller has already run "${name}"; the command is skipped.\n`;
    const fourth = await run(t, once('-v', '--', 'echo', 'fourth'), { env });
    check(fourth, { code: 0, stdout: '', stderr });
  });
}

describe('--at postgres://…', { skip: skip || lacks.postgres }, () => {
  let server;
  before(async () => {
    server = await startPostgres();
  });
  const at = () => `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  conform(at, async (t) => {
    const { Pool } = require('pg');
    const pool = new Pool({ connectionString: at() });
    const bucket = require('../../lib/postgres.js').openBucket('default', { pool });
    t.after(async () => {
      await bucket.close();
      await pool.end();
    });
    return bucket;
  });

  it('refuses a pooler in between, and says what to do', { skip: lacks.pgbouncer }, async (t) => {
    const { port } = await startPgbouncer(server, 'transaction');
    const args = ['query', '--at', `postgres://postgres@127.0.0.1:${port}/postgres`];
    const stderr = /^web-locks: a pooler .*\nGive --at the URL of PostgreSQL itself\.\n$/;
    check(await run(t, args), { code: 69, stderr });
  });

  it('once marks the name and ends as its command, though a signal comes in between', async (t) => {
    const env = afterEnd(emptyFolder(t));
    const once = (name) => ['once', name, '--keep', '1h', '--at', at(), '--'];
    const args = [...once('marked'), 'echo', 'runs'];
    check(await run(t, args, { env }), { code: 0, stdout: 'runs\n', stderr: '' });
    check(await run(t, args), { code: 0, stdout: '', stderr: '' });
    assert.equal((await run(t, [...once('failed'), 'sh', '-c', 'exit 7'], { env })).code, 7);
  });

  it('ends the command when the lease is over, if the server has gone', async (t) => {
    const args = ['run', 'a', '--bucket', 'other', '--at', at(), '--ttl', '2', ...UNTIL_LINE];
    const command = start(t, args);
    await command.says(/runs/);
    await server.stop();
    t.after(() => server.start());
    const stderr = /was lost: (the server did not answer|its lease was not renewed) in time/;
    check(await command.ended, { code: 75, stderr });
  });
});

describe('--at redis://…', { skip: skip || lacks.redis }, () => {
  let server;
  before(async () => {
    server = await startRedis();
  });
  const at = () => `redis://127.0.0.1:${server.port}`;
  conform(at, async (t) => {
    const client = require('redis').createClient({ url: at() });
    const bucket = require('../../lib/redis.js').openBucket('default', { client });
    t.after(() => bucket.close());
    return bucket;
  });

  it('says for how long a server grants nothing that has just started', async (t) => {
    const young = await startRedis({ clock: null });
    const env = { WEB_LOCKS_AT: `redis://127.0.0.1:${young.port}` };
    await run(t, ['run', 'a', '--ttl', '600', '-n', '--', 'true'], { env });
    const told =
      /^No locks are held.*\nThe server may have forgotten locks, and grants nothing for another \d min \d+ s\.\n$/;
    check(await run(t, ['query'], { env }), { stdout: told });
    const { stdout } = await run(t, ['query', '--json'], { env });
    assert.ok(JSON.parse(stdout).grantsIn > 60_000);
  });
});

describe('--at etcd+http://…', { skip: skip || lacks.etcd }, () => {
  let server;
  before(async () => {
    server = await startEtcd();
  });
  const at = () => `etcd+${server.endpoint ?? `http://127.0.0.1:${server.port}`}`;
  conform(at, async (t) => {
    const endpoints = [at().slice('etcd+'.length)];
    const bucket = require('../../lib/etcd.js').openBucket('default', { endpoints });
    t.after(() => bucket.close());
    return bucket;
  });
});
