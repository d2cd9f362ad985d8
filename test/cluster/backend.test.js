// slow: 4

'use strict';

/** Tests what managers make of a session; the conformance suite tests what every scope shares. */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { afterEach, beforeEach, describe, test } = require('node:test');
const { Worker } = require('node:worker_threads');
const { toDetails } = require('../../lib/cluster/snapshot.js');
const { settling } = require('./scripted.js');
const { Cluster, TTL } = require('./setup.js');

/** @type {Cluster} */
let cluster;
beforeEach(() => {
  cluster = new Cluster();
});
afterEach(() => cluster.close());

/** Runs the world until a promise settles; time limits of requests use the clock of Node.js. */
async function settle(promise) {
  const known = settling(promise);
  while (!known.isSettled) {
    await new Promise(setImmediate);
    await cluster.world.advance(1);
  }
  return known;
}

test('a warning, an error and details say for how long the server grants nothing', async () => {
  const client = await cluster.client();
  cluster.server.restart({ data: false });
  await cluster.world.until(() => client.changes.at(-1).state !== 'open');
  await cluster.world.until(() => client.backend.grantsIn() > 0);
  const { value: details } = await settle(client.locks.query({ details: true }));
  const warned = once(process, 'warning');
  const waiting = cluster.request(client, 'a', { warnAfter: 1 });
  const [{ message }] = (await settle(warned)).value;
  assert.match(
    message,
    /^Still waiting for lock "a" after .* \(the server may have forgotten locks, and grants nothing for another [\d.]+ m?s\)\.$/,
  );
  const { error } = await settle(cluster.request(client, 'a', { timeout: 1 }).promise);
  for (const { grantsIn } of [details, error])
    assert.ok(Number.isInteger(grantsIn) && grantsIn > 0 && grantsIn <= TTL, String(grantsIn));
  await cluster.world.until(() => waiting.lock);
  assert.equal(client.backend.grantsIn(), 0);
  assert.deepEqual(toDetails([], 0), { held: [], pending: [] });
  assert.deepEqual(toDetails([], 0.4), { held: [], pending: [], grantsIn: 1 });
});

/** Troubles with a server, each of which makes a request wait. */
const outages = {
  'was never reached': { isNew: true, begin: ({ network }) => network.cut() },
  'is gone': { begin: ({ network }) => network.cut(), state: 'suspect' },
  'is gone for longer than a lease': { begin: ({ network }) => network.cut(), state: 'lost' },
  'says nothing': {
    begin({ network }) {
      network.isCut = false;
      network.drops.call = true;
    },
    cause: 'ERR_WEB_LOCKS_UNREACHABLE',
  },
};

/** Calls that wait. */
const waits = {
  request: (locks, options) => locks.request('a', options, () => {}),
  acquire: (locks, options) => locks.acquire('a', options),
  requestAll: (locks, options) => locks.requestAll(['a', 'b'], options, () => {}),
  once: (locks, options) => locks.once('a', { keep: 1, ...options }, () => {}),
};

for (const [what, { isNew = false, begin, state, cause = 'CUT' }] of Object.entries(outages)) {
  test(`a warning and an error say that the server ${what}`, async (t) => {
    const client = isNew ? cluster.start() : await cluster.client();
    client.network.isCut = true;
    begin(client);
    const isReached = () => !state || client.changes.some((change) => change.state === state);
    await cluster.world.until(isReached);
    cluster.request(client, 'b');
    await cluster.world.until(() => client.backend.outage());
    for (const [how, wait] of Object.entries(waits)) {
      const error = await wait(client.locks, { timeout: 1 }).catch((reason) => reason);
      assert.equal(error.name, 'TimeoutError', how);
      assert.equal(error.cause.code, 'ERR_WEB_LOCKS_UNREACHABLE', how);
      assert.equal((error.cause.cause ?? error.cause).code, cause, how);
      assert.ok(error.message.includes(`(holder unknown: ${error.cause.message.slice(0, -1)}).`));
    }
    const warned = once(process, 'warning');
    const waiting = cluster.request(client, 'a', { warnAfter: 1 });
    // Neither a warning nor this world keeps the process alive.
    const keepsAlive = setInterval(() => {}, 60_000);
    t.after(() => clearInterval(keepsAlive));
    assert.match((await warned)[0].message, /^Still waiting .*\(holder unknown: .*\)\.$/);
    client.network.isCut = client.network.drops.call = false;
    await cluster.world.until(() => waiting.lock);
  });
}

test('a time limit shorter than a round trip to a server that is well has no cause', async () => {
  const [client, holder] = [cluster.start(), await cluster.client()];
  for (const [how, wait] of Object.entries(waits)) {
    // The clock of this world stands still, so no call is answered.
    const error = await wait(client.locks, { timeout: 1 }).catch((reason) => reason);
    assert.deepEqual([error.name, error.cause], ['TimeoutError', undefined], how);
    assert.match(error.message, /^Timed out after .* waiting for lock "a" \(holder unknown\)\.$/);
    if (how === 'acquire') await cluster.hold(holder, 'a');
  }
});

describe('a theft', () => {
  test('that is not answered within maxTotal may have been executed', async () => {
    const client = await cluster.client();
    client.adapter.step = () => new Promise(() => {});
    const theft = client.locks.request('a', { steal: true, maxTotal: 20 }, () => {});
    // By then, the step of the theft is sent.
    await cluster.world.advance(10);
    await assert.rejects(theft, {
      name: 'TimeoutError',
      message:
        /^Timed out after .*, so lock "a" may have been stolen .*; if so, it was released again\.$/,
      holders: [],
    });
  });

  test('that is not sent within maxTotal is never executed', async () => {
    const held = await cluster.hold(await cluster.client(), 'a');
    const two = cluster.start();
    const theft = two.locks.request('a', { steal: true, maxTotal: 20 }, () => {});
    await assert.rejects(theft, {
      name: 'TimeoutError',
      message: /^Timed out after \d+ ms: lock "a" was not stolen\.$/,
    });
    await cluster.world.until(() => two.backend.state === 'open');
    await cluster.world.advance(100);
    assert.equal(held.lock.held, true);
  });
});

describe('several locks', () => {
  for (const [how, releaseBy] of Object.entries({
    'requestAll, as its callback ends': ({ locks }) =>
      locks.requestAll(['a', 'b'], () => cluster.server.guard('a')),
    'the handle of acquireAll': async ({ locks }) => {
      const all = await locks.acquireAll(['a', 'b']);
      cluster.server.guard('a');
      await all.release();
    },
  }))
    test(`are all released when a call says so, whichever of them is last: ${how}`, async () => {
      const released = settling(releaseBy(await cluster.client()));
      await cluster.world.until(() => cluster.server.query().length === 1);
      await cluster.world.advance(100);
      assert.equal(released.isSettled, false);
      cluster.server.guard('a', false);
      await cluster.world.until(() => released.isSettled);
      assert.equal(cluster.server.query().length, 0);
    });
});

test('a token has 63 bits', async () => {
  const token = 2n ** 62n + 7n;
  const client = await cluster.client({
    wrap(adapter) {
      const { step } = adapter;
      adapter.step = async (ops) => {
        const answers = await step.call(adapter, ops);
        return answers.map((answer) => (answer.token ? { ...answer, token } : answer));
      };
      return adapter;
    },
  });
  const held = await cluster.hold(client, 'a');
  assert.equal(held.lock.token, token);
});

test('details have the name of the thread as Node.js reports it', async () => {
  const name = 'a\0b \ud800 \u{1f512} é';
  const program = `
    const { parentPort, threadName } = require('node:worker_threads');
    const { newServer, openBucket } = require(${JSON.stringify(require.resolve('./here.js'))});
    const { locks } = openBucket(newServer()).bucket;
    locks.request('a', async () => {
      const { held } = await locks.query({ details: true });
      parentPort.postMessage({ told: held[0].threadName, known: threadName ?? '' });
    });`;
  const worker = new Worker(program, { eval: true, name });
  const ended = once(worker, 'exit');
  const [{ told, known }] = await once(worker, 'message');
  await ended;
  // Node.js 20 reports no names; later versions replace only what is no character.
  assert.ok(known === '' || known === name.replace('\ud800', '\ufffd'), JSON.stringify(known));
  assert.equal(told, known);
});

test('R3: more names than the engine takes at once are refused, with both numbers', async () => {
  const client = await cluster.client();
  client.adapter.can.most = 3;
  const request = (...names) => client.locks.requestAll(names, (held) => held.length);
  await assert.rejects(request('a', 'b', 'c', 'd'), {
    code: 'ERR_WEB_LOCKS_TOO_MANY',
    message: /The call names 4 locks; at most 3 are allowed/,
  });
  const three = settling(request('b', 'c', 'd'));
  await cluster.world.until(() => three.isSettled);
  assert.equal(three.value, 3);
});
