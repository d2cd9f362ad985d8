'use strict';

/** Run once, by the session: what becomes of the mark, whatever happens to the server. */

const assert = require('node:assert/strict');
const { afterEach, beforeEach, test } = require('node:test');
const { deferred } = require('../helpers/locks.js');
const { Cluster, TTL } = require('./setup.js');

/** That of a test. @type {Cluster} */
let cluster;
beforeEach(() => {
  cluster = new Cluster();
});
afterEach(() => cluster.close());

const HOUR = 3_600_000;
const NOT_RUN = { ran: false, value: undefined };

/** Asks, and does not wait: `{ lock, value, error, isSettled, end }`. */
function once(client, name, options = {}) {
  const ended = deferred();
  const asked = { lock: undefined, isSettled: false, end: ended.resolve };
  client.locks
    .once(name, { keep: HOUR, ...options }, (lock) => {
      asked.lock = lock;
      return ended.promise;
    })
    .then(
      (value) => Object.assign(asked, { isSettled: true, value }),
      (error) => Object.assign(asked, { isSettled: true, error }),
    );
  return asked;
}

const settled = (cluster, asked) => cluster.world.until(() => asked.isSettled);

/** Asks, and runs. */
async function running(cluster, client, options) {
  const asked = once(client, 'a', options);
  await cluster.world.until(() => asked.lock);
  return asked;
}

/** What somebody who asks now finds. */
async function queryMark(cluster, client) {
  const asked = once(client, 'a', { keep: 1 });
  asked.end();
  await settled(cluster, asked);
  assert.equal(asked.error, undefined);
  return !asked.value.ran;
}

test('of all who ask one runs, the others wait for it and do not', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  const first = await running(cluster, one);
  const others = [once(two, 'a'), once(one, 'a')];
  await cluster.world.advance(100);
  assert.ok(others.every(({ isSettled }) => !isSettled));
  first.end('value');
  await settled(cluster, first);
  for (const other of others) {
    await settled(cluster, other);
    assert.deepEqual([other.value, other.lock], [NOT_RUN, undefined]);
  }
  assert.deepEqual(first.value, { ran: true, value: 'value' });
  await cluster.close();
  assert.deepEqual(cluster.server.left, { sessions: 0, rows: 0 });
});

test('the mark is over when the clock of the server says so', async () => {
  const cluster = new Cluster({ clock: { rate: 1.05 } });
  const [one, two] = [await cluster.client(), await cluster.client({ clock: { rate: 0.95 } })];
  const first = await running(cluster, one, { keep: HOUR });
  first.end();
  await settled(cluster, first);
  await cluster.world.advance(HOUR / 1.05 - 1000);
  assert.equal(await queryMark(cluster, two), true);
  await cluster.world.advance(1000);
  assert.equal(await queryMark(cluster, two), false);
  await cluster.close();
});

test('a lock that is lost while the function runs marks nothing, and it rejects', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  const first = await running(cluster, one);
  const second = once(two, 'a');
  one.network.away();
  await settled(cluster, first);
  assert.equal(first.error.reason, 'unreachable');
  await cluster.world.until(() => second.lock);
  first.end('too late');
  one.network.isCut = false;
  second.end();
  await settled(cluster, second);
  assert.equal(second.value.ran, true);
});

test('a release whose reply is lost is made again, and has marked the name', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  const first = await running(cluster, one);
  one.network.drops.reply = true;
  first.end('value');
  await cluster.world.advance(100);
  assert.equal(await queryMark(cluster, two), true);
  one.network.cut();
  one.network.drops.reply = false;
  await settled(cluster, first);
  assert.deepEqual(first.value, { ran: true, value: 'value' });
});

test('a release that is never answered rejects: nobody knows whether it has marked', async () => {
  const client = await cluster.client();
  const first = await running(cluster, client);
  client.network.drops.call = true;
  first.end('value');
  await settled(cluster, first);
  assert.equal(first.error.name, 'AbortError');
  assert.equal(first.error.reason, 'unreachable');
  client.network.drops.call = false;
  await cluster.world.until(() => client.backend.state === 'open');
  assert.equal(await queryMark(cluster, client), false);
});

test('a theft that is not heard of before the release is found by it', async () => {
  const [one, two] = [await cluster.client(), await cluster.client({ name: 'thief' })];
  const first = await running(cluster, one);
  one.network.delay = 500;
  const thief = await cluster.hold(two, 'a', { steal: true });
  first.end('value');
  await settled(cluster, first);
  assert.equal(first.error.clientId, 'thief');
  await cluster.release(thief);
  assert.equal(await queryMark(cluster, two), false);
});

test('who cannot ask for the mark waits for the server, and runs then', async () => {
  const client = await cluster.client();
  const { marked } = client.adapter;
  let asked = 0;
  client.adapter.marked = function (name) {
    if (++asked === 1) client.network.cut();
    return marked.call(this, name);
  };
  const first = await running(cluster, client);
  assert.equal(asked, 2);
  first.end();
  await settled(cluster, first);
  assert.equal(first.value.ran, true);
});

test('who loses the lock before the answer does not run', async () => {
  const client = await cluster.client();
  client.adapter.marked = () => new Promise(() => {});
  const first = once(client, 'a');
  const { hello } = client.adapter;
  client.adapter.hello = () => new Promise(() => {});
  await settled(cluster, first);
  assert.equal(first.error.reason, 'unreachable');
  await cluster.world.advance(TTL);
  assert.equal(first.lock, undefined);
  client.adapter.hello = hello;
});

test('a server that has lost its data has lost the mark', async () => {
  const client = await cluster.client();
  const first = await running(cluster, client);
  first.end();
  await settled(cluster, first);
  cluster.server.restart({ data: true });
  assert.equal(await queryMark(cluster, client), true);
  cluster.server.restart({ data: false });
  assert.equal(await queryMark(cluster, client), false);
});

test('closing the bucket while it is released rejects', async () => {
  const client = await cluster.client();
  const first = await running(cluster, client);
  first.end();
  await cluster.world.advance(0.5);
  await cluster.close();
  assert.equal(first.error.reason, 'closed');
});

test('a function that fails marks nothing', async () => {
  const client = await cluster.client();
  const first = await running(cluster, client);
  first.end(Promise.reject(new Error('mine')));
  await settled(cluster, first);
  assert.equal(first.error.message, 'mine');
  assert.equal(await queryMark(cluster, client), false);
});

test('a server that never does what is to mark the name is no failover', async () => {
  const client = await cluster.client();
  const first = await running(cluster, client);
  // No step arrives, whereas renewals do.
  client.network.most = 0;
  first.end();
  await settled(cluster, first);
  assert.equal(first.error.reason, 'unreachable');
  assert.match(first.error.cause.message, /The server did not answer this request/);
  client.network.most = Number.POSITIVE_INFINITY;
  assert.equal(await queryMark(cluster, client), false);
});

test('an engine without marks says so', async () => {
  const wrap = (adapter) => Object.assign(adapter, { can: { limits: true, groups: true } });
  const client = await cluster.client({ wrap });
  await assert.rejects(
    client.locks.once('a', { keep: 1 }, () => {}),
    { name: 'NotSupportedError' },
  );
});
