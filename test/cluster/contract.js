'use strict';

/**
 * The contract of adapters (lib/cluster/adapter.js), as tests that each engine has at a real server,
 * and what they are made of.
 */

const assert = require('node:assert/strict');
const { afterEach, describe, test } = require('node:test');

const { FaultyProxy } = require('./proxy.js');

/** A lease that does not end in a test, however slow the machine is. */
const TTL = 60_000;
/** A longer one. */
const LONG = 600_000;
/** Of tokens: so many more others may have been granted than anybody tells of (R5). */
const LEAP = 999_999n;

/** Who a client is. */
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

/** An open session of an adapter, and what it was told. */
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
  /** Makes the next step, or one again. */
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
const end = ({ ref, name }) => ({ kind: 'end', ref, name, keep: 0 });
const publish = ({ ref, name }, text) => ({ kind: 'publish', ref, name, data: text });
const done = ({ ref, name }, keep = 3_600_000) => ({ kind: 'end', ref, name, keep });
const closeAll = (...clients) =>
  Promise.all(clients.map(({ adapter, session }) => adapter.close(session)));
const isAlive = ({ alive }) => (alive ? 'alive' : 'dead');
const classOf =
  ({ adapter }) =>
  (error) =>
    adapter.classify(error);
/** That a call is refused because the session is dead. */
const isDead = ({ adapter }, promise) =>
  assert.rejects(promise, (error) => adapter.classify(error) === 'dead');
const rejectsWith = (promise, code) => assert.rejects(promise, { code });

/**
 * @typedef {object} Engine
 * @property {(options?: any, ttl?: number) => Promise<any>} client a `clientOf` an adapter; options
 *   are of the engine, but for `bucket`
 * @property {any} alone options of a client that meets no other's sessions
 * @property {(session: string) => Promise<unknown>} expire makes a lease run out, as time would
 * @property {(session: string) => Promise<number>} left how much the server has of a session
 * @property {(options?: any) => any} [keeper] an adapter of a keeper, which opens no session
 * @property {(session: string) => Promise<number>} [leaseEnd] when a lease ends, by the server's clock
 * @property {(client: any, op: any) => Promise<unknown>} [remove] deletes a request of a client, as
 *   somebody would by hand
 * @property {() => number} [port] of the server; this and the next for `contractOfClients` only
 * @property {(port: number) => any} [through] options of a client that connects to a port
 * @property {Record<string, Buffer>} [lastWords] what the server may say before it ends a connection
 * @property {number} [stride] bytes between one cut and the next, where calls have many
 * @property {number} [window] how many steps it takes at once; one, if it does not say
 * @property {boolean} [keepsNoLimit] a limit goes with the last shared request, not with the queue
 * @property {number} [shortestKeep] milliseconds of a mark that is not over before its step is done
 * @property {boolean} [knowsNoPriorities]
 * @property {boolean} [endsFirst] the ends of a step are done before its requests
 * @property {boolean} [neverForgets] what it has answered, so that there is nothing to be careful of
 * @property {boolean} [losesNoHint] who is cut off hears all later, without a renewal
 * @property {(options?: any) => Promise<unknown>} [endQuarantine] of a bucket, as time would
 * @property {(milliseconds: number) => Promise<unknown>} [shift] lets time pass for a bucket; only for
 *   stories
 * @property {() => Promise<unknown>} [spoil] deletes what the server makes again by itself
 * @property {() => Promise<unknown>} [verify] rejects if what the server has of a bucket does not fit
 *   together; only for stories
 * @property {(life: string) => string} [livesOf] a life of all shards; for stories, as are the next three
 * @property {boolean} [countsApart] tokens of several names have no order
 * @property {boolean} [hasNoGroups]
 * @property {boolean} [meets] clients have `meets`: what is done while their next step is under way
 * @property {() => Promise<unknown>} [forget] has the server forget what there was before
 * @property {boolean} [tellsNoStep] which was done last
 * @property {boolean} [tellsOfDead] that a lease has run out is told, and not for `renew` to foresee
 */

/**
 * What every kind of client has to do, however it opens, hears, and loses its connection: each has
 * these tests. To be called in a `describe`.
 * @param {Engine} engine
 */
function contractOfClients(engine) {
  const { client } = engine;

  test('a request of a free name is granted, the next waits and is told of its grant', async () => {
    const [a, b] = [await client(), await client()];
    const name = fresh();
    const [mine, other] = [request(name), request(name)];
    const [{ token }] = await a.step([mine]);
    assert.deepEqual(await b.answers(other), ['queued']);
    assert.deepEqual(await a.answers(end(mine)), ['ended']);
    const event = await b.next();
    assert.equal(event.granted, other.ref);
    assert.ok(event.token > token);
  });

  test('an end with keep marks the name, for all sessions of the bucket', async () => {
    const [a, b] = [await client(), await client()];
    const elsewhere = await client({ bucket: 'elsewhere' });
    const name = fresh('\ud800');
    const held = request(name);
    await a.answers(held);
    assert.equal(await b.adapter.marked(name), false);
    assert.deepEqual(await a.answers(done(held), done(held)), ['ended', 'ended']);
    assert.deepEqual(await a.answers(done(held)), ['ended']);
    assert.equal(await b.adapter.marked(name), true);
    assert.equal(await b.adapter.marked(`${name}!`), false);
    assert.equal(await elsewhere.adapter.marked(name), false);
    const next = request(name);
    assert.deepEqual(await b.answers(next, end(next)), ['granted', 'ended']);
    await a.adapter.close(a.session);
    assert.equal(await b.adapter.marked(name), true);
  });

  test('who was robbed while it was cut off is told by whom until it renews again', async () => {
    const [a, thief] = [await client(), await client()];
    const name = fresh();
    const [mine, theft] = [request(name), request(name, { kind: 'steal' })];
    await a.answers(mine);
    assert.deepEqual(await thief.answers(theft), ['granted']);
    const theftsOf = async () => [...((await a.renew()).stolen ?? [])];
    await a.hello();
    assert.deepEqual(await theftsOf(), [[mine.ref, thief.clientId]]);
    if (!engine.losesNoHint) {
      await a.hello();
      assert.deepEqual(await theftsOf(), [[mine.ref, thief.clientId]], 'the answer may be lost');
    }
    await a.renew();
    assert.deepEqual(await theftsOf(), [], 'and then no more');
    await closeAll(a, thief);
    assert.equal(await engine.left(a.session), 0);
  });

  test('all texts stay as they are, and different ones are different names', async () => {
    const a = await client({ bucket: 'odd' });
    const odd = [
      '',
      '\ud800',
      '\udc00',
      '\0',
      'a\0',
      'x'.repeat(100_000),
      `${'x'.repeat(99_999)}y`,
    ];
    const requests = odd.map((name) => request(name, { label: name.slice(0, 5) }));
    assert.ok((await a.answers(...requests)).every((code) => code === 'granted'));
    const all = await a.adapter.query();
    assert.deepEqual(new Set(all.map(({ name }) => name)), new Set(odd));
    const [entry] = await a.adapter.query('\ud800');
    const { clientId } = a;
    assert.deepEqual({ ...entry, ...WHO, label: '\ud800', clientId }, entry);
    assert.ok(entry.held > 0);
    await a.answers(...requests.map(end));
  });

  test('after hello the same session hears its grants', async () => {
    const [a, b] = [await client(), await client()];
    const name = fresh();
    const [held, waiting] = [request(name), request(name)];
    await a.answers(held);
    await b.answers(waiting);
    await b.hello();
    await a.answers(end(held));
    assert.equal((await b.next()).granted, waiting.ref);
  });

  test('a session that is dead stays dead, and its locks go on', async () => {
    const [dead, a] = [await client(), await client()];
    const name = fresh();
    const mine = request(name);
    await dead.answers(request(name));
    await a.answers(mine);
    await engine.expire(dead.session);
    await a.adapter.sweep();
    assert.equal((await a.next()).granted, mine.ref);
    assert.equal(await dead.renew().then(isAlive, classOf(dead)), 'dead');
    await rejectsWith(dead.step([request(name)]), 'ERR_WEB_LOCKS_SESSION_DEAD');
    await rejectsWith(dead.hello(), 'ERR_WEB_LOCKS_SESSION_DEAD');
    assert.equal(dead.adapter.classify({ code: 'ERR_WEB_LOCKS_SESSION_DEAD' }), 'dead');
    assert.equal(await engine.left(dead.session), 0);
  });

  test('a connection that ends after any number of bytes leaves a step done or not', async () => {
    const proxy = await FaultyProxy.open(engine.port());
    const a = await client(engine.through(proxy.port), 60_000);
    const stride = Number(process.env.CLUSTER_STRIDE ?? engine.stride ?? 23);
    for (const direction of ['up', 'down']) {
      for (let bytes = 1; ; bytes += stride) {
        const op = request('cut');
        proxy.cutAfter(bytes, direction);
        let isCut = false;
        const ask = async (ops) => {
          for (let make = a.step; ; make = a.again) {
            try {
              return await make(ops);
            } catch (error) {
              assert.equal(a.adapter.classify(error), 'retry');
              isCut = true;
              await a.hello();
            }
          }
        };
        const [{ code, token }] = await ask([op]);
        assert.equal(code, 'granted');
        const { mine } = await a.renew().catch(async () => {
          isCut = true;
          await a.hello();
          return a.renew();
        });
        assert.deepEqual([...mine], [[op.ref, token]]);
        await ask([end(op)]);
        proxy.cutAfter(Number.POSITIVE_INFINITY, direction);
        if (!isCut) break;
      }
    }
    await proxy.close();
  });

  endsWhileOpening(engine);
  if (engine.window !== undefined) stepsUnderWay(engine);
}

/**
 * What an engine has to do, whatever the client: one kind of client has these tests. To be called in
 * a `describe`. What random stories notice (stories.js) is there.
 * @param {Engine} engine
 */
function contract(engine) {
  describe('sessions', () => sessions(engine));
  describe('steps', () => steps(engine));
  describe('R5: what clients have seen', { skip: engine.neverForgets }, () => lives(engine));
  describe('marks', () => marks(engine));
  describe('data', () => data(engine));
  describe('queues', () => queues(engine));
  describe('keepers', { skip: !engine.keeper }, () => {
    keepers(engine);
    keepersElsewhere(engine);
  });
}

/** @param {Engine} engine */
function keepers({ alone, client, expire, keeper, leaseEnd }) {
  const keeperOf = (options) => {
    const adapter = keeper(options);
    adapters.add(adapter);
    return adapter;
  };
  /** As another thread gets it. */
  const ticketOf = ({ adapter }) => structuredClone(adapter.keeperTicket());

  test('a keeper extends a lease, and replaces no connection', async () => {
    const [a, b] = [await client(), await client()];
    const name = fresh();
    const [held, waiting] = [request(name), request(name)];
    await b.answers(held);
    await a.answers(waiting);
    const keeping = keeperOf();
    const before = await leaseEnd(a.session);
    // Some engines tell whole seconds.
    do assert.equal(await keeping.extend(ticketOf(a), a.seen), true);
    while ((await leaseEnd(a.session)) <= before + 1_000);
    await b.answers(end(held));
    assert.equal((await a.next()).granted, waiting.ref);
    assert.deepEqual(await a.answers(end(waiting)), ['ended']);
  });

  test('a keeper is refused for a session that has expired, and for one that is closed', async () => {
    const [dead, closed] = [await client(), await client()];
    const keeping = keeperOf();
    const tickets = [ticketOf(dead), ticketOf(closed)];
    await expire(dead.session);
    await closed.adapter.close(closed.session);
    for (const ticket of tickets)
      await isDead({ adapter: keeping }, keeping.extend(ticket, dead.seen));
    await isDead(dead, dead.hello());
  });

  test('a keeper extends nothing in an epoch that the session has not seen', async () => {
    const [[name, value]] = Object.entries(alone);
    const options = { ...alone, [name]: `${value}_epochs` };
    const a = await client(options);
    const b = await client(options, TTL, { life: 'another server', token: 0n });
    const keeping = keeperOf(options);
    assert.equal(await keeping.extend(ticketOf(a), a.seen), false);
    // Such an engine ends all sessions when an epoch begins.
    if (a.adapter.can.endsLeases) return;
    const { life } = await a.renew();
    assert.equal(await keeping.extend(ticketOf(a), { ...a.seen, life }), true);
    await closeAll(a, b);
  });
}

/** @param {Engine} engine */
function keepersElsewhere({ alone, client, keeper }) {
  test('a keeper that reaches another bucket finds no end of the session, and begins no epoch', async () => {
    const [[name, value]] = Object.entries(alone);
    const elsewhere = { ...alone, [name]: `${value}_elsewhere` };
    const nowhere = { ...alone, [name]: `${value}_nowhere` };
    const [a, other] = [await client(alone), await client(elsewhere)];
    const [{ token }] = await a.step([request(fresh())]);
    const { life, grantsIn } = await other.renew();
    for (const options of [elsewhere, nowhere]) {
      const keeping = keeper(options);
      adapters.add(keeping);
      const ticket = structuredClone(a.adapter.keeperTicket());
      assert.equal(await keeping.extend(ticket, { ...a.seen, token }), false);
    }
    const after = await other.renew();
    assert.equal(after.life, life);
    assert.ok(after.grantsIn <= grantsIn);
    await closeAll(a, other);
  });
}

/** @param {Engine} engine */
function sessions(engine) {
  const { client } = engine;

  test('who has opened another session ends the one before, and gets what that had', async () => {
    const a = await client();
    const name = fresh();
    await a.answers(request(name), request(name));
    const b = await clientOf(a.adapter);
    const waiting = request(name);
    assert.deepEqual(await b.answers(waiting), ['queued']);
    await b.adapter.close(a.session);
    assert.equal((await b.next()).granted, waiting.ref);
    assert.equal(await engine.left(a.session), 0);
    assert.deepEqual(await b.answers(end(waiting)), ['ended']);
  });

  test('one that has expired is dead also where nothing is to be done', async () => {
    const dead = await client();
    await engine.expire(dead.session);
    await isDead(dead, dead.step([end(request(fresh()))]));
  });

  for (const [how, ask, isGranted] of [
    ['held', (own) => [own], false],
    ['held, while others wait', (own) => [own, request(own.name)], false],
    ['held, after it waited', (own, first) => [first, own], true],
    ['waiting', (own, first) => [first, own], false],
  ])
    test(`a request that somebody deletes is not in the next renewal: ${how}`, {
      skip: !engine.remove,
    }, async () => {
      const [a, b] = [await client(), await client()];
      const name = fresh();
      const [first, own] = [request(name), request(name)];
      for (const op of ask(own, first)) await (op === own ? a : b).answers(op);
      if (isGranted) {
        await b.answers(end(first));
        assert.equal((await a.next()).granted, own.ref);
      }
      assert.ok((await a.renew()).mine.has(own.ref));
      await engine.remove(a, own);
      assert.equal((await a.renew()).mine.has(own.ref), false);
      assert.deepEqual(await a.answers(end(own)), ['ended']);
    });

  describe('a renewal', { skip: engine.tellsOfDead && 'that is told' }, () => {
    test('tells when the next lease runs out', async () => {
      const [a] = [await client(engine.alone)];
      assert.equal((await a.renew()).nextExpiryIn, Number.POSITIVE_INFINITY);
      const b = await client(engine.alone);
      const { nextExpiryIn } = await a.renew();
      assert.ok(nextExpiryIn > 0 && nextExpiryIn <= TTL, String(nextExpiryIn));
      await closeAll(a, b);
    });

    test('tells of a lease that runs out after its own', async () => {
      const [a, b] = [await client(engine.alone), await client(engine.alone, LONG)];
      const { nextExpiryIn } = await a.renew();
      assert.ok(nextExpiryIn > TTL && nextExpiryIn <= LONG, String(nextExpiryIn));
      await closeAll(a, b);
    });
  });

  test('close ends more than a step can name, and grants what becomes free', async () => {
    const [a, b] = [await client(), await client()];
    const names = Array.from({ length: 250 }, () => fresh());
    for (let i = 0; i < 250; i += 50) {
      await a.answers(...names.slice(i, i + 50).map((name) => request(name)));
    }
    const waiting = request(names[249]);
    await b.answers(waiting);
    await a.adapter.close(a.session);
    assert.equal((await b.next()).granted, waiting.ref);
    assert.equal(await engine.left(a.session), 0);
  });

  test('sweep ends more than a step can name, and grants what becomes free', async () => {
    const [dead, a] = [await client(), await client()];
    const names = Array.from({ length: 150 }, () => fresh());
    await dead.answers(...names.slice(0, 100).map((name) => request(name)));
    await dead.answers(...names.slice(100).map((name) => request(name)));
    const waiting = [request(names[0]), request(names[149])];
    await a.answers(...waiting);
    await engine.expire(dead.session);
    await a.adapter.sweep();
    const granted = [(await a.next()).granted, (await a.next()).granted];
    assert.deepEqual(new Set(granted), new Set(waiting.map(({ ref }) => ref)));
    assert.equal(await engine.left(dead.session), 0);
  });

  test('buckets do not see each other', async () => {
    const [a, b] = [await client(), await client({ bucket: 'other' })];
    const name = fresh();
    await a.answers(request(name));
    assert.deepEqual(await b.answers(request(name)), ['granted']);
    assert.equal((await b.adapter.query(name)).length, 1);
  });
}

/** @param {Engine} engine */
function steps(engine) {
  const { client } = engine;
  test('groups on the same names in other orders do not wait in a circle', async () => {
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

  test('of a group that does not wait only the one that fails says why', async () => {
    const a = await client();
    const [x, y, z] = [fresh(), fresh(), fresh()];
    await a.answers(units(y, 4, 1));
    const group = [x, y, z].map((name) => units(name, 5, 1, { kind: 'ifAvailable', group: 1 }));
    assert.deepEqual(await a.answers(...group), ['unavailable', 'otherLimit 4', 'unavailable']);
  });
}

/** Engines that take several steps at a time. @param {Engine} engine */
function stepsUnderWay(engine) {
  const { client } = engine;

  test('R1: a step whose predecessor is not done does nothing, until that is', async () => {
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

  test('R1: a step of ends is one that others come after, too', async () => {
    const a = await client();
    const name = fresh();
    const [held, next] = [request(name), request(name)];
    await a.step([held], 1, 0);
    await a.step([end(held)], 2, 1);
    assert.equal((await a.renew()).step, 2);
    assert.deepEqual((await a.step([next], 3, 2)).map(plain), ['granted']);
    assert.deepEqual((await a.step([end(held)], 2, 0)).map(plain), ['ended']);
    assert.equal((await a.renew()).step, 3);
  });

  test('R1: a step that is too old to be known is not done', async () => {
    const a = await client();
    const old = request(fresh(), { kind: 'steal' });
    await a.step([old], 1, 0);
    for (let n = 2; n <= engine.window + 1; n++) await a.step([request(fresh())], n, n - 1);
    const retried = (error) => a.adapter.classify(error) === 'retry';
    await assert.rejects(a.step([request(old.name, { kind: 'steal' })], 1, 0), retried);
    assert.ok((await a.renew()).mine.has(old.ref));
  });
}

/** @param {Engine} engine */
function lives(engine) {
  const { client } = engine;

  test('a client that has seen another life of the server makes it careful', async () => {
    const a = await client(engine.alone, TTL);
    const [{ token }] = await a.step([request(fresh())]);
    const { life } = await a.renew();
    const seen = { life: 'another server', token: token + 5_000_000n };
    const b = await client(engine.alone, TTL, seen);
    const { grantsIn, life: next } = await b.renew();
    assert.ok(grantsIn > 0, 'a quarantine');
    assert.notEqual(next, life);
    const waiting = request(fresh());
    assert.deepEqual(await b.answers(waiting), ['queued']);
    await engine.endQuarantine(engine.alone);
    await b.adapter.sweep();
    const event = await b.next();
    assert.equal(event.granted, waiting.ref);
    assert.ok(event.token > seen.token + LEAP);
    // Who saw those two lives tells nothing new.
    for (const known of [life, 'another server', next]) {
      const c = await client(engine.alone, TTL, { life: known, token });
      assert.equal((await c.renew()).grantsIn, 0, known);
      await closeAll(c);
    }
    await closeAll(a, b);
  });

  test('so does one that was granted a greater token', async () => {
    const a = await client(engine.alone, TTL);
    const { life } = await a.renew();
    const [{ token }] = await a.step([request(fresh())]);
    const b = await client(engine.alone, TTL, { life, token });
    assert.equal((await b.renew()).grantsIn, 0);
    const seen = { life, token: token + 5_000_000n };
    assert.ok((await b.adapter.renew(seen)).grantsIn > 0);
    const c = await client(engine.alone, TTL, seen);
    const waiting = request(fresh());
    await c.answers(waiting);
    await engine.endQuarantine(engine.alone);
    await c.adapter.sweep();
    const event = await c.next();
    assert.equal(event.granted, waiting.ref);
    assert.ok(event.token > seen.token + LEAP);
    await closeAll(a, b, c);
  });

  const [name, value] = Object.entries(engine.alone)[0];
  const carefulOf = async (options) => {
    const careful = await client(options, TTL, { life: 'another server', token: 0n });
    assert.ok(careful.grantsIn > 0, 'a quarantine');
    return careful;
  };

  test('it is careful for the longest lease, not for one that is closed', async () => {
    const options = { ...engine.alone, [name]: `${value}_closed` };
    const long = await client(options, LONG);
    await engine.endQuarantine(options);
    await closeAll(long);
    const careful = await carefulOf(options);
    assert.ok(careful.grantsIn <= TTL, String(careful.grantsIn));
    await closeAll(careful);
  });

  test('it is careful for the longest lease, also if that is closed meanwhile', async () => {
    const options = { ...engine.alone, [name]: `${value}_long` };
    const long = await client(options, LONG);
    const careful = await carefulOf(options);
    assert.ok(careful.grantsIn > TTL, String(careful.grantsIn));
    await closeAll(long);
    assert.ok((await careful.renew()).grantsIn > TTL);
    await closeAll(careful);
  });
}

/** @param {Engine} engine */
function data({ client, left }) {
  const dataOf = async ({ adapter }, name, which) =>
    (await adapter.query(name, which)).map((entry) => entry.data || '');

  test('what is published with a lock is told of it, until it is replaced or removed', async () => {
    const [a, b] = [await client(), await client()];
    const held = request(fresh());
    await a.answers(held);
    for (const text of [
      '{"done":1}',
      '"\u2028 \ud83d\ude00 é"',
      'null',
      `"${'x'.repeat(4094)}"`,
      '',
    ]) {
      assert.deepEqual(await a.answers(publish(held, text)), ['published']);
      assert.deepEqual(await dataOf(b, held.name), [text]);
      assert.deepEqual(await dataOf(b, held.name, 'held'), [text]);
    }
  });

  test('each holder of a shared lock publishes its own, and who waits has none', async () => {
    const [a, b] = [await client(), await client()];
    const name = fresh();
    const [one, two, waiting] = [shared(name), shared(name), request(name)];
    await a.answers(one);
    await b.answers(two);
    await b.answers(waiting);
    assert.deepEqual(await a.answers(publish(one, '1')), ['published']);
    assert.deepEqual(await b.answers(publish(two, '2')), ['published']);
    assert.deepEqual(await dataOf(a, name), ['1', '2', '']);
    const all = (await a.adapter.query()).filter((entry) => entry.name === name);
    assert.deepEqual(
      all.map((entry) => entry.data || ''),
      ['1', '2', ''],
    );
  });

  test('a lock that waits, that has ended, or that is of another session is not held', async () => {
    const [a, b] = [await client(), await client()];
    const name = fresh();
    const [held, waiting] = [request(name), request(name)];
    await a.answers(held);
    await b.answers(waiting);
    assert.deepEqual(await b.answers(publish(waiting, '1')), ['notHeld']);
    assert.deepEqual(await b.answers(publish(held, '1')), ['notHeld']);
    assert.deepEqual(await dataOf(a, name), ['', '']);
    await a.answers(end(held));
    assert.deepEqual(await a.answers(publish(held, '1')), ['notHeld']);
    assert.deepEqual(await dataOf(a, name), ['']);
  });

  test('data ends with its lock: by an end, a theft, and the end of a session', async () => {
    const [a, b] = [await client(), await client()];
    const name = fresh();
    for (const take of [
      (held) => a.answers(end(held)),
      () => b.answers(request(name, { kind: 'steal' })),
      () => a.adapter.close(a.session),
    ]) {
      const held = request(name, { kind: 'steal' });
      await a.answers(held);
      await a.answers(publish(held, '"old"'));
      await take(held);
      await b.answers(request(name));
      assert.ok((await dataOf(b, name)).every((text) => text === ''));
    }
    assert.equal(await left(a.session), 0);
  });

  test('a lock that was stolen is not held, and the renewal tells of the theft', async () => {
    const [a, b] = [await client(), await client()];
    const held = request(fresh());
    await a.answers(held);
    await a.answers(publish(held, '1'));
    await b.answers(request(held.name, { kind: 'steal' }));
    assert.deepEqual(await a.answers(publish(held, '2')), ['notHeld']);
    const { mine } = await a.renew();
    assert.equal(mine.has(held.ref), false);
    assert.deepEqual(await dataOf(b, held.name), ['']);
  });

  test('other operations of a step are done beside a publication', async () => {
    const [a, b] = [await client(), await client()];
    const [held, other, third] = [request(fresh()), request(fresh()), request(fresh())];
    await a.answers(held, other);
    assert.deepEqual(
      await a.answers(third, publish(held, '[1]'), end(other), publish(third, '[3]')),
      ['granted', 'published', 'ended', 'published'],
    );
    assert.deepEqual(await dataOf(b, held.name), ['[1]']);
    assert.deepEqual(await dataOf(b, third.name), ['[3]']);
  });

  test('a publication and the end of its lock in one step are done in their order', async () => {
    const [a] = [await client()];
    const held = request(fresh());
    await a.answers(held);
    assert.deepEqual(await a.answers(publish(held, '1'), end(held)), ['published', 'ended']);
    assert.deepEqual(await dataOf(a, held.name), []);
  });

  test('R1: a publication that comes again after hello gets the same answer', async () => {
    const a = await client();
    const held = request(fresh());
    await a.answers(held);
    await a.answers(publish(held, '1'));
    await a.hello();
    assert.deepEqual((await a.again([publish(held, '1')])).map(plain), ['published']);
    assert.deepEqual(await a.answers(publish(held, '2')), ['published']);
    assert.deepEqual(await dataOf(a, held.name), ['2']);
  });

  test('many locks have data at a time, and all of them end at a time', async () => {
    const a = await client();
    const held = Array.from({ length: 100 }, () => request(fresh()));
    await a.answers(...held);
    const texts = held.map((_, i) => JSON.stringify('y'.repeat(10 * i)));
    await a.answers(...held.map((one, i) => publish(one, texts[i])));
    const told = await a.adapter.query();
    for (const [i, { ref }] of held.entries())
      assert.equal(
        told.find((entry) => entry.ref === ref && entry.clientId === a.clientId)?.data,
        texts[i],
      );
    assert.ok((await a.answers(...held.map(end))).every((code) => code === 'ended'));
    await a.adapter.close(a.session);
    assert.equal(await left(a.session), 0);
  });
}

/** @param {Engine} engine */
function marks({ client, shortestKeep = 1e-3 }) {
  test('marks that are set and dropped by many at a time are waited for in no circle', async () => {
    const all = await Promise.all(Array.from({ length: 6 }, () => client({}, 60_000)));
    const names = Array.from({ length: 8 }, () => fresh());
    for (let round = 0; round < 4; round++) {
      await Promise.all(
        all.map(async ({ answers }, i) => {
          const mine = names.map((name) => request(name, { kind: 'ifAvailable' }));
          const locks = (i % 2 ? mine : mine.reverse()).flatMap((op) => [
            op,
            done(op, shortestKeep),
          ]);
          await answers(...locks);
        }),
      );
    }
  });
}

/** @param {Engine} engine */
function queues(engine) {
  const { client } = engine;

  const pass = (name, options = {}) => request(name, { kind: 'pass', ...options });

  const forgets = { skip: engine.losesNoHint && 'no hint gets lost' };
  test('what has passed is in the next renewal, if its hint gets lost', forgets, async () => {
    const [a, b] = [await client(), await client()];
    const name = fresh();
    const [held, waiting] = [request(name), pass(name)];
    await a.answers(held);
    await b.answers(waiting);
    await b.hello();
    await a.answers(end(held));
    const { mine, stolen } = await b.renew();
    assert.deepEqual([mine.size, stolen?.get(waiting.ref)], [0, '']);
    assert.deepEqual((await b.again([waiting])).map(plain), ['queued']);
    assert.equal((await b.renew()).mine.size, 0);
    assert.deepEqual(await b.answers(request(name, { kind: 'ifAvailable' })), ['granted']);
  });
}

/**
 * The connection ends while a session opens, wherever it can: only its adapter is told.
 * @param {Pick<Engine, 'client' | 'port' | 'through' | 'lastWords' | 'stride'>} engine
 */
function endsWhileOpening({ client, port, through, lastWords, stride = 23 }) {
  /** Opens sessions, each with the next of these harms, until one is closed before it comes. */
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

  test('a connection that ends while a session opens harms nobody else: after any bytes', () =>
    openWith(
      (proxy, bytes) => proxy.cutAfter(bytes, 'down', bytes % 2 === 0),
      Number(process.env.CLUSTER_STRIDE ?? 4 * stride - 1),
    ));

  for (const [what, words] of Object.entries({ nothing: Buffer.alloc(0), ...lastWords }))
    test(`a connection that ends while a session opens harms nobody else: it says ${what}`, () =>
      openWith((proxy, chunks) => proxy.endWith(words, chunks), 1));
}

/** Ends the sessions of a test; to be called in a `describe`. */
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
  contract,
  contractOfClients,
  disposeAfterEach,
  done,
  end,
  endsWhileOpening,
  fresh,
  rejectsWith,
  request,
  shared,
  theft,
  units,
};
