'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { describe, test } = require('node:test');
const { promisify } = require('node:util');
const { openClusterBucket } = require('../../lib/extensions/buckets/cluster-bucket.js');
const { hold, valuesOf } = require('../helpers/locks.js');
const { newServer, openBucket } = require('./here.js');

for (const scope of ['postgres', 'redis', 'etcd']) {
  test(`web-locks/${scope} exports everything but the locks of the process`, async () => {
    const commonjs = require(`../../lib/${scope}.js`);
    const esm = await import(`../../lib/${scope}.mjs`);
    const { locks, openBucket: _, ...others } = require('../../lib/index.js');
    assert.ok(locks);
    for (const name of Object.keys(others)) assert.equal(esm[name], commonjs[name], name);
    assert.equal('locks' in commonjs, false);
    assert.equal('locks' in esm, false);
  });
}

test('a bucket opens by itself, and `await using` closes it', async () => {
  const server = newServer();
  const { bucket } = openBucket(server, 'shop');
  assert.deepEqual([bucket.name, bucket.state], ['shop', 'opening']);
  assert.equal(await bucket.locks.request('a', (lock) => lock.token), 1n);
  assert.equal(bucket.state, 'open');
  await bucket.ready;
  await bucket[Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')]();
  assert.equal(bucket.state, 'closed');
  assert.deepEqual(server.left, { sessions: 0, rows: 0 });
});

test('requests of loops that are answered together, and of promises, share steps', async () => {
  const steps = [];
  const change = (adapter) => {
    const { step } = adapter;
    adapter.step = (ops, ...rest) => {
      steps.push(valuesOf(ops, 'name'));
      return step.call(adapter, ops, ...rest);
    };
  };
  const { bucket } = openBucket(newServer(), 'shop', { change });
  await bucket.ready;
  const names = ['a', 'b', 'c', 'd'];
  const loop = async (name) => {
    for (let i = 0; i < 3; i++) await bucket.locks.request(name, () => {});
  };
  await Promise.all(names.map(loop));
  assert.deepEqual(steps.splice(0), Array(6).fill(names));
  const request = () => Promise.all([loop('a'), Promise.resolve().then(() => loop('b'))]);
  await new Promise((resolve) => setTimeout(() => resolve(request()), 1));
  assert.deepEqual(steps[0], ['a', 'b']);
  await bucket.close();
});

test('an engine without a keeper has no such option', () => {
  const open = (options) => openClusterBucket(2, 'shop', options, ['client'], () => assert.fail());
  assert.throws(() => open({ client: {}, keeper: true }), /'keeper' is not supported here/);
});

describe('the events of a bucket', () => {
  /** Neither a bucket nor the engine in memory keeps the process alive. */
  function opened(t, server = newServer()) {
    const keepsAlive = setInterval(() => {}, 60_000);
    t.after(() => clearInterval(keepsAlive));
    return openBucket(server);
  }

  test('have the causes and reasons of changes of its session', async (t) => {
    const server = newServer();
    const { bucket, network } = opened(t, server);
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

  test('may close it, which ends its locks at once', async (t) => {
    const { bucket, network } = opened(t);
    const { lock, released } = await hold(bucket.locks, 'a');
    const lost = assert.rejects(released, { name: 'AbortError', reason: 'closed' });
    let closed;
    bucket.addEventListener('suspect', () => {
      closed = bucket.close();
    });
    network.cut();
    await lost;
    assert.equal(lock.held, false);
    await closed;
  });
});

test('the label of a bucket is the default of its requests', async () => {
  const { bucket } = openBucket(newServer(), 'shop', { label: 'the shop' });
  const locks = [await hold(bucket.locks, 'a')];
  locks.push(await hold(bucket.locks, 'b', { label: 'mine' }));
  const { held } = await bucket.locks.query({ details: true });
  assert.deepEqual(valuesOf(held, 'label'), ['the shop', 'mine']);
  for (const lock of locks) await lock.release();
  await bucket.close();
});

test('a lock that its engine cannot guard, because it has not got it, is lost', async () => {
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

test('an option that the engine does not support is refused', async () => {
  const change = (adapter) => {
    adapter.can = { limits: false, groups: false };
  };
  const full = openBucket(newServer()).bucket;
  const { bucket } = openBucket(newServer(), 'shop', { change });
  const { locks } = bucket;
  const notSupported = { name: 'NotSupportedError' };
  assert.throws(() => locks.tryAcquireSync('a'), notSupported);
  assert.throws(() => locks.acquireSync('a', { timeout: 1 }), notSupported);
  await assert.rejects(
    locks.request('a', (lock) => lock.publish(1)),
    notSupported,
  );
  for (const options of [{ deadlock: 'reject' }, { mode: 'shared', limit: 2 }, { priority: -1 }])
    await assert.rejects(
      locks.request('a', options, () => {}),
      notSupported,
    );
  await assert.rejects(
    locks.once('a', { keep: 1 }, () => {}),
    notSupported,
  );
  await assert.rejects(
    full.locks.requestAll(['a', 'b'], { priority: 1 }, () => {}),
    notSupported,
  );
  assert.equal(await locks.requestAll(['a', 'b'], (all) => all.length), 2);
  assert.equal(await locks.request('a', { priority: 0 }, () => 'granted'), 'granted');
  await bucket.close();
  await full.close();
});

describe('a process', () => {
  /** Runs a program in a process of its own, and returns its output. */
  async function run(program) {
    const here = JSON.stringify(path.join(__dirname, 'here.js'));
    const whole = `
      const { newServer, openBucket } = require(${here});
      const server = newServer();
      const { bucket } = openBucket(server);
      ${program}`;
    const { stdout } = await promisify(execFile)(process.execPath, ['-e', whole], {
      timeout: 60_000,
    });
    return stdout;
  }

  test('ends although a lock is held, and releases it', async () => {
    const stdout = await run(`
      bucket.locks.request('a', (lock) => {
        console.log('held', server.left.rows);
        return new Promise(() => {});
      });
      process.on('exit', () => console.log('left', server.left.rows, server.left.sessions));
    `);
    assert.equal(stdout, 'held 1\nleft 0 0\n');
  });

  test('does not end while a request waits', async () => {
    const stdout = await run(`
      openBucket(server).bucket.locks.request('a', () => {
        bucket.locks.request('a', () => console.log('granted'));
        return new Promise((resolve) => setTimeout(resolve, 100).unref());
      });
    `);
    assert.equal(stdout, 'granted\n');
  });
});
