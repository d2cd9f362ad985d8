'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { test } = require('node:test');
const { promisify } = require('node:util');
const { hold, valuesOf } = require('../helpers/locks.js');
const { newServer, openBucket } = require('./here.js');

/** A program in a process of its own. */
const run = (program) =>
  promisify(execFile)(process.execPath, ['-e', program], { timeout: 60_000 });
const HERE = JSON.stringify(path.join(__dirname, 'here.js'));

test('a bucket opens by itself, and its locks are used at once', async () => {
  const { bucket } = openBucket(newServer(), 'shop');
  assert.equal(bucket.name, 'shop');
  assert.equal(bucket.state, 'opening');
  assert.equal(await bucket.locks.request('a', (lock) => lock.token), 1n);
  assert.equal(bucket.state, 'open');
  await bucket.ready;
  await bucket.close();
  assert.equal(bucket.state, 'closed');
});

for (const scope of ['postgres', 'redis', 'etcd']) {
  test(`web-locks/${scope} has no locks that would be those of the process only`, async () => {
    const commonjs = require(`../../lib/${scope}.js`);
    const esm = await import(`../../lib/${scope}.mjs`);
    const { locks, openBucket: _, ...others } = require('../../lib/index.js');
    assert.ok(locks);
    for (const name of Object.keys(others)) assert.equal(esm[name], commonjs[name], name);
    assert.equal('locks' in commonjs, false);
    assert.equal('locks' in esm, false);
  });
}

/** A bucket that is open, and the names of the operations of each of its steps. */
async function watched(name) {
  const steps = [];
  const change = (adapter) => {
    const { step } = adapter;
    adapter.step = (ops, ...rest) => {
      steps.push(ops.map((op) => op.name));
      return step.call(adapter, ops, ...rest);
    };
  };
  const { bucket } = openBucket(newServer(), name, { change });
  await bucket.ready;
  return { bucket, steps };
}

test('loops that are answered together go on together', async () => {
  const { bucket, steps } = await watched('loops');
  const loop = async (name) => {
    for (let i = 0; i < 3; i++) await bucket.locks.request(name, () => {});
  };
  await Promise.all(['a', 'b', 'c', 'd'].map(loop));
  await bucket.close();
  assert.deepEqual(
    steps.map((names) => names.length),
    [4, 4, 4, 4, 4, 4],
  );
});

test('what a callback of the event loop asks, and its promises, is one step', async () => {
  const { bucket, steps } = await watched('promises');
  const ask = () =>
    Promise.all([
      bucket.locks.acquire('a'),
      Promise.resolve().then(() => bucket.locks.acquire('b')),
    ]);
  await new Promise((resolve) => setTimeout(() => resolve(ask()), 1));
  await bucket.close();
  assert.deepEqual(steps[0], ['a', 'b']);
});

test('a bucket is closed where `await using` ends', async () => {
  const server = newServer();
  const { bucket } = openBucket(server);
  await bucket.ready;
  await bucket[Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')]();
  assert.deepEqual(server.left, { sessions: 0, rows: 0 });
});

test('ready of a bucket waits anew after it has rejected, and a bucket recovers by itself', async (t) => {
  const keepsAlive = setInterval(() => {}, 60_000);
  t.after(() => clearInterval(keepsAlive));
  const { bucket, network } = openBucket(newServer(), 'shop', { ttl: 200 });
  network.away();
  const first = bucket.ready;
  assert.equal(bucket.ready, first);
  await assert.rejects(first, { code: 'ERR_WEB_LOCKS_UNREACHABLE' });
  assert.notEqual(bucket.ready, first);
  network.isCut = false;
  // It is tried less often than this short `ttl` lasts.
  while (bucket.state !== 'open') await bucket.ready.catch(() => {});
  assert.equal(await bucket.ready, undefined);
  await bucket.close();
});

test('a bucket tells what becomes of its session', async (t) => {
  // Neither the bucket nor this engine does.
  const keepsAlive = setInterval(() => {}, 60_000);
  t.after(() => clearInterval(keepsAlive));
  const server = newServer();
  const { bucket, network } = openBucket(server);
  await bucket.ready;
  const suspect = once(bucket, 'suspect');
  network.cut();
  const [{ cause }] = await suspect;
  assert.equal(cause.code, 'CUT');
  await once(bucket, 'open');
  const lost = once(bucket, 'lost');
  server.restart({ data: false });
  const [{ reason }] = await lost;
  assert.equal(reason, 'failover');
  await bucket.close();
});

test('who closes a bucket when it is suspect hears of his lock at once', async (t) => {
  const keepsAlive = setInterval(() => {}, 60_000);
  t.after(() => clearInterval(keepsAlive));
  const { bucket, network } = openBucket(newServer());
  const { lock, released } = await hold(bucket.locks, 'a');
  const told = assert.rejects(released, { name: 'AbortError', reason: 'closed' });
  let closed;
  bucket.addEventListener('suspect', () => {
    closed = bucket.close();
  });
  network.cut();
  await told;
  assert.equal(lock.held, false);
  await closed;
});

test('the label of a bucket is that of requests without one', async () => {
  const { bucket } = openBucket(newServer(), 'shop', { label: 'the shop' });
  const held = await hold(bucket.locks, 'a');
  const own = await hold(bucket.locks, 'b', { label: 'mine' });
  const { held: all } = await bucket.locks.query({ details: true });
  assert.deepEqual(valuesOf(all, 'label'), ['the shop', 'mine']);
  await held.release();
  await own.release();
  await bucket.close();
});

test('a lock is guarded by an engine that can, and lost if the engine has not got it', async () => {
  let isThere = true;
  const asked = [];
  const { bucket } = openBucket(newServer(), 'shop', {
    change(adapter) {
      adapter.guard = async (client, lock) => {
        asked.push({ client, ...lock });
        return isThere;
      };
    },
  });
  const held = await hold(bucket.locks, 'a');
  const released = held.released.catch((error) => error);
  await held.lock.guard('my client');
  isThere = false;
  await assert.rejects(held.lock.guard('my client'), { name: 'AbortError', reason: 'failover' });
  assert.deepEqual(asked[0], { client: 'my client', ref: 1, name: 'a', token: 1n });
  assert.equal(held.lock.held, false);
  assert.equal((await released).reason, 'failover');
  await bucket.close();
});

test('what a cluster cannot do is a NotSupportedError', async () => {
  const { bucket } = openBucket(newServer(), 'shop', {
    change(adapter) {
      adapter.can = { limits: false, groups: false };
    },
  });
  const { locks } = bucket;
  const notSupported = { name: 'NotSupportedError' };
  assert.throws(() => locks.tryAcquireSync('a'), notSupported);
  assert.throws(() => locks.acquireSync('a', { timeout: 1 }), notSupported);
  await assert.rejects(
    locks.request('a', { deadlock: 'reject' }, () => {}),
    notSupported,
  );
  await assert.rejects(
    locks.request('a', { mode: 'shared', limit: 2 }, () => {}),
    notSupported,
  );
  assert.equal(await locks.requestAll(['a', 'b'], (all) => all.length), 2);
  await bucket.close();
});

test('an open bucket, and a held lock, do not keep a process alive; they are given back', async () => {
  const { stdout } = await run(`
    const { newServer, openBucket } = require(${HERE});
    const server = newServer();
    const { bucket } = openBucket(server);
    bucket.locks.request('a', (lock) => {
      console.log('held', server.left.rows);
      return new Promise(() => {});
    });
    process.on('exit', () => console.log('left', server.left.rows, server.left.sessions));
  `);
  assert.equal(stdout, 'held 1\nleft 0 0\n');
});

test('who waits keeps a process alive', async () => {
  const { stdout } = await run(`
    const { newServer, openBucket } = require(${HERE});
    const server = newServer();
    const other = openBucket(server).bucket;
    const { bucket } = openBucket(server);
    let release;
    other.locks.request('a', () => new Promise((resolve) => { release = resolve; }));
    other.ready.then(() => bucket.locks.request('a', () => console.log('granted')));
    const timer = setTimeout(() => release(), 100);
    timer.unref();
  `);
  assert.equal(stdout, 'granted\n');
});
