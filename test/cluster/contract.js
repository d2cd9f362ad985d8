'use strict';

/**
 * Tests the contract of adapters (lib/cluster/adapter.js), which each engine runs at a real server,
 * and exports the parts that these tests are made of.
 */

const assert = require('node:assert/strict');
const { afterEach, describe, test } = require('node:test');
const { setImmediate } = require('node:timers/promises');

const { gc } = require('../helpers/kept.js');
const { FaultyProxy } = require('./proxy.js');

/** A lease that does not end in a test, however slow the machine is. */
const TTL = 60_000;
/** A longer lease. */
const LONG = 600_000;
/** More epochs than any engine remembers. */
const MOST_EPOCHS = 100;

/** The details of a client that a session sends to the server. */
const WHO = {
  host: 'm\u00fcller',
  pid: 1,
  threadId: 2,
  threadName: 'nul \0, \u65e5\u672c, \ud83d\ude00, \ud800, \\, "',
};

let last = 0;
const fresh = (what = 'name') => `${what} ${++last}`;

/** @type {Set<any>} */
const adapters = new Set();

/** Opens a session of an adapter, and collects its events. */
async function clientOf(adapter, ttl = TTL, before = { life: '', token: 0n }) {
  adapters.add(adapter);
  const told = [];
  let wake = () => {};
  const tell = (event) => {
    told.push(event);
    wake();
  };
  adapter.events = {
    granted: (ref, token) => tell({ granted: ref, token }),
    stolen: (ref, thief) => tell({ stolen: ref, thief }),
    changed: () => tell({ changed: true }),
    down: (error) => tell({ down: error.code }),
  };
  const clientId = `client ${++last}`;
  const { grantsIn, session, life } = await adapter.open(
    { clientId, ...WHO, version: '0' },
    ttl,
    before,
  );
  const seen = { ...before, life };
  const renew = () => adapter.renew(seen);
  let steps = 0;
  /** Sends the next step, or one with an earlier number again. */
  const step = (ops, number = ++steps, before = 0) => adapter.step(ops, number, before);
  const again = (ops) => step(ops, steps);
  const answers = async (...ops) => (await step(ops)).map(plain);
  const next = async () => {
    while (told.length === 0) {
      await new Promise((resolve) => {
        wake = resolve;
      });
    }
    return told.shift();
  };
  const hello = () => adapter.hello(seen);
  const calls = { again, answers, hello, next, renew, step };
  return { adapter, clientId, grantsIn, seen, session, told, ...calls };
}

/** Makes a name that `a` holds and `b` waits for; `handOver` ends the lock, so that `b` gets it. */
async function contend(a, b, name = fresh()) {
  const [held, waiting] = [request(name), request(name)];
  await a.answers(held);
  assert.deepEqual(await b.answers(waiting), ['queued']);
  const handOver = async () => {
    await a.answers(end(held));
    assert.equal((await b.next()).granted, waiting.ref);
  };
  return { name, held, waiting, handOver };
}

const plain = ({ code, limit }) => (code === 'otherLimit' ? `${code} ${limit}` : code);

let lastRef = 0;
const request = (name, options = {}) => ({
  kind: 'request',
  ref: ++lastRef,
  name,
  mode: 'exclusive',
  limit: 0,
  weight: 0,
  maxPending: -1,
  priority: 0,
  label: '',
  group: 0,
  ...options,
});
const theft = (name) => request(name, { kind: 'steal' });
const shared = (name, options = {}) => request(name, { mode: 'shared', ...options });
const units = (name, limit, weight, options = {}) => shared(name, { limit, weight, ...options });
const end = ({ ref, name }) => ({ kind: 'end', ref, name, markFor: 0 });
const done = ({ ref, name }, markFor = 3_600_000) => ({ kind: 'end', ref, name, markFor });
const closeAll = (...clients) =>
  Promise.all(clients.map(({ adapter, session }) => adapter.close(session)));
const rejectsWith = (promise, code) => assert.rejects(promise, { code });

/**
 * @typedef {object} Engine
 * @property {(options?: any, ttl?: number) => Promise<any>} client opens a session (`clientOf`);
 *   the options are those of the engine, and `bucket`
 * @property {any} alone options of a client that meets the sessions of no other client
 * @property {(session: string, options?: any) => Promise<unknown>} expire ends a lease, as time
 *   would
 * @property {(session: string) => Promise<number>} left counts what the server has of a session
 * @property {(options?: any) => any} [keeper] an adapter of a keeper, which opens no session
 * @property {(client: any, op: any) => Promise<unknown>} [remove] deletes a request of a client, as
 *   an administrator might
 * @property {() => number} [port] of the server; this and the next two are for `contractOfClients`
 * @property {(port: number) => any} [through] options of a client that connects to a port
 * @property {Record<string, Buffer>} [lastWords] messages of the server before it ends a connection
 * @property {number} [stride] bytes between one cut and the next, where calls have many
 * @property {number} [window] how many steps it takes at once; one by default
 * @property {boolean} [epochsEndSessions] whether a new epoch ends all sessions
 * @property {boolean} [keepsNoLimit] a limit ends with the last shared request, not with the queue
 * @property {number} [shortestKeep] milliseconds of a mark that outlasts its own step
 * @property {boolean} [neverForgets] no answer is lost with the server, so there are no quarantines
 * @property {boolean} [losesNoHint] a session that was cut off gets all hints later, without a
 *   renewal
 * @property {(options?: any) => Promise<unknown>} [endQuarantine] of a bucket, as time would
 * @property {(milliseconds: number) => Promise<unknown>} [shift] lets time pass for a bucket; this
 *   and all others but `tellsOfDead` are for stories
 * @property {() => Promise<unknown>} [replace] replaces the server by another one with the data
 * @property {() => Promise<unknown>} [spoil] deletes what the server makes again by itself
 * @property {() => Promise<unknown>} [verify] rejects if the stored parts of a bucket do not fit
 *   together
 * @property {(life: string) => string} [livesOf] repeats an epoch for each shard
 * @property {boolean} [countsApart] tokens of several names have no order
 * @property {boolean} [hasNoGroups]
 * @property {boolean} [meets] clients have `meets`, which acts while their next step is under way
 * @property {() => Promise<unknown>} [forget] makes the server forget its history
 * @property {boolean} [tellsNoStep] renewals do not say which step was executed last
 * @property {boolean} [tellsOfDead] the server pushes the end of a lease, and no renewal foresees
 *   it
 */

/** @param {Pick<Engine, 'alone'>} engine @returns options of clients that meet no others, either */
function aloneIn({ alone }, what) {
  const [[name, value]] = Object.entries(alone);
  return { ...alone, [name]: `${value}_${what}` };
}

/**
 * Tests everything that depends on the kind of client: how it opens, gets events, and loses its
 * connection. Each kind runs these tests, in a `describe`.
 * @param {Engine} engine
 */
function contractOfClients(engine) {
  const { client } = engine;

  test('a renewal tells of a theft during a cut, until another renewal follows it', async () => {
    const [a, thief] = [await client(), await client()];
    const mine = request(fresh());
    await a.answers(mine);
    assert.deepEqual(await thief.answers(theft(mine.name)), ['granted']);
    const theftsOf = async () => [...((await a.renew()).stolen ?? [])];
    // The answer to a renewal may get lost.
    for (let hellos = engine.losesNoHint ? 1 : 2; hellos > 0; hellos--) {
      await a.hello();
      assert.deepEqual(await theftsOf(), [[mine.ref, thief.clientId]]);
    }
    await a.renew();
    assert.deepEqual(await theftsOf(), []);
    await closeAll(a, thief);
    assert.equal(await engine.left(a.session), 0);
  });

  test('all texts stay as they are, and different ones are different names', async () => {
    const a = await client({ bucket: 'odd' });
    const long = 'x'.repeat(99_999);
    const odd = ['', '\ud800', '\udc00', '\0', 'a\0', `${long}x`, `${long}y`];
    const requests = odd.map((name) => request(name, { label: name.slice(0, 5) }));
    assert.deepEqual(new Set(await a.answers(...requests)), new Set(['granted']));
    const all = await a.adapter.query();
    assert.deepEqual(new Set(all.map(({ name }) => name)), new Set(odd));
    const [entry] = await a.adapter.query('\ud800');
    const { clientId } = a;
    assert.deepEqual({ ...entry, ...WHO, label: '\ud800', clientId }, entry);
    assert.ok(entry.held > 0);
    await a.answers(...requests.map(end));
  });

  test('a query shows what the steps before it did, and nothing of those after it', async () => {
    const a = await client();
    const name = fresh();
    for (let i = 0; i < 20; i++) {
      const lock = request(name);
      const before = a.adapter.query(name);
      const step = a.step([lock]);
      const after = a.adapter.query(name);
      await step;
      const counts = (await Promise.all([before, after])).map(({ length }) => length);
      assert.deepEqual(counts, [0, 1]);
      await a.step([end(lock)]);
    }
  });

  test('a session receives its grants over a new connection', async () => {
    const [a, b] = [await client(), await client()];
    const { handOver } = await contend(a, b);
    const { waiting } = await contend(a, b);
    await b.hello();
    await handOver();
    await engine.expire(a.session);
    if (!engine.tellsOfDead) await b.adapter.sweep();
    assert.equal((await b.next()).granted, waiting.ref);
  });

  test('a connection that ends after any number of bytes leaves a step done or not', async () => {
    const proxy = await FaultyProxy.open(engine.port());
    const a = await client(engine.through(proxy.port));
    const stride = Number(process.env.CLUSTER_STRIDE ?? engine.stride ?? 23);
    let isCut;
    const orAfterHello = async (call, next = call) => {
      for (let make = call; ; make = next) {
        try {
          return await make();
        } catch (error) {
          assert.equal(a.adapter.classify(error), 'retry');
          isCut = true;
          await a.hello();
        }
      }
    };
    const ask = (op) =>
      orAfterHello(
        () => a.step([op]),
        () => a.again([op]),
      );
    for (const direction of ['up', 'down']) {
      isCut = true;
      for (let bytes = 1; isCut; bytes += stride) {
        isCut = false;
        const op = request('cut');
        proxy.cutAfter(bytes, direction);
        const [{ code, token }] = await ask(op);
        assert.equal(code, 'granted');
        const { mine } = await orAfterHello(() => a.renew());
        assert.deepEqual([...mine], [[op.ref, token]]);
        const [{ code: ended }] = await ask(done(op, engine.shortestKeep ?? 1e-3));
        assert.equal(ended, 'ended');
        proxy.cutAfter(Number.POSITIVE_INFINITY, direction);
      }
    }
    await proxy.close();
  });

  endsWhileOpening(engine);
  if (engine.window !== undefined) stepsUnderWay(engine);
}

/**
 * Tests everything that does not depend on the kind of client, unless random stories (stories.js)
 * do. One kind of client runs these tests, in a `describe`.
 * @param {Engine} engine
 */
function contract(engine) {
  const { client } = engine;
  keepsNothing(engine);

  for (const [how, ask] of [
    ['held', (own) => [own]],
    ['held, while others wait', (own) => [own, request(own.name)]],
    ['waiting', (own) => [request(own.name), own]],
  ])
    test(`a request that was deleted by hand is in no renewal any more: ${how}`, {
      skip: !engine.remove,
    }, async () => {
      const [a, b] = [await client(), await client()];
      const own = request(fresh());
      for (const op of ask(own)) await (op === own ? a : b).answers(op);
      assert.ok((await a.renew()).mine.has(own.ref));
      await engine.remove(a, own);
      assert.equal((await a.renew()).mine.has(own.ref), false);
      assert.deepEqual(await a.answers(end(own)), ['ended']);
    });

  test('a renewal tells when the next lease of another session runs out', {
    skip: engine.tellsOfDead && 'that is told',
  }, async () => {
    const a = await client(engine.alone);
    assert.equal((await a.renew()).nextExpiryIn, Number.POSITIVE_INFINITY);
    const b = await client(engine.alone, LONG);
    const later = (await a.renew()).nextExpiryIn;
    assert.ok(later > TTL && later <= LONG, String(later));
    const c = await client(engine.alone);
    const { nextExpiryIn } = await a.renew();
    assert.ok(nextExpiryIn > 0 && nextExpiryIn <= TTL, String(nextExpiryIn));
    await closeAll(a, b, c);
  });

  for (const [what, endBy] of [
    ['close', (dead) => dead.adapter.close(dead.session)],
    ['sweep', (dead, a) => engine.expire(dead.session).then(() => a.adapter.sweep())],
  ])
    test(`${what} ends more than a step can name, and grants what becomes free`, async () => {
      const [dead, a] = [await client(), await client()];
      const names = Array.from({ length: 250 }, () => fresh());
      for (let i = 0; i < names.length; i += 50)
        await dead.answers(...names.slice(i, i + 50).map((name) => request(name)));
      const waiting = [request(names[0]), request(names[249])];
      await a.answers(...waiting);
      await endBy(dead, a);
      const granted = [(await a.next()).granted, (await a.next()).granted];
      assert.deepEqual(new Set(granted), new Set(waiting.map(({ ref }) => ref)));
      assert.equal(await engine.left(dead.session), 0);
    });

  test('groups of the same names in other orders wait for one another in no circle', async () => {
    const [a, b] = [await client(), await client()];
    const names = Array.from({ length: 20 }, () => fresh());
    for (let round = 0; round < 4; round++) {
      const one = names.map((name) => request(name, { group: 1 }));
      const two = names.toReversed().map((name) => request(name, { group: 1 }));
      const [first, second] = await Promise.all([a.answers(...one), b.answers(...two)]);
      assert.equal(new Set(first).size, 1);
      assert.equal(new Set(second).size, 1);
      assert.notEqual(first[0], second[0]);
      await Promise.all([a.answers(...one.map(end)), b.answers(...two.map(end))]);
    }
  });

  test('a group that does not wait says which of its requests had another limit', async () => {
    const a = await client();
    const [x, y, z] = [fresh(), fresh(), fresh()];
    await a.answers(units(y, 4, 1));
    const group = [x, y, z].map((name) => units(name, 5, 1, { kind: 'ifAvailable', group: 1 }));
    assert.deepEqual(await a.answers(...group), ['unavailable', 'otherLimit 4', 'unavailable']);
  });

  test('sessions that set and drop the same marks wait for one another in no circle', async () => {
    const all = await Promise.all(Array.from({ length: 6 }, () => client({}, 60_000)));
    const names = Array.from({ length: 8 }, () => fresh());
    for (let round = 0; round < 4; round++) {
      await Promise.all(
        all.map(async ({ answers }, i) => {
          const mine = names.map((name) => request(name, { kind: 'ifAvailable' }));
          const locks = (i % 2 ? mine : mine.reverse()).flatMap((op) => [
            op,
            done(op, engine.shortestKeep ?? 1e-3),
          ]);
          await answers(...locks);
        }),
      );
    }
  });

  test('a keeper extends nothing in another bucket, and begins no epoch there', {
    skip: !engine.keeper,
  }, async () => {
    const elsewhere = aloneIn(engine, 'elsewhere');
    const [a, other] = [await client(engine.alone), await client(elsewhere)];
    const [{ token }] = await a.step([request(fresh())]);
    const { life, grantsIn } = await other.renew();
    // Another thread receives such a copy.
    const ticket = structuredClone(a.adapter.keeperTicket());
    for (const options of [elsewhere, aloneIn(engine, 'nowhere')]) {
      const keeper = engine.keeper(options);
      adapters.add(keeper);
      assert.equal(await keeper.extend(ticket, { ...a.seen, token }), false);
    }
    const after = await other.renew();
    assert.equal(after.life, life);
    assert.ok(after.grantsIn <= grantsIn);
    await closeAll(a, other);
  });

  describe('R5: what clients have seen', { skip: engine.neverForgets }, () => {
    test('the latest epochs are known, however many there were', async () => {
      const options = aloneIn(engine, 'many');
      let a = await client(options);
      const lifeAfter = async (life) => {
        const { alive, life: now } = await a.adapter.renew({ life, token: 0n });
        if (alive) return now;
        // The new epoch has ended the session.
        await a.adapter.dispose();
        a = await client(options);
        return (await a.renew()).life;
      };
      const lives = [];
      for (let i = 0; i <= MOST_EPOCHS; i++) lives.push(await lifeAfter(`server${i}`));
      assert.equal(new Set(lives).size, lives.length);
      const [before, last] = lives.slice(-2);
      for (const life of [before, `server${MOST_EPOCHS - 1}`, `server${MOST_EPOCHS}`])
        assert.equal(await lifeAfter(life), last, life);
    });

    const lengthAfter = async (life, options) =>
      (await client(options, TTL, { life, token: 0n })).grantsIn;

    test('a quarantine lasts for the longest lease, unless its session was closed', async () => {
      const options = aloneIn(engine, 'long');
      const closed = await client(options, LONG);
      await engine.endQuarantine(options);
      await closeAll(closed);
      const short = await lengthAfter('another server', options);
      assert.ok(short > 0 && short <= TTL, String(short));
      await engine.endQuarantine(options);
      const long = await client(options, LONG);
      const start = performance.now();
      const before = await lengthAfter('a third one', options);
      assert.ok(before > TTL);
      await closeAll(long);
      const more = (await lengthAfter('a fourth one', options)) - before;
      assert.ok(more > start - performance.now() - 50, `${more} ms more`);
    });

    for (const [how, find] of [
      ['a sweep', ({ adapter }) => adapter.sweep()],
      ['a request', ({ answers }) => answers(request('name'))],
    ])
      test(`a quarantine lasts for a lease that has expired, as ${how} has found`, {
        skip: engine.tellsOfDead && 'no copy of the server knows it as renewed',
      }, async () => {
        const options = aloneIn(engine, how.replace(' ', '_'));
        const [expired, other] = [await client(options, LONG), await client(options)];
        await engine.endQuarantine(options);
        await expired.answers(request('name'));
        await engine.expire(expired.session, options);
        await find(other);
        assert.ok((await lengthAfter('another server', options)) > TTL);
      });
  });
}

/** @param {Pick<Engine, 'client'>} engine @param {any} [options] of its client */
function keepsNothing({ client }, options) {
  test('an adapter keeps no answers to requests that have ended', async () => {
    const a = await client(options);
    const answers = [];
    for (let i = 0; i < 40; i++) {
      const op = request(fresh());
      answers.push(new WeakRef((await a.step([op]))[0]));
      await a.answers(end(op));
    }
    for (let i = 0; i < 3; i++) {
      await setImmediate();
      gc();
    }
    const kept = answers.filter((answer) => answer.deref());
    assert.ok(kept.length < 10, `${kept.length} answers`);
  });
}

/** Tests engines that take several steps at once. @param {Engine} engine @param {Engine} engine */
function stepsUnderWay(engine) {
  const { client } = engine;

  test('R1: a step does nothing until the one before it is done', async () => {
    const a = await client();
    const name = fresh();
    const [first, second, third] = [request(name), request(name), end({ ref: lastRef - 1, name })];
    for (const make of [() => a.step([second], 2, 1), () => a.step([third], 3, 2)]) {
      await assert.rejects(make, (error) => a.adapter.classify(error) === 'retry');
    }
    assert.equal((await a.renew()).mine.size, 0);
    const codes = await Promise.all([a.step([first], 1, 0), a.step([second], 2, 1)]);
    assert.deepEqual(codes.flat().map(plain), ['granted', 'queued']);
    assert.deepEqual((await a.step([third], 3, 2)).map(plain), ['ended']);
    assert.equal((await a.next()).granted, second.ref);
  });

  test('R1: a step that is too old to be known is not done again', async () => {
    const a = await client();
    const old = request(fresh(), { kind: 'steal' });
    await a.step([old], 1, 0);
    for (let n = 2; n <= engine.window + 1; n++) await a.step([request(fresh())], n, n - 1);
    const retried = (error) => a.adapter.classify(error) === 'retry';
    await assert.rejects(a.step([request(old.name, { kind: 'steal' })], 1, 0), retried);
    assert.ok((await a.renew()).mine.has(old.ref));
  });
}

/**
 * Ends the connection at every point while a session opens; only its own adapter may notice.
 * @param {Pick<Engine, 'client' | 'port' | 'through' | 'lastWords' | 'stride'>} engine
 */
function endsWhileOpening({ client, port, through, lastWords, stride = 23 }) {
  /** Opens sessions, each with the next of these harms, until one closes before its harm comes. */
  const openWith = async (harm, by) => {
    const proxy = await FaultyProxy.open(port());
    const options = through(proxy.port);
    for (let i = 1; proxy.isDone; i += by) {
      harm(proxy, i);
      try {
        const { adapter, session } = await client(options);
        await adapter.close(session);
        await adapter.dispose();
      } catch (error) {
        assert.ok(proxy.isDone, error);
      }
    }
    await proxy.close();
  };

  test('a connection that ends while a session opens harms no other: after any bytes', () =>
    openWith(
      (proxy, bytes) => proxy.cutAfter(bytes, 'down', bytes % 2 === 0),
      Number(process.env.CLUSTER_STRIDE ?? 4 * stride - 1),
    ));

  for (const [what, words] of Object.entries({ nothing: Buffer.alloc(0), ...lastWords }))
    test(`a connection that ends while a session opens harms no other: it says ${what}`, () =>
      openWith((proxy, chunks) => proxy.endWith(words, chunks), 1));
}

/** Disposes the adapters of a test, in a `describe`. */
function disposeAfterEach() {
  afterEach(async () => {
    for (const adapter of adapters) await adapter.dispose();
    adapters.clear();
  });
}

module.exports = {
  LONG,
  TTL,
  WHO,
  clientOf,
  closeAll,
  contend,
  contract,
  contractOfClients,
  disposeAfterEach,
  done,
  end,
  endsWhileOpening,
  fresh,
  keepsNothing,
  rejectsWith,
  request,
  shared,
  theft,
  units,
};
