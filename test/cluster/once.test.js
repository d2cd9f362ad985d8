'use strict';

/** Tests the mark of `locks.once` in a cluster, with trouble before and during the release. */

const assert = require('node:assert/strict');
const { afterEach, beforeEach, test } = require('node:test');
const { deferred } = require('../helpers/locks.js');
const { Cluster, TTL } = require('./setup.js');

/** @type {Cluster} */
let cluster;
let client;
beforeEach(async () => {
  cluster = new Cluster();
  client = await cluster.client();
});
afterEach(() => cluster.close());

/** Calls `once` without waiting: `{ lock, value, error, isSettled, end }`. */
function once(keep = 3_600_000) {
  const ended = deferred();
  const asked = { lock: undefined, isSettled: false, end: ended.resolve };
  const run = (lock) => {
    asked.lock = lock;
    return ended.promise;
  };
  client.locks.once('a', { keep }, run).then(
    (value) => Object.assign(asked, { isSettled: true, value }),
    (error) => Object.assign(asked, { isSettled: true, error }),
  );
  return asked;
}

const settled = (asked) => cluster.world.until(() => asked.isSettled);

async function running() {
  const asked = once();
  await cluster.world.until(() => asked.lock);
  return asked;
}

/** Troubles that make `once` reject, with the expected errors. */
const REJECTIONS = {
  'a release that gets lost': {
    release({ network }, asked) {
      network.drops.call = true;
      asked.end();
    },
    reason: 'unreachable',
  },
  'a release that the server never executes, whereas it renews the lease': {
    release({ network }, asked) {
      network.most = 0;
      asked.end();
    },
    reason: 'unreachable',
    cause: /The server did not answer this request/,
  },
  'a lock that is lost while the function runs': {
    release: ({ network }) => network.away(),
    reason: 'unreachable',
  },
  'a function that fails': {
    release: (_, asked) => asked.end(Promise.reject(new Error('mine'))),
    message: 'mine',
  },
};

for (const [what, { release, ...expected }] of Object.entries(REJECTIONS)) {
  test(`${what} marks nothing, and the call rejects`, async () => {
    const asked = await running();
    release(client, asked);
    await settled(asked);
    const { cause, message, reason } = asked.error;
    assert.equal(reason, expected.reason);
    if (expected.message) assert.equal(message, expected.message);
    if (expected.cause) assert.match(cause.message, expected.cause);
    const { network } = client;
    Object.assign(network, { isCut: false, most: Number.POSITIVE_INFINITY });
    network.drops.call = false;
    await cluster.world.until(() => client.backend.state === 'open');
    const next = await running();
    next.end();
    await settled(next);
  });
}

test('a call rejects if its bucket is closed while the lock is released', async () => {
  const asked = await running();
  asked.end();
  await cluster.world.advance(0.5);
  await cluster.close();
  assert.equal(asked.error.reason, 'closed');
});

test('a call that loses the lock before it knows of the mark does not run', async () => {
  client.adapter.marked = () => new Promise(() => {});
  const { hello } = client.adapter;
  client.adapter.hello = () => new Promise(() => {});
  const asked = once();
  await settled(asked);
  assert.equal(asked.error.reason, 'unreachable');
  await cluster.world.advance(TTL);
  assert.equal(asked.lock, undefined);
  client.adapter.hello = hello;
});

test('a call is refused where the engine has no marks', async () => {
  const wrap = (adapter) => Object.assign(adapter, { can: { limits: true, groups: true } });
  const { locks } = await cluster.client({ wrap });
  const refused = locks.once('a', { keep: 1 }, () => {});
  await assert.rejects(refused, { name: 'NotSupportedError' });
});
