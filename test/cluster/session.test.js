'use strict';

/** Tests what users of a session see of servers that fail, refuse and return, in a world. */

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { afterEach, beforeEach, describe, test } = require('node:test');
const { LeaseCells } = require('../../lib/cluster/session/lease-cells.js');
const { LeaseKeeper } = require('../../lib/cluster/session/lease-keeper.js');
const { deferred } = require('../helpers/locks.js');
const { Machine } = require('../world/world.js');
const { settling } = require('./scripted.js');
const { Cluster, TTL } = require('./setup.js');

/** @type {Cluster} */
let cluster;
beforeEach(() => {
  cluster = new Cluster();
});
afterEach(() => cluster.close());

const until = (client, state, milliseconds) =>
  cluster.world.until(() => client.backend.state === state, milliseconds);

const refusal = (code = 'FATAL') => Object.assign(new Error('not for you'), { code });

/** Wraps an adapter, so that its calls fail with the errors that a test sets for them. */
const refusing = (refuses) => (adapter) => {
  for (const call of ['open', 'hello', 'renew', 'query', 'marked']) {
    const original = adapter[call];
    adapter[call] = async function (...args) {
      if (refuses[call]) throw refuses[call];
      return await original.apply(this, args);
    };
  }
  return adapter;
};

test('ready and requests that do not wait fail after a ttl, with the cause', async () => {
  const client = cluster.start();
  client.network.away();
  const ready = settling(client.backend.ready);
  assert.equal(client.backend.ready, client.backend.ready);
  const waiting = cluster.request(client, 'a');
  const hasty = cluster.request(client, 'b', { ifAvailable: true });
  await cluster.world.until(() => ready.isSettled && hasty.isSettled, TTL + 1);
  for (const { error } of [ready, hasty]) {
    assert.equal(error.code, 'ERR_WEB_LOCKS_UNREACHABLE');
    assert.equal(error.cause.code, 'CUT');
    assert.ok(error.message.endsWith(`: ${error.cause.message}`), error.message);
  }
  assert.equal(waiting.isSettled, false);
});

describe('an outage', () => {
  /** @type {any[]} */
  let warnings;
  const note = (warning) => warnings.push(warning);
  beforeEach(() => {
    warnings = [];
    process.on('warning', note);
  });
  afterEach(() => process.off('warning', note));

  test('of a ttl causes one warning, with its cause', async () => {
    const client = cluster.start();
    client.network.away();
    await cluster.world.advance(TTL - 1);
    assert.equal(warnings.length, 0);
    await cluster.world.advance(10 * TTL);
    const [{ cause, code, message, name }] = warnings;
    assert.deepEqual([name, code], ['LockWarning', 'ERR_WEB_LOCKS_UNREACHABLE']);
    assert.equal(cause.code, 'CUT');
    assert.match(message, /\(memory\) for 10 s: The connection was cut\.$/);
    assert.equal(warnings.length, 1);
  });

  test('causes no warning if the bucket is closed when ready rejects', async () => {
    const client = cluster.start();
    client.network.away();
    const closed = settling(client.backend.ready.finally(() => client.backend.close()));
    await cluster.world.until(() => closed.isSettled);
    await cluster.world.advance(TTL);
    assert.deepEqual(warnings, []);
  });

  test('has no cause that is older than the last time when the session was open', async () => {
    const client = cluster.start();
    client.network.away();
    await cluster.world.advance(TTL / 2);
    client.network.isCut = false;
    const held = await cluster.hold(client, 'a');
    await cluster.world.advance(TTL);
    client.network.drops.reply = true;
    await until(client, 'suspect', TTL);
    const { message } = client.changes.at(-1).cause;
    assert.match(
      message,
      /^The server did not answer the renewal of the lease for \d+ ms, so web-/,
    );
    await cluster.world.until(() => !held.lock.held);
    const { cause, reason } = held.lock.signal.reason;
    assert.deepEqual([cause, reason], [undefined, 'unreachable']);
  });
});

for (const kind of ['FATAL', 'REFUSED']) {
  for (const call of ['open', 'hello', 'renew']) {
    test(`requests fail until a server no longer refuses ${call} with ${kind}`, async () => {
      const refuses = call === 'open' ? { open: refusal(kind) } : {};
      const client = cluster.start({ wrap: refusing(refuses) });
      const early = call === 'open' ? [cluster.request(client, 'a')] : [];
      if (call !== 'open') await until(client, 'open');
      refuses[call] ??= refusal(kind);
      if (call === 'hello') client.network.cut();
      await until(client, 'refused');
      const query = settling(client.locks.query());
      const leader = settling(client.locks.leader('a'));
      const theft = settling(client.locks.request('c', { steal: true }, () => {}));
      const late = cluster.request(client, 'a');
      await cluster.world.advance(0);
      for (const { error } of [...early, query, leader, theft, late])
        assert.equal(error, refuses[call]);
      delete refuses[call];
      await until(client, 'open');
      await cluster.hold(client, 'a');
    });
  }
}

/** Whether a lock outlasts so many cuts of a connection with this round trip. */
async function survives({ ttl, roundTrip, cuts }) {
  const own = new Cluster({ server: { ttl } });
  const wrap = (adapter) => {
    const { hello } = adapter;
    // The delay includes all that comes before the call: TCP, TLS, a login, a subscription.
    adapter.hello = async (...args) => {
      await new Promise((resolve) => own.world.after(7 * roundTrip, resolve));
      return hello.apply(adapter, args);
    };
    return adapter;
  };
  const client = await own.client({ ttl, wrap });
  client.network.delay = roundTrip / 2;
  const held = await own.hold(client, 'a');
  for (let i = 0; i < cuts; i++) {
    // Each cut comes at another place between two renewals.
    await own.world.advance(2 * ttl + (i / cuts) * (ttl / 3));
    client.network.cut();
  }
  await own.world.advance(2 * ttl);
  const isHeld = held.lock.held;
  client.network.delay = 1;
  await own.close();
  return isHeld;
}

for (const ttl of [2000, 10_000]) {
  test(`a server may be as far away as docs/CLUSTER.md says, with a ttl of ${ttl} ms`, async () => {
    assert.equal(await survives({ ttl, roundTrip: ttl / 33, cuts: 8 }), true);
    assert.equal(await survives({ ttl, roundTrip: ttl / 31, cuts: 1 }), false);
    assert.equal(await survives({ ttl, roundTrip: ttl / 6.5, cuts: 0 }), true);
    assert.equal(await survives({ ttl, roundTrip: ttl / 5.5, cuts: 0 }), false);
  });
}

test('the channel locks.session publishes each state of a session', async () => {
  const states = [];
  const listen = ({ state }) => states.push(state);
  subscribe('locks.session', listen);
  const client = await cluster.client();
  client.network.cut();
  await cluster.world.until(() => states.length === 4);
  await cluster.close();
  unsubscribe('locks.session', listen);
  assert.deepEqual(states, ['opening', 'open', 'suspect', 'open', 'closed']);
});

test('a keeper extends no lease if its session is cut off while its adapter is made', async () => {
  const machine = new Machine(cluster.world);
  const cells = new LeaseCells();
  const keeping = { ticket: 1, seen: undefined, ttl: TTL, margin: 1, maxBlocked: 10 * TTL };
  const made = deferred();
  const keeper = new LeaseKeeper(keeping, cells, machine, () => made.promise, assert.fail);
  let extensions = 0;
  cells.isOpen = true;
  keeper.start();
  cells.isOpen = false;
  made.resolve({ extend: async () => ++extensions > 0, dispose() {} });
  await cluster.world.advance(TTL);
  assert.equal(extensions, 0);
  cells.isOpen = true;
  await cluster.world.until(() => extensions > 0);
  await keeper.stop();
});

test('a keeper reports each outage once', async () => {
  const machine = new Machine(cluster.world);
  const cells = new LeaseCells();
  const keeping = { ticket: 1, seen: undefined, ttl: TTL, margin: 1, maxBlocked: 1000 * TTL };
  let isDown = false;
  let reports = 0;
  const extend = async () => {
    if (isDown) throw new Error('down');
    return true;
  };
  const makeAdapter = async () => ({ extend, classify: () => 'retry', dispose() {} });
  const keeper = new LeaseKeeper(keeping, cells, machine, makeAdapter, () => reports++);
  cells.isOpen = true;
  keeper.start();
  for (const outage of [1, 2, 3]) {
    isDown = true;
    await cluster.world.advance(3 * TTL);
    assert.equal(reports, outage);
    isDown = false;
    await cluster.world.advance(TTL);
  }
  await keeper.stop();
});
