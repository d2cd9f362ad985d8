// slow: 4

'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { afterEach, beforeEach, test } = require('node:test');
const { Worker } = require('node:worker_threads');
const { valuesOf } = require('../helpers/locks.js');
const { Cluster, TTL } = require('./setup.js');

/** That of a test. @type {Cluster} */
let cluster;
beforeEach(() => {
  cluster = new Cluster();
});
afterEach(() => cluster.close());

test('a lock is granted, held and released', async () => {
  const client = await cluster.client();
  const held = await cluster.hold(client, 'a');
  assert.equal(held.lock.held, true);
  assert.equal(held.lock.token, 1n);
  await cluster.release(held, 'value');
  assert.equal(held.value, 'value');
  assert.equal(held.lock.held, false);
  await cluster.close();
  assert.deepEqual(cluster.server.left, { sessions: 0, rows: 0 });
});

test('who waits is granted when the lock is released, first come, first served', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  const first = await cluster.hold(one, 'a');
  const second = cluster.request(two, 'a');
  await cluster.world.advance(10);
  const third = cluster.request(one, 'a');
  await cluster.world.advance(10);
  assert.equal(second.lock, undefined);
  await cluster.release(first);
  await cluster.world.until(() => second.lock);
  assert.equal(third.lock, undefined);
  await cluster.release(second);
  await cluster.world.until(() => third.lock);
  assert.ok(third.lock.token > second.lock.token);
});

test('who has more priority is granted before who came first, and tells it by query', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  const held = await cluster.hold(one, 'a');
  const ordinary = cluster.request(one, 'a');
  await cluster.world.advance(10);
  const urgent = cluster.request(two, 'a', { priority: 3 });
  let details;
  two.locks.query({ details: true, name: 'a' }).then((value) => {
    details = value;
  });
  await cluster.world.until(() => details);
  assert.deepEqual(valuesOf([...details.held, ...details.pending], 'priority'), [0, 3, 0]);
  await cluster.release(held);
  await cluster.world.until(() => urgent.lock);
  assert.equal(ordinary.lock, undefined);
  await cluster.release(urgent);
  await cluster.world.until(() => ordinary.lock);
  await cluster.close();
});

test('a warning and an error of who waits say that the server grants nothing, and for how long', async () => {
  const client = await cluster.client();
  cluster.server.restart({ data: false });
  await cluster.world.until(() => client.changes.at(-1).state !== 'open');
  await cluster.world.until(() => client.backend.grantsIn() > 0);
  let details;
  client.locks.query({ details: true }).then((value) => {
    details = value;
  });
  await cluster.world.until(() => details);
  assert.ok(details.grantsIn > 0 && details.grantsIn <= TTL, String(details.grantsIn));
  const warned = once(process, 'warning');
  const waiting = cluster.request(client, 'a', { warnAfter: 1 });
  let message = '';
  warned.then(([warning]) => {
    ({ message } = warning);
  });
  // It is by the clock of Node.js, and asks who holds the lock.
  while (!message) {
    await new Promise(setImmediate);
    await cluster.world.advance(1);
  }
  assert.match(
    message,
    /^Still waiting for lock "a" after .* \(the server may have forgotten locks, and grants nothing for another [\d.]+ m?s\)\.$/,
  );
  const late = cluster.request(client, 'a', { timeout: 1 });
  while (!late.isSettled) {
    await new Promise(setImmediate);
    await cluster.world.advance(1);
  }
  const { grantsIn } = late.error;
  assert.ok(Number.isInteger(grantsIn) && grantsIn > 0 && grantsIn <= TTL, String(grantsIn));
  await cluster.world.until(() => waiting.lock);
  assert.equal(client.backend.grantsIn(), 0);
  await cluster.release(waiting);
  await cluster.close();
});

/** What can be wrong with a server, of which who waits is told why. */
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

/** How one can wait. */
const waits = {
  request: (locks, options) => locks.request('a', options, () => {}),
  acquire: (locks, options) => locks.acquire('a', options),
  requestAll: (locks, options) => locks.requestAll(['a', 'b'], options, () => {}),
  once: (locks, options) => locks.once('a', { keep: 1, ...options }, () => {}),
};

for (const [what, { isNew = false, begin, state, cause = 'CUT' }] of Object.entries(outages)) {
  test(`who waits for a server that ${what} is told so by a warning and by an error`, async (t) => {
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
    // Neither a warning nor this world does.
    const keepsAlive = setInterval(() => {}, 60_000);
    t.after(() => clearInterval(keepsAlive));
    assert.match((await warned)[0].message, /^Still waiting .*\(holder unknown: .*\)\.$/);
    client.network.isCut = client.network.drops.call = false;
    await cluster.world.until(() => waiting.lock);
  });
}

test('a time limit shorter than a round trip to a server that is well has no cause', async () => {
  const cluster = new Cluster();
  const [client, holder] = [cluster.start(), await cluster.client()];
  for (const [how, wait] of Object.entries(waits)) {
    // The clock of this world stands still: nothing is answered.
    const error = await wait(client.locks, { timeout: 1 }).catch((reason) => reason);
    assert.deepEqual([error.name, error.cause], ['TimeoutError', undefined], how);
    assert.match(error.message, /^Timed out after .* waiting for lock "a" \(holder unknown\)\.$/);
    if (how === 'acquire') await cluster.hold(holder, 'a');
  }
  await cluster.close();
});

test('priority is refused with several locks, and where the engine does not know it', async () => {
  const [knows, lacks] = [await cluster.client(), await cluster.client()];
  lacks.adapter.can.priorities = false;
  const errors = [];
  const refused = (promise) => promise.catch(({ name }) => errors.push(name));
  refused(knows.locks.requestAll(['a', 'b'], { priority: 1 }, () => {}));
  refused(lacks.locks.request('a', { priority: -1 }, () => {}));
  await cluster.world.until(() => errors.length === 2);
  assert.deepEqual(errors, ['NotSupportedError', 'NotSupportedError']);
  await cluster.hold(lacks, 'a', { priority: 0 });
});

test('what is asked in one go makes one step, and what comes meanwhile the next', async () => {
  const client = await cluster.client();
  const steps = [];
  const { step } = client.adapter;
  client.adapter.step = function (ops, number) {
    steps.push(ops.length);
    return step.call(this, ops, number);
  };
  const first = [1, 2, 3].map((i) => cluster.request(client, `a${i}`));
  await cluster.world.advance(0.5);
  const later = Array.from({ length: 150 }, (_, i) => cluster.request(client, `b${i}`));
  await cluster.world.until(() => later.every(({ lock }) => lock));
  assert.deepEqual(steps, [3, 100, 50]);
  assert.ok(first.every(({ lock }) => lock));
});

test('shared locks are held together, and an exclusive one waits for all', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  const shared = { mode: 'shared' };
  const readers = [await cluster.hold(one, 'a', shared), await cluster.hold(two, 'a', shared)];
  const writer = cluster.request(one, 'a');
  await cluster.world.advance(10);
  const late = cluster.request(two, 'a', shared);
  await cluster.release(readers[0]);
  assert.equal(writer.lock, undefined);
  await cluster.release(readers[1]);
  await cluster.world.until(() => writer.lock);
  assert.equal(late.lock, undefined);
});

test('ifAvailable gives null at once', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  await cluster.hold(one, 'a');
  let given;
  two.locks.request('a', { ifAvailable: true }, (lock) => {
    given = lock;
  });
  await cluster.world.until(() => given !== undefined);
  assert.equal(given, null);
  await cluster.close();
});

test('a theft is told to the robbed, with the thief', async () => {
  const [one, two] = [await cluster.client(), await cluster.client({ name: 'thief' })];
  const robbed = await cluster.hold(one, 'a');
  const thief = await cluster.hold(two, 'a', { steal: true });
  await cluster.world.until(() => robbed.isSettled);
  assert.equal(robbed.error.name, 'AbortError');
  assert.equal(robbed.error.clientId, 'thief');
  assert.equal(robbed.lock.signal.aborted, true);
  assert.equal(thief.lock.held, true);
});

test('of a theft that is not answered within maxTotal nobody knows whether it is done', async () => {
  const client = await cluster.client();
  client.adapter.step = () => new Promise(() => {});
  const theft = client.locks.request('a', { steal: true, maxTotal: 20 }, () => {});
  // Its step is sent.
  await cluster.world.advance(10);
  await assert.rejects(theft, {
    name: 'TimeoutError',
    message:
      /^Timed out after .*, so lock "a" may have been stolen .*; if so, it was released again\.$/,
    holders: [],
  });
  await cluster.close();
});

test('a theft that is not sent within maxTotal is not done', async () => {
  const held = await cluster.hold(await cluster.client(), 'a');
  const two = cluster.start();
  await assert.rejects(
    two.locks.request('a', { steal: true, maxTotal: 20 }, () => {}),
    {
      name: 'TimeoutError',
      message: /^Timed out after \d+ ms: lock "a" was not stolen\.$/,
    },
  );
  await cluster.world.until(() => two.backend.state === 'open');
  await cluster.world.advance(100);
  assert.equal(held.lock.held, true);
});

test('a thief of the same manager is told after the robbed', async () => {
  const client = await cluster.client({ name: 'both' });
  const order = [];
  const robbed = await cluster.hold(client, 'a');
  robbed.lock.signal.addEventListener('abort', () => order.push('robbed'));
  const stolen = client.locks.request('a', { steal: true }, () => {
    order.push('thief');
  });
  stolen.catch(() => {});
  await cluster.world.until(() => order.length === 2);
  assert.deepEqual(order, ['robbed', 'thief']);
  assert.equal(robbed.error.clientId, 'both');
  await cluster.close();
});

test('a limit lets as many in as there are units, in their order', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  const units = (weight) => ({ mode: 'shared', limit: 3, weight });
  const first = await cluster.hold(one, 'a', units(2));
  const big = cluster.request(two, 'a', units(2));
  await cluster.world.advance(10);
  const small = cluster.request(one, 'a', units(1));
  await cluster.world.advance(10);
  assert.equal(big.lock, undefined);
  assert.equal(small.lock, undefined);
  await cluster.release(first);
  await cluster.world.until(() => big.lock && small.lock);
});

test('a request with another limit is refused, with the limit there is', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  await cluster.hold(one, 'a', { mode: 'shared', limit: 3 });
  const other = cluster.request(two, 'a', { mode: 'shared', limit: 4 });
  await cluster.world.until(() => other.isSettled);
  assert.equal(other.error.name, 'TypeError');
  assert.match(other.error.message, /the limit 3/);
});

test('a request is refused when as many wait as its maxPending', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  await cluster.hold(one, 'a');
  cluster.request(one, 'a').promise.catch(() => {});
  await cluster.world.advance(10);
  const refused = cluster.request(two, 'a', { maxPending: 1 });
  await cluster.world.until(() => refused.isSettled);
  assert.equal(refused.error.name, 'QuotaExceededError');
});

test('requestAll is one step, all or none if they have to be available', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  const held = await cluster.hold(one, 'b');
  let given;
  two.locks.requestAll(['a', 'b'], { ifAvailable: true }, (locks) => {
    given = locks;
  });
  await cluster.world.until(() => given !== undefined);
  assert.equal(given, null);
  assert.deepEqual(valuesOf(cluster.server.log, 'name'), ['b']);
  let both;
  two.locks.requestAll(['a', 'b'], (locks) => {
    both = locks.map(({ held }) => held);
  });
  await cluster.world.advance(10);
  await cluster.release(held);
  await cluster.world.until(() => both);
  assert.deepEqual(both, [true, true]);
  await cluster.close();
});

test('an aborted request leaves the queue', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  const held = await cluster.hold(one, 'a');
  const controller = new AbortController();
  const aborted = cluster.request(two, 'a', { signal: controller.signal });
  await cluster.world.advance(10);
  const next = cluster.request(one, 'a');
  await cluster.world.advance(10);
  controller.abort(new Error('why'));
  await cluster.world.until(() => aborted.isSettled);
  assert.equal(aborted.error.message, 'why');
  await cluster.release(held);
  await cluster.world.until(() => next.lock);
});

test('query tells what is held and who waits, with all that was asked before', async () => {
  const [one, two] = [await cluster.client({ name: 'one' }), await cluster.client({ name: 'two' })];
  await cluster.hold(one, 'a', { label: 'the holder' });
  cluster.request(two, 'a');
  let snapshot;
  let details;
  two.locks.query().then((value) => {
    snapshot = value;
  });
  two.locks.query({ details: true, name: 'a' }).then((value) => {
    details = value;
  });
  await cluster.world.until(() => snapshot && details);
  assert.deepEqual(snapshot, {
    held: [{ clientId: 'one', mode: 'exclusive', name: 'a' }],
    pending: [{ clientId: 'two', mode: 'exclusive', name: 'a' }],
  });
  const [waiting] = details.pending;
  assert.equal(waiting.ahead, 0);
  assert.equal(waiting.blockedBy[0].label, 'the holder');
  assert.equal(waiting.blockedBy[0].token, 1n);
  assert.equal(waiting.pid, process.pid);
  await cluster.close();
});

test('close gives back what is held, and rejects what waits and what comes later', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  const held = await cluster.hold(one, 'a');
  const other = await cluster.hold(two, 'b');
  const pending = cluster.request(one, 'b');
  await cluster.world.advance(10);
  const closed = one.backend.close();
  assert.equal(held.lock.held, false);
  assert.equal(held.lock.signal.aborted, true);
  const late = cluster.request(one, 'a');
  let isClosed = false;
  closed.then(() => {
    isClosed = true;
  });
  await cluster.world.until(() => isClosed && late.isSettled);
  assert.equal(held.error.reason, 'closed');
  assert.equal(pending.error.name, 'InvalidStateError');
  assert.equal(late.error.name, 'InvalidStateError');
  assert.equal(other.lock.held, true);
  assert.equal(one.machine.timers, 0);
  assert.deepEqual(cluster.server.left, { sessions: 1, rows: 1 });
  await cluster.close();
});

test('a pending request keeps the event loop alive, a held lock does not', async () => {
  const [one, two] = [await cluster.client(), await cluster.client()];
  await cluster.world.advance(10);
  assert.equal(one.machine.refs, 0);
  const held = await cluster.hold(one, 'a');
  assert.equal(one.machine.refs, 0);
  const pending = cluster.request(two, 'a');
  await cluster.world.advance(10);
  assert.equal(two.machine.refs, 1);
  held.release();
  await cluster.world.until(() => pending.lock);
  assert.equal(two.machine.refs, 0);
});

test('a thread of any name opens a bucket; what is told of it is what Node.js tells', async () => {
  const name = 'a\0b \ud800 \u{1f512} é';
  const program = `
    const { parentPort, threadName } = require('node:worker_threads');
    const { Cluster } = require(${JSON.stringify(require.resolve('./setup.js'))});
    (async () => {
      const cluster = new Cluster();
      let given;
      const wrap = (adapter) => {
        const { open } = adapter;
        adapter.open = function (info, ...more) {
          given = info.threadName;
          return open.call(this, info, ...more);
        };
        return adapter;
      };
      const client = await cluster.client({ wrap });
      await cluster.hold(client, 'a');
      let told;
      client.locks.query({ details: true }).then(({ held }) => {
        told = held[0].threadName;
      });
      await cluster.world.until(() => told !== undefined);
      parentPort.postMessage({ given, told, known: threadName ?? '' });
      await cluster.close();
    })();`;
  const worker = new Worker(program, { eval: true, name });
  const ended = once(worker, 'exit');
  const [{ given, told, known }] = await once(worker, 'message');
  await ended;
  // Node.js 20 does not tell names; the others replace what is no character, and nothing else.
  assert.ok(known === '' || known === name.replace('\ud800', '\ufffd'), JSON.stringify(known));
  assert.equal(given, known);
  assert.equal(told, known);
});

test('R3: more names at once than the engine takes are refused at once, by the number of both', async () => {
  const client = await cluster.client();
  client.adapter.can.most = 3;
  const { locks } = client;
  const names = ['a', 'b', 'c', 'd'];
  await assert.rejects(
    locks.requestAll(names, () => {}),
    (error) => {
      assert.equal(error.code, 'ERR_WEB_LOCKS_TOO_MANY');
      assert.match(error.message, /The call names 4 locks; at most 3 are allowed/);
      return true;
    },
  );
  const three = locks.requestAll(names.slice(1), (held) => held.length);
  let result;
  three.then((length) => {
    result = length;
  });
  await cluster.world.until(() => result !== undefined);
  assert.equal(result, 3);
  await cluster.close();
});
