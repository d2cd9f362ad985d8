'use strict';

/** Sessions in a world of their own: what their users see of servers that fail, refuse and return. */

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { afterEach, beforeEach, describe, test } = require('node:test');
const { settling } = require('./scripted.js');
const { Cluster, TTL } = require('./setup.js');

/** @type {Cluster} */
let cluster;
beforeEach(() => {
  cluster = new Cluster();
});
afterEach(() => cluster.close());

const statesOf = ({ changes }) => changes.map(({ state }) => state);

const until = (client, state, milliseconds) =>
  cluster.world.until(() => client.backend.state === state, milliseconds);

const refusal = (code = 'FATAL') => Object.assign(new Error('not for you'), { code });

/** A client of a server that refuses calls, by the errors that a test gives for them. */
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

describe('ready', () => {
  test('resolves when the session is open, and keeps the process alive until then', async () => {
    const client = cluster.start();
    const ready = settling(client.backend.ready);
    assert.equal(client.machine.refs, 1);
    await cluster.world.until(() => ready.isSettled);
    assert.deepEqual([ready.error, client.backend.state], [undefined, 'open']);
  });

  test('rejects after a ttl without a server, and waits anew when it is read again', async () => {
    const client = cluster.start();
    client.network.away();
    const first = settling(client.backend.ready);
    assert.equal(client.backend.ready, client.backend.ready);
    const waiting = cluster.request(client, 'a');
    const hasty = cluster.request(client, 'b', { ifAvailable: true });
    await cluster.world.until(() => first.isSettled && hasty.isSettled, TTL + 1);
    assert.equal(first.error.cause.code, 'CUT');
    assert.ok(first.error.message.endsWith(`: ${first.error.cause.message}`), first.error.message);
    for (const { error } of [first, hasty]) assert.equal(error.code, 'ERR_WEB_LOCKS_UNREACHABLE');
    // A request that does not wait fails before the next promise rejects.
    const next = cluster.request(client, 'b', { ifAvailable: true });
    await cluster.world.advance(TTL / 2);
    const second = settling(client.backend.ready);
    await cluster.world.until(() => next.isSettled);
    await cluster.world.advance(TTL / 2 - 1);
    assert.equal(second.isSettled, false);
    await cluster.world.advance(2);
    assert.equal(second.error.code, 'ERR_WEB_LOCKS_UNREACHABLE');
    assert.equal(waiting.isSettled, false);
    const third = settling(client.backend.ready);
    client.network.isCut = false;
    await cluster.world.until(() => third.isSettled && waiting.lock);
    assert.equal(third.error, undefined);
  });

  test('resolves in no state but open, and rejects with the reason in others', async () => {
    const refuses = {};
    const client = cluster.start({ wrap: refusing(refuses) });
    const ask = async (milliseconds = 0) => {
      const ready = settling(client.backend.ready);
      await cluster.world.advance(milliseconds);
      return ready;
    };
    client.network.away();
    assert.equal((await ask(TTL + 1)).error.cause.code, 'CUT', 'opening');
    client.network.isCut = false;
    await until(client, 'open');
    assert.deepEqual(await ask(), { isSettled: true, error: undefined, value: undefined });
    client.network.away();
    const inTime = await ask(TTL / 2);
    assert.equal(client.backend.state, 'suspect');
    assert.equal(inTime.isSettled, false, 'suspect');
    client.network.isCut = false;
    await cluster.world.until(() => inTime.isSettled);
    assert.equal(inTime.error, undefined, 'suspect, and open again');
    refuses.hello = refuses.open = refusal();
    client.network.cut();
    await until(client, 'refused');
    assert.equal((await ask(TTL / 2)).error, refuses.hello, 'refused, with a lease');
    await cluster.world.advance(TTL);
    assert.equal((await ask(TTL / 2)).error, refuses.open, 'refused, without one');
    await cluster.close();
    assert.equal((await ask()).error.name, 'InvalidStateError', 'closed');
  });

  test('of a session that was closed before it was open has the cause of the outage', async () => {
    const client = cluster.start();
    client.network.away();
    const first = settling(client.backend.ready);
    await cluster.world.until(() => first.isSettled);
    await cluster.close();
    const { name, cause } = await client.backend.ready.catch((error) => error);
    assert.deepEqual([name, cause.code], ['InvalidStateError', 'CUT']);
  });

  test('says that the server does not answer, however often that was tried', async () => {
    const wrap = (adapter) => Object.assign(adapter, { open: () => new Promise(() => {}) });
    const client = cluster.start({ wrap });
    await cluster.world.advance(11 * TTL);
    const ready = settling(client.backend.ready);
    await cluster.world.until(() => ready.isSettled);
    assert.match(ready.error.message, /: the lock server does not answer\.$/);
    assert.equal(ready.error.cause, undefined);
  });
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
    client.network.isCut = false;
    await until(client, 'open');
    client.network.away();
    await cluster.world.advance(3 * TTL);
    assert.equal(warnings.length, 2);
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

  test('costs a lock before the server grants it again, and soon after its lease', async () => {
    const [one, two] = [await cluster.client(), await cluster.client()];
    const held = await cluster.hold(one, 'a');
    const waiting = cluster.request(two, 'a');
    await cluster.world.advance(10);
    one.network.away();
    await cluster.world.until(() => held.isSettled);
    const lost = cluster.world.now;
    const { cause, name, reason } = held.error;
    assert.deepEqual([name, reason, cause.code], ['AbortError', 'unreachable', 'CUT']);
    assert.deepEqual([held.lock.held, held.lock.signal.aborted], [false, true]);
    assert.equal(waiting.lock, undefined);
    await cluster.world.until(() => waiting.lock);
    assert.ok(cluster.world.now > lost && cluster.world.now <= lost + 0.2 * TTL);
    assert.ok(statesOf(one).includes('lost'));
  });

  test('delays the result of a callback until its lease ends', async () => {
    const client = await cluster.client();
    const held = await cluster.hold(client, 'a');
    client.network.drops.call = true;
    held.release('value');
    await cluster.world.until(() => held.isSettled, TTL);
    assert.equal(held.value, 'value');
    client.network.drops.call = false;
  });
});

describe('a server that refuses', () => {
  for (const kind of ['FATAL', 'REFUSED']) {
    for (const call of ['open', 'hello', 'renew']) {
      test(`${call} with ${kind} fails new requests until it accepts that`, async () => {
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

  test('costs no lock and no place in a queue if it accepts before the lease ends', async () => {
    const refuses = {};
    const client = await cluster.client({ wrap: refusing(refuses) });
    const held = await cluster.hold(client, 'a');
    const queued = cluster.request(client, 'a');
    await cluster.world.advance(10);
    refuses.hello = refusal();
    client.network.cut();
    await cluster.world.advance(3000);
    assert.equal(client.backend.state, 'refused');
    delete refuses.hello;
    await until(client, 'open', TTL);
    assert.equal(held.lock.held, true);
    await cluster.release(held);
    await cluster.world.until(() => queued.lock);
    assert.deepEqual(statesOf(client), ['opening', 'open', 'suspect', 'refused', 'open']);
  });

  test('costs locks and requests when the lease ends, with its error', async () => {
    const refuses = {};
    const client = await cluster.client({ wrap: refusing(refuses) });
    const held = await cluster.hold(client, 'a');
    const queued = cluster.request(client, 'a');
    await cluster.world.advance(10);
    refuses.hello = refuses.open = refusal();
    client.network.cut();
    await cluster.world.until(() => held.isSettled && queued.isSettled);
    assert.deepEqual([held.error.reason, held.error.cause], ['unreachable', refuses.hello]);
    assert.equal(queued.error, refuses.hello);
    await cluster.world.advance(10 * TTL);
    delete refuses.open;
    await until(client, 'open', 60_000);
    const states = ['opening', 'open', 'suspect', 'refused', 'lost', 'refused', 'open'];
    assert.deepEqual(statesOf(client), states);
    assert.equal(client.changes[4].cause, refuses.hello);
  });

  test('is waited for again when it cannot be reached', async () => {
    const refuses = { open: refusal() };
    const client = cluster.start({ wrap: refusing(refuses) });
    await until(client, 'refused');
    delete refuses.open;
    client.network.away();
    await until(client, 'opening');
    const waiting = cluster.request(client, 'a');
    await cluster.world.advance(TTL);
    assert.equal(waiting.isSettled, false);
    client.network.isCut = false;
    await cluster.world.until(() => waiting.lock);
  });

  test('is asked again after pauses of up to a minute, or when ready is read', async () => {
    const refuses = { open: refusal() };
    const times = [];
    const wrap = (adapter) => {
      const { open } = refusing(refuses)(adapter);
      adapter.open = (...args) => {
        times.push(cluster.world.now);
        return open.apply(adapter, args);
      };
      return adapter;
    };
    const client = cluster.start({ wrap });
    await cluster.world.advance(10 * 60_000);
    const pauses = times.slice(1).map((time, i) => time - times[i]);
    assert.deepEqual([...pauses.slice(0, 4), pauses.at(-1)], [50, 100, 200, 400, 60_000]);
    const count = times.length;
    const ready = settling(client.backend.ready);
    await cluster.world.advance(100);
    assert.equal(times.length, count + 1);
    assert.equal(ready.error, refuses.open);
  });

  test('a misused call closes the session for good, and its locks are lost', async () => {
    const refuses = {};
    const client = await cluster.client({ wrap: refusing(refuses) });
    const held = await cluster.hold(client, 'a');
    refuses.renew = refusal('MISUSE');
    await cluster.world.until(() => held.isSettled);
    assert.equal(held.error.reason, 'unreachable');
    const late = cluster.request(client, 'a');
    const ready = settling(client.backend.ready);
    await cluster.world.until(() => late.isSettled && ready.isSettled);
    for (const { error } of [late, ready]) assert.equal(error, refuses.renew);
    assert.deepEqual(statesOf(client), ['opening', 'open', 'lost', 'closed']);
    await cluster.world.advance(TTL);
    assert.equal(client.machine.timers, 0);
  });
});

/** Whether a lock is held still after its connection was cut so often, by who is so far away. */
async function survives({ ttl, roundTrip, cuts }) {
  const own = new Cluster({ server: { ttl } });
  const wrap = (adapter) => {
    const { hello } = adapter;
    // With all that comes before it: TCP, TLS, a login, a subscription.
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
    // At another place between two renewals each time.
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

describe('a lock', () => {
  test('is not held when its lease is over by the clock, and is lost after that', async () => {
    const client = await cluster.client();
    const held = await cluster.hold(client, 'a');
    const { remaining } = held.lock;
    assert.ok(remaining > 0.5 * TTL && remaining <= 0.9 * TTL);
    client.machine.stop();
    await cluster.world.advance(TTL);
    client.machine.isStopped = false;
    assert.deepEqual([held.lock.held, held.lock.remaining, held.isSettled], [false, 0, false]);
    client.machine.setWallBy(-TTL);
    assert.equal(held.lock.held, false, 'once it was not held, it is not held again');
    client.machine.resume();
    await cluster.world.advance(1);
    assert.equal(held.error.reason, 'expired');
  });

  test('is lost for a callback that ends after the lease, before anything else runs', async () => {
    const client = await cluster.client();
    const held = await cluster.hold(client, 'a');
    client.machine.stop();
    await cluster.world.advance(2 * TTL);
    client.machine.isStopped = false;
    held.release('value');
    await new Promise(setImmediate);
    assert.equal(held.error?.reason, 'expired');
    client.machine.resume();
  });

  for (const isContinuous of [true, false]) {
    const by = isContinuous ? 'the continuous clock' : 'the wall clock';
    const sleep = async (milliseconds) => {
      const client = await cluster.client({ clock: { isContinuous } });
      const held = await cluster.hold(client, 'a');
      if (isContinuous) client.machine.setWallBy(-10 * TTL);
      client.machine.stop({ asleep: true });
      await cluster.world.advance(milliseconds);
      client.machine.resume();
      return { client, held };
    };

    test(`is lost by ${by} when the machine wakes up after its lease`, async () => {
      const { held } = await sleep(2 * TTL);
      assert.equal(held.lock.held, false);
      await cluster.world.until(() => held.isSettled, 10);
      assert.equal(held.error.reason, 'expired');
    });

    test(`is lost by ${by} at the end of its lease if the machine wakes up before`, async () => {
      const { client, held } = await sleep(0.75 * TTL);
      assert.equal(held.lock.held, true);
      await cluster.hold(client, 'b');
      await cluster.world.until(() => held.isSettled, TTL);
      assert.equal(held.error.reason, 'expired');
      assert.ok(cluster.world.now <= 0.9 * TTL + 10, `at ${cluster.world.now}`);
    });
  }

  for (const standsStill of [false, true]) {
    const clock = standsStill ? 'a continuous clock that stands still' : 'a wall clock set back';
    test(`is not held longer because of ${clock}`, async () => {
      const client = await cluster.client();
      const held = await cluster.hold(client, 'a');
      client.network.away();
      if (standsStill) client.machine.continuous = () => 0;
      client.machine.setWallBy(-10 * TTL);
      await cluster.world.advance(TTL);
      assert.equal(held.error.reason, 'unreachable');
    });
  }
});

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
