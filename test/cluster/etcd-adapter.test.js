// slow: 58; long; waits; needs: etcd

'use strict';

/** The adapter of etcd against the contract, at a real server. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');

const { EtcdAdapter } = require('../../lib/cluster/engines/etcd/adapter.js');
const { Gateway } = require('../../lib/cluster/engines/etcd/gateway.js');
const { leaseKey } = require('../../lib/cluster/engines/etcd/keys.js');
const { openBucket } = require('../../lib/etcd.js');
const { valuesOf } = require('../helpers/locks.js');
const { TTL, clientOf, contract, contractOfClients } = require('./contract.js');
const { disposeAfterEach, done, end } = require('./contract.js');
const { fresh, rejectsWith, request, shared } = require('./contract.js');
const { tellStories } = require('./stories.js');
const { FaultyProxy } = require('./proxy.js');
const refusal = require('./refusal.js');
const { lacks, makeCertificate, startEtcd, stopAll } = require('./servers.js');

/** @type {Awaited<ReturnType<typeof startEtcd>>} */
let server;

const at = (port) => ({ endpoints: [`http://127.0.0.1:${port}`] });

const adapterOf = ({ bucket = 'bucket', ...options } = {}) =>
  new EtcdAdapter(bucket, { endpoints: server.endpoints, ...options });

const client = (options = {}, ttl = TTL, seen = undefined) =>
  clientOf(adapterOf(options), ttl, seen);

/** What makes a lease run out, as time would. */
const expire = (session) => server.call('lease/revoke', { ID: session });

/** How many keys there are of a session. */
const left = async (session) =>
  (await server.call('lease/timetolive', { ID: session, keys: true })).keys?.length ?? 0;

/** The key of a bucket's quarantine. */
const quarantineOf = async (bucket, at = server) =>
  (await at.call('kv/range', { key: base64(`web-locks/1/${keyPart(bucket)}/w/quarantine`) }))
    .kvs?.[0];

const keyPart = (text) =>
  text.replace(/[^\w.-]/g, (unit) => `%${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Deletes the key of the only request of a session of a name. */
async function remove({ session }, { name }) {
  const prefix = `web-locks/1/bucket/q/${keyPart(name)}/`;
  const { keys } = await server.call('lease/timetolive', { ID: session, keys: true });
  const own = keys.filter((key) => textOf(key).startsWith(prefix));
  assert.equal(own.length, 1);
  await server.call('kv/deleterange', { key: own[0] });
}

/** The class of undici, as its package has it: Node.js keeps one for its own `fetch`. */
async function undiciAgent() {
  await fetch('data:,');
  const symbols = Object.getOwnPropertySymbols(globalThis);
  const dispatchers = symbols.map((symbol) => globalThis[symbol]);
  return dispatchers.find((it) => it?.constructor?.name === 'Agent').constructor;
}

const textOf = (base) => Buffer.from(base, 'base64').toString();

/** Whether a request is a transaction of a step. */
function isStep(url, { body }) {
  if (!url.endsWith('/kv/txn')) return false;
  const { key } = JSON.parse(body).success.at(-1).request_put ?? {};
  return key !== undefined && textOf(key).startsWith('web-locks/1-steps/');
}

/** @returns {string} what is watched: the first key */
const watchedBy = ({ body }) => textOf(JSON.parse(body).create_request.key);

/** Whether a request is the watch of one name, or of all. */
const isNameWatch = (url, options) =>
  url.endsWith('/watch') && watchedBy(options).startsWith('web-locks/1/bucket/q/');

/**
 * Renews a session that cannot hear what it waits for.
 * @returns {Promise<{ renewal: Promise<void> }>} when it was not answered for some calls of another
 *   one; `renewal` settles with it, and does not reject
 */
async function unanswered(client, other) {
  let isRenewed = false;
  const renewal = client.renew().then(
    () => {
      isRenewed = true;
    },
    () => {},
  );
  for (let round = 0; round < 10; round++) await other.adapter.query();
  assert.ok(!isRenewed);
  return { renewal };
}

const keysIn = (text) => [...text.matchAll(/"key":"([^"]*)"/g)].map(([, key]) => textOf(key));

/** The answer of a stream, without the parts to which `look` says no; it may take its time. */
function streamOf(response, look) {
  async function* body() {
    for await (const chunk of response.body) {
      if (await look(String(Buffer.from(chunk)))) yield chunk;
    }
  }
  return { status: response.status, text: () => response.text(), body: body() };
}

/** A `fetch` whose calls of a kind come after something. */
const fetchOnce = (isIt, work) => async (url, options) => {
  if (isIt(url, options)) await work();
  return fetch(url, options);
};

/** A `fetch` that tells which watches there are, and what they hear. */
function fetchListening(next = fetch) {
  const open = new Set();
  const heard = [];
  const listening = async (url, options) => {
    if (!url.endsWith('/watch')) return next(url, options);
    const stream = watchedBy(options);
    open.add(stream);
    options.signal.addEventListener('abort', () => open.delete(stream));
    return streamOf(await next(url, options), (text) => heard.push(...keysIn(text)) || true);
  };
  return { listening, open, heard };
}

/** A promise, and what settles it. */
function gate() {
  let pass;
  const passed = new Promise((resolve) => {
    pass = resolve;
  });
  return { pass, passed };
}

/** Two clients; watches of names of the second one begin when `pass` is called. */
async function withLateWatches() {
  const { pass, passed } = gate();
  const late = fetchOnce(isNameWatch, () => passed);
  const [a, b] = [await client(), await client({ fetch: late })];
  return { a, b, pass };
}

/** A `fetch` that does something else before its first step. */
function fetchAfter(work, next = fetch) {
  let isFirst = true;
  return async (url, options) => {
    if (isFirst && isStep(url, options)) {
      isFirst = false;
      await work();
    }
    return next(url, options);
  };
}

/**
 * A client whose next step may be met by something else: before it is done, or before its answer
 * comes, which may get lost.
 */
async function clientToMeet(options, ttl) {
  let next = {};
  const met = async (url, its) => {
    if (!isStep(url, its)) return fetch(url, its);
    const { meet, isBefore, isLost } = next;
    next = {};
    if (isBefore && isLost) throw new TypeError('fetch failed');
    if (isBefore) await meet();
    if (isBefore || !(meet || isLost)) return fetch(url, its);
    const text = await (await fetch(url, { ...its, signal: undefined })).text();
    await meet?.();
    if (isLost) throw new TypeError('fetch failed');
    return new Response(text);
  };
  const made = await client({ ...options, fetch: met }, ttl);
  const meets = (what = {}) => {
    next = what;
  };
  return { ...made, meets };
}

/** A `fetch` that counts what it sends, by path. */
function countingFetch(next = fetch) {
  const counts = { steps: 0, others: 0 };
  const counting = (url, options) => {
    if (isStep(url, options)) counts.steps++;
    else if (url.endsWith('/kv/txn')) counts.others++;
    return next(url, options);
  };
  return { counting, counts };
}

/** Has etcd forget all revisions but the last. */
async function compact() {
  const { header } = await server.call('kv/put', { key: base64('other'), value: '' });
  await server.call('kv/compaction', { revision: header.revision, physical: true });
}

const codesOf = (answers) => answers.map(({ code }) => code);

const base64 = (text) => Buffer.from(text).toString('base64');

describe('etcd', { skip: lacks.etcd }, () => {
  // Answers of an open session do not keep a process alive, this does.
  const alive = setInterval(() => {}, 60_000);

  before(async () => {
    server = await startEtcd();
  });

  disposeAfterEach();

  after(async () => {
    clearInterval(alive);
    await stopAll();
  });

  const engine = {
    client,
    alone: { bucket: 'alone' },
    keeper: ({ bucket = 'bucket' } = {}) => new EtcdAdapter(bucket, at(server.members[0].port)),
    leaseEnd: async (session) =>
      Date.now() + 1_000 * Number((await server.call('lease/timetolive', { ID: session })).TTL),
    endQuarantine: async ({ bucket = 'bucket' } = {}) => {
      const quarantine = await quarantineOf(bucket);
      if (quarantine) await server.call('lease/revoke', { ID: quarantine.lease });
    },
    expire,
    left,
    remove,
    port: () => server.members[0].port,
    through: at,
    lastWords: {
      'that a request took too long': Buffer.from('HTTP/1.1 408 Timeout\r\n\r\n'),
      'that it goes on by another protocol': Buffer.from(
        'HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n',
      ),
      'what is no HTTP': Buffer.from('\0\r\n\r\n{'),
    },
    stride: 97,
    keepsNoLimit: true,
    knowsNoPriorities: true,
    losesNoHint: true,
    tellsNoStep: true,
    // Its lease is granted before the step.
    shortestKeep: 60_000,
    tellsOfDead: true,
    endsFirst: true,
  };
  contractOfClients(engine);
  contract(engine);
  tellStories((lane) => ({
    ...engine,
    client: (_, ttl) => clientToMeet({ bucket: `stories ${lane}` }, ttl),
    forget: compact,
    meets: true,
  }));

  describe('by the fetch of Node.js', () => {
    const { 'that it goes on by another protocol': _, ...lastWords } = engine.lastWords;
    contractOfClients({
      ...engine,
      client: (options = {}, ...rest) => client({ fetch: globalThis.fetch, ...options }, ...rest),
      through: (port) => ({ ...at(port), fetch: globalThis.fetch }),
      lastWords,
    });
  });

  test('what an old connection, or an old lease, still says changes nothing', async () => {
    const sent = [];
    const spy = (url, options) => {
      if (!isStep(url, options)) return fetch(url, options);
      sent.push(JSON.parse(options.body));
      throw new Error('late');
    };
    const a = await client({ fetch: spy });
    const op = request(fresh());
    await assert.rejects(a.step([op]));
    const [late] = sent;
    await a.hello();
    assert.ok(!(await server.call('kv/txn', late)).succeeded, 'of an old connection');
    await assert.rejects(a.again([op]));
    const last = sent.at(-1);
    assert.ok((await server.call('kv/txn', last)).succeeded);
    assert.ok(!(await server.call('kv/txn', last)).succeeded, 'it comes twice');
    assert.deepEqual(valuesOf(await a.again([op]), 'code'), ['granted']);
    await a.hello();
    await expire(a.session);
    assert.ok(!(await server.call('kv/txn', last)).succeeded);
    assert.equal(await left(a.session), 0);
  });

  test('R1: a session that dies in a step is not told as one that has done nothing of it', async () => {
    let own;
    let steps = 0;
    const dying = async (url, options) => {
      if (isStep(url, options) && ++steps === 2) await expire(own.session);
      return fetch(url, options);
    };
    own = await client({ fetch: dying });
    const name = fresh();
    // One after the other, in transactions of their own.
    const thefts = [1, 2].map(() => request(name, { kind: 'steal' }));
    await assert.rejects(own.step(thefts), (error) => own.adapter.classify(error) === 'retry');
    await rejectsWith(own.again(thefts), 'ERR_WEB_LOCKS_SESSION_DEAD');
    await rejectsWith(own.hello(), 'ERR_WEB_LOCKS_SESSION_DEAD');
  });

  test('the leases of all marks of a step are asked for at once', async () => {
    let grants = 0;
    let allHaveCome;
    const all = new Promise((resolve) => {
      allHaveCome = resolve;
    });
    const together = async (url, options) => {
      if (url.endsWith('/lease/grant') && JSON.parse(options.body).ID) {
        if (++grants === 3) allHaveCome();
        await all;
      }
      return fetch(url, options);
    };
    const a = await client({ fetch: together });
    const ops = Array.from({ length: 3 }, () => request(fresh()));
    await a.answers(...ops);
    assert.deepEqual(await a.answers(...ops.map((op) => done(op))), ['ended', 'ended', 'ended']);
  });

  test('what may not wait is answered at the first attempt, whatever others do', async () => {
    const proxy = await FaultyProxy.open(server.members[0].port);
    const { counting, counts } = countingFetch();
    const bucket = 'busy';
    const a = await client({ ...at(proxy.port), bucket, fetch: counting });
    const [one, some, queue] = [fresh(), fresh(), fresh()];
    const others = [await client({ bucket }), await client({ bucket })];
    let isOver = false;
    const work = others.map(async ({ answers }) => {
      while (!isOver) {
        const held = [one, queue].map((name) => request(name));
        held.push(shared(some, { limit: 3, weight: 2 }));
        await answers(...held);
        await answers(...held.map(end));
      }
    });
    proxy.delay(50);
    const seen = new Set();
    for (let round = 0; round < 10; round++) {
      for (const [op, most] of [
        [request(one, { kind: 'ifAvailable' }), [1, 0]],
        // What is known is made certain, or it is made and taken back.
        [shared(some, { limit: 3, weight: 2, kind: 'ifAvailable' }), [1, 2]],
        [request(queue, { maxPending: 0 }), [1, 2]],
      ]) {
        Object.assign(counts, { steps: 0, others: 0 });
        const [code] = await a.answers(op);
        seen.add(code);
        assert.ok(counts.steps <= most[0] && counts.others <= most[1], JSON.stringify(counts));
        await a.answers(end(op));
      }
    }
    isOver = true;
    await Promise.all(work);
    await proxy.close();
    assert.ok(seen.has('unavailable') || seen.has('queueFull'), [...seen].join());
    assert.ok(!seen.has('queued'));
    assert.deepEqual(await others[0].adapter.query(), await others[0].adapter.query(fresh()));
  });

  test('a steal from a holder that hangs succeeds at the first attempt, whatever comes in', async () => {
    const b = await client();
    const name = fresh();
    const held = request(name);
    await b.answers(held);
    const { counting, counts } = countingFetch();
    const thief = await client({ fetch: fetchAfter(() => b.answers(request(name)), counting) });
    assert.deepEqual(await thief.answers(request(name, { kind: 'steal' })), ['granted']);
    assert.equal(counts.steps, 1);
    assert.deepEqual(await b.next(), { stolen: held.ref, thief: thief.clientId });
  });

  for (const when of ['as it is opened', 'as it connects again']) {
    test(`a session is told of all that etcd forgets ${when}, before the watch`, async () => {
      const b = await client();
      const name = fresh();
      const [held, waiting, last] = [request(name), request(name), request(name)];
      await b.answers(held, last);
      let left = 0;
      const forgetting = async (url, options) => {
        if (url.endsWith('/watch') && left-- > 0) {
          await b.answers(end(held));
          await compact();
        }
        return fetch(url, options);
      };
      if (when === 'as it is opened') left = 1;
      const a = await client({ fetch: forgetting });
      if (left < 0) assert.deepEqual(await a.answers(waiting), ['queued']);
      else {
        left = 1;
        await a.answers(waiting);
        await a.hello();
      }
      const [first] = await a.adapter.query(name);
      assert.ok(first.token > 0n);
      await b.answers(end(held));
      await b.answers(end(last));
      assert.equal((await a.next()).granted, waiting.ref);
    });
  }

  test('who waits for nothing hears nothing of what others do, and watches no name', async () => {
    const { listening, open, heard } = fetchListening();
    const idle = await client({ fetch: listening });
    const { counting, counts } = countingFetch();
    const busy = fetchListening(counting);
    const [a, b] = [await client({ fetch: busy.listening }), await client()];
    const name = fresh();
    Object.assign(counts, { steps: 0, others: 0 });
    for (let round = 0; round < 5; round++) {
      const op = request(name);
      assert.deepEqual(await a.answers(op), ['granted']);
      await a.answers(end(op));
    }
    assert.deepEqual(counts, { steps: 5, others: 5 }, 'a call for each of both');
    assert.equal(busy.open.size, 1);
    const [held, waiting] = [request(name), request(name)];
    await a.answers(held);
    await b.answers(waiting);
    await a.answers(end(held));
    await b.next();
    await b.answers(request(name, { kind: 'steal' }));
    await idle.renew();
    assert.equal(open.size, 1);
    const own = `web-locks/1/bucket/s/${BigInt(idle.session).toString(16).padStart(16, '0')}`;
    assert.deepEqual(
      heard.filter((key) => !key.startsWith(own)),
      [],
    );
    assert.ok(heard.includes(`${own}/mark`));
  });

  test('names that are waited for one after the other are watched by a few streams', async () => {
    const { listening, open } = fetchListening();
    const [a, b] = [await client(), await client({ fetch: listening })];
    const held = Array.from({ length: 12 }, () => request(fresh()));
    await a.answers(...held);
    const waiting = held.map(({ name }) => request(name));
    for (const op of waiting) {
      assert.deepEqual(await b.answers(op), ['queued']);
      assert.ok(open.size <= 6, String(open.size));
    }
    // Which hear what they should.
    await b.renew();
    for (const [i, op] of held.entries()) {
      await a.answers(end(op));
      assert.equal((await b.next()).granted, waiting[i].ref);
    }
    const seen = open.size;
    for (let round = 0; round < 3; round++) await b.renew();
    assert.ok(seen > 1 && open.size === 1, 'that are ended when nobody waits any more');
    const [again, last] = [request(held[0].name), request(held[0].name)];
    await b.answers(end(waiting[0]));
    await a.answers(again);
    assert.deepEqual(await b.answers(last), ['queued']);
    await a.answers(end(again));
    assert.equal((await b.next()).granted, last.ref);
  });

  test('what is granted before the watch of its name has begun is told', async () => {
    const { a, b, pass } = await withLateWatches();
    const name = fresh();
    const [held, next] = [request(name), request(name)];
    await a.answers(held);
    assert.deepEqual(await b.answers(next), ['queued']);
    await a.answers(end(held));
    await compact();
    const renewal = b.renew();
    let isRenewed = false;
    renewal.then(() => {
      isRenewed = true;
    });
    for (let round = 0; round < 5; round++) await a.adapter.query();
    assert.ok(!isRenewed, 'a renewal shows that names are heard');
    pass();
    assert.equal((await b.next()).granted, next.ref);
    assert.ok((await renewal).mine.get(next.ref) > 0n);
  });

  test('what is granted behind it meanwhile has no smaller token', async () => {
    const { a, b, pass } = await withLateWatches();
    const name = fresh();
    const [held, next, behind] = [request(name), shared(name), shared(name)];
    await a.answers(held);
    assert.deepEqual(await b.answers(next), ['queued']);
    await a.answers(end(held));
    assert.deepEqual(await b.answers(behind), ['granted']);
    await a.answers(request(fresh()));
    pass();
    assert.equal((await b.next()).granted, next.ref);
    const { mine } = await b.renew();
    assert.ok(mine.get(next.ref) <= mine.get(behind.ref));
  });

  test('a gateway that makes only the first watch of a request keeps nobody waiting', async () => {
    // etcd's does so when it has much to do.
    const first = (url, options) => {
      const [body] = url.endsWith('/watch') ? options.body.split('\n') : [options.body];
      return fetch(url, { ...options, body });
    };
    const [a, b] = [await client(), await client({ fetch: first })];
    const held = Array.from({ length: 7 }, () => request(fresh()));
    const waiting = held.map(({ name }) => request(name));
    await a.answers(...held);
    await b.answers(...waiting.slice(0, 3));
    await b.answers(...waiting.slice(3));
    await b.renew();
    for (const [i, op] of held.entries()) {
      await a.answers(end(op));
      assert.equal((await b.next()).granted, waiting[i].ref);
    }
  });

  test('a session that does not hear of its grant does not renew, and connects', async () => {
    let isDeaf = true;
    const deaf = async (url, options) => {
      const response = await fetch(url, options);
      if (!isDeaf || !isNameWatch(url, options)) return response;
      return streamOf(response, (text) => !text.includes('"events"'));
    };
    const [a, b] = [await client(), await client({ fetch: deaf })];
    const name = fresh();
    const [held, next] = [shared(name), request(name)];
    await a.answers(held);
    assert.deepEqual(await b.answers(next), ['queued']);
    assert.equal((await b.renew()).mine.get(next.ref), 0n, 'as long as it waits it renews');
    await a.answers(end(held));
    const { renewal } = await unanswered(b, a);
    isDeaf = false;
    await b.hello();
    await renewal;
    assert.equal((await b.next()).granted, next.ref);
  });

  test('a watch that is ahead of another one makes a session miss nothing', async () => {
    const { pass, passed } = gate();
    let count = 0;
    const late = async (url, options) => {
      const response = await fetch(url, options);
      if (!isNameWatch(url, options) || ++count > 1) return response;
      return streamOf(response, async (text) => {
        if (text.includes('"events"')) await passed;
        return true;
      });
    };
    const [a, b] = [await client(), await client({ fetch: late })];
    const held = Array.from({ length: 5 }, () => request(fresh()));
    const waiting = held.map(({ name }) => request(name));
    await a.answers(...held);
    for (const op of waiting.slice(0, 4)) await b.answers(op);
    await b.renew();
    const [{ name }] = held;
    const [thief, last] = [request(name, { kind: 'steal' }), request(name)];
    await a.answers(thief);
    // The watch of the first name is behind, and that of all names, which hears of it, begins now.
    await b.answers(waiting[4]);
    await a.answers(last);
    await a.answers(end(held[4]));
    assert.equal((await b.next()).granted, waiting[4].ref);
    pass();
    await a.answers(end(thief));
    assert.equal((await b.next()).granted, waiting[0].ref);
    assert.equal((await a.renew()).mine.get(last.ref), 0n);
  });

  test('what is answered late, by a quarantine that is over since, is granted to nobody', async () => {
    const bucket = 'careful';
    // Its life.
    await client({ bucket });
    const { ID } = await server.call('lease/grant', { TTL: 60 });
    await server.call('kv/put', {
      ...{ key: base64(`web-locks/1/${bucket}/w/quarantine`), value: '', lease: ID },
    });
    const { pass, passed } = gate();
    const made = gate();
    const late = async (url, options) => {
      const response = await fetch(url, options);
      if (!isStep(url, options)) return response;
      made.pass();
      await passed;
      return response;
    };
    const a = await client({ bucket, fetch: late });
    const b = await client({ bucket });
    const [mine, thief] = [request('name'), request('name', { kind: 'steal' })];
    const step = a.answers(mine);
    await made.passed;
    assert.deepEqual(await b.answers(thief), ['queued']);
    await server.call('lease/revoke', { ID });
    assert.equal((await b.next()).granted, thief.ref);
    assert.equal((await a.renew()).grantsIn, 0);
    pass();
    assert.deepEqual(await step, ['queued']);
    await b.answers(end(thief));
    assert.equal((await a.next()).granted, mine.ref);
  });

  test('a session whose reading of a queue is never answered does not renew, and connects', async () => {
    const { pass, passed } = gate();
    let isLost = true;
    const losing = async (url, options) => {
      const { compare, success } = url.endsWith('/kv/txn') ? JSON.parse(options.body) : {};
      const isReading = compare?.length === 0 && success[0].request_range;
      if (!isReading || !isLost) return fetch(url, options);
      pass();
      return new Promise(() => {});
    };
    const [a, b] = [await client(), await client({ fetch: losing })];
    const name = fresh();
    const [held, next] = [request(name), request(name)];
    await a.answers(held);
    assert.deepEqual(await b.answers(next), ['queued']);
    await passed;
    await a.answers(end(held));
    const { renewal } = await unanswered(b, a);
    isLost = false;
    await b.hello();
    await renewal;
    assert.equal((await b.next()).granted, next.ref);
  });

  test('who was robbed while it was cut off is told by whom, also if etcd has forgotten', async () => {
    const thief = await client();
    let ear = new AbortController();
    const deaf = (url, options) =>
      url.endsWith('/watch')
        ? fetch(url, { ...options, signal: AbortSignal.any([options.signal, ear.signal]) })
        : fetch(url, options);
    const b = await client({ fetch: deaf });
    const mine = request(fresh());
    await b.answers(mine);
    ear.abort();
    assert.ok((await b.next()).down);
    await thief.answers(request(mine.name, { kind: 'steal' }));
    await compact();
    ear = new AbortController();
    await b.hello();
    assert.deepEqual(await b.next(), { stolen: mine.ref, thief: thief.clientId });
    const { mine: left, stolen } = await b.renew();
    assert.deepEqual([[...left], [...stolen]], [[], [[mine.ref, thief.clientId]]]);
    assert.deepEqual([...(await b.renew()).stolen], [], 'and then no more');
  });

  test('tokens of others are told as they are, whenever one comes to look', async () => {
    const bucket = 'tokens';
    const [a, b] = [await client({ bucket }), await client({ bucket })];
    const [one, two, three] = [fresh(), fresh(), fresh()];
    const tokens = new Map();
    for (const [name, isRenewed] of [
      [one, false],
      [two, true],
      [three, false],
    ]) {
      const [held, next] = [request(name), request(name)];
      const [{ token }] = await a.step([held]);
      tokens.set(name, [token]);
      await b.answers(next);
      await a.answers(end(held));
      tokens.get(name).push((await b.next()).token);
      if (isRenewed) await b.renew();
    }
    const [free] = await a.step([request('free')]);
    const told = async () => {
      const c = await client({ bucket });
      const all = await c.adapter.query();
      return new Map(all.map(({ held, name, token }) => [name, { held, token }]));
    };
    const first = await told();
    for (const [name, [before, token]] of tokens) {
      assert.ok(before < token);
      assert.equal(first.get(name).token, token, name);
    }
    assert.equal(first.get('free').token, free.token);
    assert.ok(first.get('free').held >= 0 && first.get(two).held >= 0);
    assert.ok(Number.isNaN(first.get(three).held), 'not known so far');
    await b.renew();
    await a.renew();
    await compact();
    const later = await told();
    for (const [name, { token }] of first) assert.equal(later.get(name)?.token, token, name);
    assert.ok(later.get(three).held >= 0);
  });

  test('a bucket of another version of the library is refused', async () => {
    const value = base64(JSON.stringify({ id: 'x', offset: '0', known: [] }));
    await server.call('kv/put', { key: base64('web-locks/1-life/older'), value });
    const adapter = adapterOf({ bucket: 'older' });
    await assert.rejects(clientOf(adapter), (error) => {
      assert.equal(error.code, 'ERR_WEB_LOCKS_BUCKET');
      assert.equal(adapter.classify(error), 'fatal');
      return true;
    });
  });

  test('keys of a bucket without a life, as an older version writes them, are refused', async () => {
    // As that at 87c1150, whose thieves told only those who watched the whole bucket.
    const { ID } = await server.call('lease/grant', { TTL: 60 });
    for (const what of ['s/LEASE', 'm/LEASE', 'q/name/b/LEASE-0000000000000001']) {
      const bucket = `lifeless ${what}`;
      const key = `web-locks/1/${keyPart(bucket)}/${what.replace('LEASE', leaseKey(ID))}`;
      await server.call('kv/put', { key: base64(key), value: base64('{}'), lease: ID });
      const adapter = adapterOf({ bucket });
      await assert.rejects(clientOf(adapter), (error) => {
        assert.equal(error.code, 'ERR_WEB_LOCKS_BUCKET');
        assert.match(error.message, /older version of web-locks.*Close all clients/);
        assert.equal(adapter.classify(error), 'fatal');
        return true;
      });
      await server.call('kv/deleterange', { key: base64(key) });
      assert.equal((await clientOf(adapter)).grantsIn, 0);
    }
  });

  test('a session whose life somebody deletes is dead with its next renewal', async () => {
    const a = await client({ bucket: 'killed' });
    await a.answers(request('name'));
    await server.call('kv/deleterange', { key: base64('web-locks/1-life/killed') });
    await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_SESSION_DEAD');
    await rejectsWith(client({ bucket: 'killed' }), 'ERR_WEB_LOCKS_BUCKET');
    await a.adapter.close(a.session);
    await client({ bucket: 'killed' });
  });

  test('a quarantine is as long as the longest lease that it ends, and is not made shorter', async () => {
    const bucket = 'longest';
    await client({ bucket }, 2_000);
    const patient = await client({ bucket });
    const first = await client({ bucket }, 2_000, { life: 'another etcd', token: 0n });
    assert.ok(first.grantsIn > 50_000, `${first.grantsIn} ms`);
    await rejectsWith(patient.step([request('name')]), 'ERR_WEB_LOCKS_SESSION_DEAD');
    const second = await client({ bucket }, 2_000, { life: 'a third one', token: 0n });
    assert.ok(second.grantsIn > 50_000, `${second.grantsIn} ms`);
    const { lease } = await quarantineOf(bucket);
    // Of leases that are over nothing is left.
    await server.call('lease/revoke', { ID: lease });
    const third = await client({ bucket }, 2_000, { life: 'a fourth one', token: 0n });
    assert.ok(third.grantsIn <= 2_000, `${third.grantsIn} ms`);
  });

  test('an answer of the past is read again, in the order of the writes', async () => {
    const old = gate();
    let isPast = false;
    const past = async (url, options) => {
      const response = await fetch(url, options);
      const { failure, success } = url.endsWith('/kv/txn') ? JSON.parse(options.body) : {};
      if (!isPast || !success?.every((one) => one.request_range)) return response;
      const answer = await response.json();
      if (failure) old.pass();
      else {
        answer.header.revision = '1';
        for (const one of answer.responses) one.response_range = {};
      }
      return new Response(JSON.stringify(answer));
    };
    const [a, b] = [await client(), await client({ fetch: past })];
    const [name, marked] = [fresh(), fresh()];
    const [held, waiting, job] = [request(name), request(name), request(marked)];
    await a.answers(held, job);
    await a.answers(done(job));
    // It knows of nothing newer before that: that is of another member, maybe.
    assert.deepEqual(await b.answers(waiting), ['queued']);
    isPast = true;
    assert.equal(await b.adapter.marked(marked), true);
    assert.equal((await b.adapter.query(name)).length, 2);
    await b.renew();
    await old.passed;
    await b.hello();
    assert.equal((await b.renew()).mine.get(waiting.ref), 0n);
    await a.answers(end(held));
    assert.equal((await b.next()).granted, waiting.ref);
    // Nor is a session dead of which the past knows nothing yet, if etcd is asked why it does nothing.
    const key = base64(`web-locks/1-steps/bucket/${leaseKey(b.session)}`);
    await server.call('kv/deleterange', { key });
    assert.deepEqual(await b.answers(request(fresh())), ['granted']);
  });

  test('thousands of locks are compared by one more call of a renewal', async () => {
    const calls = [];
    const counting = (url, options) => {
      calls.push(url.slice(url.indexOf('/v3/') + 4));
      return fetch(url, options);
    };
    const a = await client({ bucket: 'thousands', fetch: counting });
    const held = Array.from({ length: 2_000 }, () => request(fresh()));
    for (let i = 0; i < held.length; i += 100) await a.answers(...held.slice(i, i + 100));
    calls.length = 0;
    assert.equal((await a.renew()).mine.size, held.length);
    assert.deepEqual(calls.sort(), ['kv/txn', 'lease/keepalive', 'lease/timetolive']);
    await server.call('kv/deleterange', {
      key: base64('web-locks/1/thousands/q/'),
      range_end: base64('web-locks/1/thousands/q0'),
    });
    assert.equal((await a.renew()).mine.size, 0);
  });

  test('an etcd that was wiped, or restored, grants nothing until all locks before are over', async () => {
    for (const isRestored of [false, true]) {
      const own = await startEtcd();
      const { endpoints, members } = own;
      const folder = path.join(members[0].folder, 'data');
      const copy = path.join(members[0].folder, 'copy');
      const a = await client({ endpoints }, 60_000);
      await own.stop('SIGTERM');
      execFileSync('cp', ['-a', folder, copy]);
      await own.start();
      await a.hello();
      const name = fresh();
      let held = request(name);
      for (let round = 0; round < 20; round++) {
        await a.answers(end(held));
        held = request(name);
        await a.answers(held);
      }
      const token = (await a.renew()).mine.get(held.ref);
      const { life } = await a.renew();
      await own.stop();
      fs.rmSync(folder, { recursive: true });
      if (isRestored) fs.renameSync(copy, folder);
      await own.start();
      const b = await client({ endpoints }, 60_000);
      await assert.rejects(a.hello(), { code: 'ERR_WEB_LOCKS_SESSION_DEAD' });
      const next = await client({ endpoints }, 60_000, { life, token });
      assert.ok(next.grantsIn > 0);
      assert.ok((await next.renew()).grantsIn > 0);
      await rejectsWith(b.step([request(name)]), 'ERR_WEB_LOCKS_SESSION_DEAD');
      const c = await client({ endpoints });
      const attempt = request(fresh(), { kind: 'ifAvailable' });
      const [waiting, thief] = [request(name), request(name, { kind: 'steal' })];
      assert.deepEqual(await c.answers(attempt, waiting, thief), [
        'unavailable',
        'queued',
        'queued',
      ]);
      const { lease } = await quarantineOf('bucket', own);
      await own.call('lease/revoke', { ID: lease });
      const event = await c.next();
      assert.equal(event.granted, thief.ref);
      assert.ok(event.token > token);
      assert.equal((await c.renew()).grantsIn, 0);
      assert.equal((await client({ endpoints })).grantsIn, 0);
      await own.stop();
    }
  });

  test('a group of more than a transaction may have fails, and nothing else does', async () => {
    const a = await client();
    const group = Array.from({ length: 200 }, () => request(fresh(), { group: 1 }));
    const single = request(fresh());
    const answers = await a.step([...group, single]);
    assert.deepEqual(new Set(answers.slice(0, -1).map(({ code }) => code)), new Set(['failed']));
    assert.equal(answers[0].error.code, 'ERR_WEB_LOCKS_TOO_MANY');
    assert.equal(answers.at(-1).code, 'granted');
    assert.deepEqual([...(await a.renew()).mine.keys()], [single.ref]);
  });

  test('a name that is too long fails alone, or with its group that does not wait', async () => {
    const a = await client();
    const long = 'x'.repeat(1_200_000);
    const answers = await a.step([request(long), request(fresh())]);
    assert.equal(answers[0].error.code, 'ERR_WEB_LOCKS_TOO_LARGE');
    assert.equal(answers[1].code, 'granted');
    const all = [fresh(), long].map((name) => request(name, { kind: 'ifAvailable', group: 1 }));
    assert.deepEqual(codesOf(await a.step(all)), ['unavailable', 'failed']);
    assert.equal((await a.renew()).mine.size, 1);
  });

  test('a step of a hundred is one transaction, of whatever kind', async () => {
    const { counting, counts } = countingFetch();
    const a = await client({ fetch: counting });
    const names = Array.from({ length: 100 }, () => fresh());
    for (const make of [
      (name) => request(name),
      (name) => request(name, { kind: 'ifAvailable' }),
      (name) => request(name, { kind: 'steal' }),
    ]) {
      counts.steps = 0;
      const ops = names.map(make);
      assert.deepEqual(new Set(await a.answers(...ops)), new Set(['granted']));
      assert.equal(counts.steps, 1);
      await a.answers(...ops.map(end));
    }
    const group = names.map((name) => request(name, { kind: 'ifAvailable', group: 1 }));
    assert.deepEqual(new Set(await a.answers(...group)), new Set(['granted']));
    const ends = group.map((op) => end(op));
    await a.answers(...ends);
    const some = names.map((name) => shared(name, { limit: 2, weight: 1, kind: 'ifAvailable' }));
    counts.steps = 0;
    assert.deepEqual(new Set(await a.answers(...some)), new Set(['granted']));
    assert.equal(counts.steps, 2);
  });

  test('so it is of one name, if none of them is sure to wait', async () => {
    const { counting, counts } = countingFetch();
    const a = await client({ fetch: counting });
    const name = fresh();
    const attempts = Array.from({ length: 100 }, () => request(name, { kind: 'ifAvailable' }));
    const [first, ...rest] = await a.answers(...attempts);
    assert.deepEqual([first, new Set(rest)], ['granted', new Set(['unavailable'])]);
    assert.equal(counts.steps, 1);
  });

  test('a lock that more share than a transaction has room for can be stolen', async () => {
    const [a, b] = [await client(), await client()];
    const name = fresh();
    const readers = Array.from({ length: 130 }, () => shared(name));
    await a.answers(...readers.slice(0, 65));
    await a.answers(...readers.slice(65));
    assert.deepEqual(await b.answers(request(name, { kind: 'steal' })), ['granted']);
    assert.equal((await a.renew()).mine.size, 0);
  });

  test('a mark whose step comes again lasts as long from then on', async () => {
    let isLost = true;
    const kept = [];
    const losing = async (url, options) => {
      if (url.endsWith('/lease/keepalive')) kept.push(String(JSON.parse(options.body).ID));
      if (url.endsWith('/lease/grant') && JSON.parse(options.body).ID) granted = options.body;
      if (isLost && granted !== undefined && isStep(url, options)) {
        isLost = false;
        throw new TypeError('fetch failed');
      }
      return fetch(url, options);
    };
    let granted;
    const a = await client({ fetch: losing });
    const op = request(fresh());
    await a.answers(op);
    const marking = [done(op)];
    await assert.rejects(a.step(marking));
    await a.hello();
    assert.deepEqual(codesOf(await a.again(marking)), ['ended']);
    assert.ok(kept.includes(String(JSON.parse(granted).ID)));
  });

  test('a quarantine lasts from when it has begun, however long that took', async () => {
    const own = await startEtcd();
    const { endpoints } = own;
    const a = await client({ endpoints });
    const kept = [];
    let lease;
    const watched = async (url, options) => {
      const body = url.endsWith('/watch') ? {} : JSON.parse(options.body);
      const response = await fetch(url, options);
      // What begins another life ends the sessions of the one before.
      if (body.success?.some((one) => one.request_delete_range)) {
        lease = String(body.success.find((one) => one.request_put?.lease).request_put.lease);
      } else if (url.endsWith('/lease/keepalive')) kept.push(String(body.ID));
      return response;
    };
    const b = await client({ endpoints, fetch: watched }, 60_000, { life: 'x/y', token: 5n });
    assert.ok((await b.renew()).grantsIn > 0);
    assert.ok(kept.includes(lease), 'who renewed until then is ended by it');
    assert.equal((await a.renew()).alive, false);
    await own.stop();
  });

  test('what is told of many readers is read once', async () => {
    let reads = 0;
    const counting = (url, options) => {
      if (url.endsWith('/kv/txn')) {
        for (const { request_range } of JSON.parse(options.body).success) {
          if (request_range?.revision) reads++;
        }
      }
      return fetch(url, options);
    };
    const [a, b] = [await client(), await client()];
    const looking = await client({ fetch: counting });
    const name = fresh();
    const writer = request(name);
    await a.answers(writer);
    const readers = Array.from({ length: 50 }, () => shared(name));
    await b.answers(...readers);
    await b.renew();
    await a.answers(end(writer));
    const entries = await looking.adapter.query(name);
    assert.equal(entries.length, 50);
    assert.ok(entries.every(({ token }) => token === entries[0].token && token > 0n));
    assert.ok(reads <= 30, `${reads} reads`);
  });

  test('a query during which etcd forgets what it reads is made once more', async () => {
    const other = await client();
    let isFirst = true;
    const forgetting = async (url, options) => {
      const response = await fetch(url, options);
      if (isFirst && url.endsWith('/kv/txn') && JSON.parse(options.body).success[0].request_range) {
        isFirst = false;
        await other.answers(request(fresh()));
        await compact();
      }
      return response;
    };
    const bucket = 'forgotten';
    const a = await client({ bucket, fetch: forgetting });
    await a.answers(request('name'));
    isFirst = true;
    assert.equal((await a.adapter.query()).length, 1);
    assert.equal(isFirst, false);
  });

  describe('a session has no more keys in a queue than it had requests at a time', () => {
    /** What is asked for, step by step; a client, and all keys that it has written into queues. */
    async function withKeys() {
      const keys = new Set();
      const noting = (url, options) => {
        for (const [, key] of String(options.body).matchAll(/"request_put":\{"key":"([^"]*)"/g)) {
          if (textOf(key).startsWith('web-locks/1/bucket/q/')) keys.add(key);
        }
        return fetch(url, options);
      };
      return { a: await client({ fetch: noting }), keys };
    }

    test('several, each of which comes with the end of the one before', async () => {
      const { a, keys } = await withKeys();
      const name = fresh();
      let [held, waiting] = [request(name), request(name)];
      await a.answers(held, waiting);
      for (let round = 0; round < 5; round++) {
        const next = request(name);
        await a.answers(end(held), next);
        assert.equal((await a.next()).granted, waiting.ref);
        [held, waiting] = [waiting, next];
      }
      assert.equal(keys.size, 3);
    });

    test('also of those that were stolen, or refused, with their group or alone', async () => {
      const { a, keys } = await withKeys();
      const [name, taken] = [fresh(), fresh()];
      const b = await client();
      await b.answers(request(taken));
      for (let round = 0; round < 5; round++) {
        const op = request(name);
        await a.answers(op);
        const thief = request(name, { kind: 'steal' });
        await b.answers(thief);
        assert.equal((await a.next()).stolen, op.ref);
        await b.answers(end(thief));
        const tried = [
          request(name, { kind: 'ifAvailable' }),
          request(taken, { kind: 'ifAvailable' }),
        ];
        assert.deepEqual(await a.answers(...tried), ['granted', 'unavailable']);
        await a.answers(end(tried[0]));
        const group = [name, taken].map((one) => request(one, { kind: 'ifAvailable', group: 1 }));
        assert.deepEqual(await a.answers(...group), ['unavailable', 'unavailable']);
        const full = request(taken, { maxPending: 0 });
        assert.deepEqual(await a.answers(full), ['queueFull']);
      }
      const queues = [...keys].map((key) => textOf(key).replace(/[^/]*$/, ''));
      for (const queue of queues) assert.ok(queues.filter((one) => one === queue).length <= 2);
    });
  });

  describe('a key that is used again is that of one request at a time', () => {
    /** The answer of a call comes late, or gets lost: after `work`, which is done once. */
    function held() {
      const it = { isIt: isStep, isLost: false, work: undefined };
      it.fetch = async (url, options) => {
        if (!it.work || !it.isIt(url, options)) return fetch(url, options);
        const { isLost, work } = it;
        it.work = undefined;
        const response = await fetch(url, { ...options, signal: undefined });
        const text = await response.text();
        await work();
        if (isLost) throw new TypeError('lost');
        return new Response(text, { status: response.status });
      };
      return it;
    }

    /** Hears of so many thefts. */
    async function heard(a, count) {
      for (let left = count; left > 0; ) if ((await a.next()).stolen) left--;
    }

    const two = async () => {
      const it = held();
      return { it, a: await client({ fetch: it.fetch }), b: await client() };
    };
    const theft = (name) => request(name, { kind: 'steal' });

    test('what is robbed while etcd, which has forgotten, is asked how it is now is not made again', async () => {
      const it = { isFirst: true, isAsked: false };
      const { pass, passed } = gate();
      const isOfNow = (url, { body }) =>
        url.endsWith('/kv/txn') &&
        JSON.parse(body).compare.length === 0 &&
        JSON.parse(body).success[0].request_range?.revision === '0';
      const a = await client({
        fetch: async (url, options) => {
          if (it.isFirst && isStep(url, options)) {
            it.isFirst = false;
            await (await fetch(url, { ...options, signal: undefined })).text();
            await b.answers(request(fresh()));
            const { header } = await server.call('kv/range', { key: 'AA==' });
            await server.call('kv/compaction', { revision: header.revision });
            throw new TypeError('lost');
          }
          if (it.isFirst || it.isAsked || !isOfNow(url, options)) return listening(url, options);
          it.isAsked = true;
          await b.answers(thief);
          const text = await (await fetch(url, options)).text();
          // It hears of the theft after the answer.
          setImmediate(pass);
          return new Response(text);
        },
      });
      async function listening(url, options) {
        const response = await fetch(url, options);
        if (!url.endsWith('/watch')) return response;
        return streamOf(response, async (text) => {
          if (keysIn(text).some((key) => key.includes('/stolen/'))) await passed;
          return true;
        });
      }
      const b = await client();
      const name = fresh();
      const [op, thief] = [request(name), theft(name)];
      await assert.rejects(a.step([op]));
      await a.hello();
      await a.again([op]);
      assert.ok(it.isAsked);
      assert.equal((await a.next()).stolen, op.ref);
      assert.equal((await a.renew()).mine.size, 0);
      await b.answers(end(thief));
      assert.deepEqual(await b.answers(request(name, { kind: 'ifAvailable' })), ['granted']);
    });

    test('what is granted while its answer was lost has the token of its grant', async () => {
      const it = held();
      const { pass, passed } = gate();
      let isLate = false;
      const late = async (url, options) => {
        if (isLate && isNameWatch(url, options)) await passed;
        return it.fetch(url, options);
      };
      const [a, b] = [await client({ fetch: late }), await client()];
      const name = fresh();
      const [holder, first, op] = [request(name), shared(name), shared(name)];
      await b.answers(holder);
      assert.deepEqual(await a.answers(first), ['queued']);
      await a.renew();
      let granted;
      it.isLost = true;
      it.work = async () => {
        await b.answers(end(holder));
        granted = await a.next();
        await b.answers(request(fresh()));
      };
      await assert.rejects(a.step([op]));
      // What the name is now it hears after the answer.
      isLate = true;
      await a.hello();
      await a.again([op]);
      pass();
      const { mine } = await a.renew();
      assert.equal(granted.granted, first.ref);
      assert.deepEqual(
        [first, op].map(({ ref }) => mine.get(ref)),
        [granted.token, granted.token],
      );
    });

    test('who steals from itself, and is robbed before that, steals', async () => {
      const { a, b, it } = await two();
      const name = fresh();
      await a.answers(theft(name));
      // When it has read whom it robs.
      it.isIt = (url, { body }) =>
        url.endsWith('/kv/txn') && JSON.parse(body).success[0].request_range !== undefined;
      it.work = async () => {
        await b.answers(theft(name));
        await heard(a, 1);
      };
      assert.deepEqual(await a.answers(theft(name)), ['granted']);
    });

    test('an end, or what takes back, that comes once more changes nothing', async () => {
      const sent = [];
      const noting = (url, options) => {
        if (/"success":\[\{"request_delete_range"/.test(options.body)) sent.push(options.body);
        return fetch(url, options);
      };
      const a = await client({ fetch: noting });
      const name = fresh();
      const full = { limit: 2, weight: 2 };
      const [holder, op] = [shared(name, full), shared(name, { ...full, kind: 'ifAvailable' })];
      await a.answers(holder);
      assert.deepEqual(await a.answers(op), ['unavailable']);
      await a.answers(end(holder));
      assert.equal(sent.length, 2);
      const next = [shared(name, full), shared(name, full)];
      assert.deepEqual(await a.answers(...next), ['granted', 'queued']);
      for (const body of sent) await server.call('kv/txn', JSON.parse(body));
      assert.deepEqual(
        valuesOf(await a.adapter.query(name), 'ref'),
        next.map(({ ref }) => ref),
      );
    });
  });

  test('a session goes on whose key of steps was deleted', async () => {
    let isDeleted = false;
    const a = await client({
      fetch: async (url, options) => {
        // Before it takes back what was made and is not as it was wanted.
        const takesBack = /"success":\[\{"request_delete_range"/.test(options.body);
        if (takesBack && !isDeleted) await forget();
        return fetch(url, options);
      },
    });
    const key = `web-locks/1-steps/bucket/${BigInt(a.session).toString(16).padStart(16, '0')}`;
    const forget = async () => {
      isDeleted = true;
      const { deleted } = await server.call('kv/deleterange', {
        key: Buffer.from(key).toString('base64'),
      });
      assert.equal(deleted, '1');
    };
    const name = fresh();
    const full = { limit: 2, weight: 2 };
    const [held, tried] = [shared(name, full), shared(name, { ...full, kind: 'ifAvailable' })];
    await a.answers(held);
    assert.deepEqual(await a.answers(tried), ['unavailable']);
    assert.ok(isDeleted);
    const next = shared(name, full);
    assert.deepEqual(await a.answers(next), ['queued']);
    await forget();
    assert.deepEqual(await a.answers(end(held)), ['ended']);
    assert.equal((await a.next()).granted, next.ref);
    await a.answers(request(fresh()));
    await forget();
    assert.deepEqual(await a.answers(request(fresh())), ['granted']);
  });

  test('R3: what etcd refuses fails alone, and the rest of its step is done', async () => {
    let refusals = 0;
    const [bad, ...good] = Array.from({ length: 8 }, () => request(fresh()));
    const picky = async (url, options) => {
      if (!isStep(url, options)) return fetch(url, options);
      const puts = JSON.parse(options.body).success.map((one) => one.request_put?.value ?? '');
      const refs = puts.filter(Boolean).map((value) => JSON.parse(textOf(value)).ref);
      if (!refs.includes(bad.ref)) return fetch(url, options);
      refusals++;
      return new Response('{"error":"no","message":"no","code":3}', { status: 400 });
    };
    const a = await client({ fetch: picky });
    const answers = await a.step([...good.slice(0, 3), bad, ...good.slice(3)]);
    assert.equal(answers[3].error.code, 'ERR_WEB_LOCKS_REFUSED');
    assert.deepEqual(
      codesOf(answers.filter(({ code }) => code !== 'failed')),
      Array(7).fill('granted'),
    );
    assert.ok(refusals > 1);
    assert.equal((await a.renew()).mine.size, 7);
  });

  test('what goes wrong in a fetch is tried again, what goes wrong before it is not', async () => {
    const breaks = [
      () => {
        throw new TypeError('not a promise');
      },
      async () => {
        throw new TypeError('fetch failed');
      },
      async () => undefined,
      async () => new Response('{}'),
      async () => new Response('null'),
      async () => new Response('<html>'),
      async () => ({ status: 200, text: () => Promise.reject(new TypeError('terminated')) }),
      async () => new Response('no', { status: 502 }),
    ];
    for (const broken of breaks) {
      let isBroken = false;
      const a = await client({ fetch: (...all) => (isBroken ? broken() : fetch(...all)) });
      isBroken = true;
      for (const call of [() => a.step([request(fresh())]), a.renew, a.hello]) {
        await assert.rejects(call(), (error) => {
          assert.equal(a.adapter.classify(error), 'retry', `${broken}: ${error.stack}`);
          return true;
        });
      }
      isBroken = false;
      await a.hello();
    }
    const a = await client();
    assert.equal(a.adapter.classify(new TypeError('a defect')), 'local');
    const cyclic = request(fresh());
    cyclic.label = { toJSON: () => cyclic.nothing.at(0) };
    await assert.rejects(a.step([cyclic]), (error) => a.adapter.classify(error) === 'local');
  });

  test('who ends a session is not sent to another endpoint when all is over', async () => {
    const asked = [];
    const gates = [gate(), gate()];
    const silent = (url, { signal }) => {
      asked.push(url);
      gates[asked.length - 1].pass();
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    };
    const endpoints = ['http://127.0.0.1:1', 'http://127.0.0.1:2'];
    const adapter = new EtcdAdapter('bucket', { endpoints, fetch: silent });
    const closing = assert.rejects(adapter.close('1'));
    const [first, second] = gates.map(({ passed }) => passed);
    await first;
    await adapter.dispose();
    await Promise.race([closing, second]);
    assert.deepEqual(asked, ['http://127.0.0.1:1/v3/lease/revoke']);
  });

  test('what is being opened ends at once when all is over, with its timer', async () => {
    const watched = gate();
    const deaf = (url, options) => {
      if (!url.endsWith('/watch')) return fetch(url, options);
      watched.pass();
      return new Promise((_, reject) => {
        options.signal.addEventListener('abort', () => reject(options.signal.reason));
      });
    };
    const adapter = adapterOf({ fetch: deaf });
    const failed = rejectsWith(clientOf(adapter, 20_000), 'ERR_WEB_LOCKS_STALE');
    await watched.passed;
    await adapter.dispose();
    await failed;
  });

  test('an endpoint that is away is followed by the next one', async () => {
    const [url] = server.endpoints;
    const a = adapterOf({ endpoints: ['http://127.0.0.1:1', url] });
    await rejectsWith(clientOf(a), 'ERR_WEB_LOCKS_UNREACHABLE');
    const b = await clientOf(a);
    assert.deepEqual(await b.answers(request(fresh())), ['granted']);
  });

  test('a renewal by a leader that was replaced meanwhile is none', async () => {
    const old = async (url, options) => {
      const response = await fetch(url, options);
      if (!url.endsWith('/keepalive')) return response;
      const answer = await response.json();
      answer.result.header.raft_term = '1';
      return new Response(JSON.stringify(answer));
    };
    const a = await client({ fetch: old });
    await assert.rejects(a.renew(), (error) => {
      assert.match(error.message, /new leader/);
      assert.equal(a.adapter.classify(error), 'retry');
      return true;
    });
  });

  test('what comes in one long line is read once, and not anew with each part of it', async () => {
    const result = { header: { revision: '1' }, long: 'x'.repeat(2 ** 24) };
    const line = Buffer.from(`${JSON.stringify({ result })}\n`);
    async function* body() {
      for (let at = 0; at < line.length; at += 2 ** 14) yield line.subarray(at, at + 2 ** 14);
    }
    const streaming = async () => ({ status: 200, text: async () => '', body: body() });
    const link = new Gateway({ endpoints: ['http://etcd'], fetch: streaming }).connect();
    const before = process.cpuUsage();
    const heard = await new Promise((resolve, reject) => link.watch({}, resolve, reject));
    const { user, system } = process.cpuUsage(before);
    assert.equal(heard.long.length, 2 ** 24);
    // It takes a tenth of a second, and else several.
    assert.ok(user + system < 1_500_000, `${user + system} µs`);
  });

  test('who holds what one waits for is told without a read of the queue', async () => {
    let read = 0;
    const counting = async (url, options) => {
      const response = await fetch(url, options);
      if (!url.endsWith('/kv/txn')) return response;
      const text = await response.text();
      read += text.split('"create_revision"').length - 1;
      return { status: response.status, text: () => text };
    };
    const [a, b] = [await client(), await client({ fetch: counting })];
    const name = fresh();
    const held = request(name);
    await a.answers(held);
    await b.answers(...Array.from({ length: 20 }, () => request(name)));
    await b.renew();
    read = 0;
    const told = await b.adapter.query(name, 'held');
    assert.deepEqual(valuesOf(told, 'clientId', 'ref'), [[a.clientId, held.ref]]);
    assert.ok(told[0].token > 0n && told[0].held >= 0);
    assert.ok(read <= 3, `${read} keys were read`);
  });

  test('a watch that is not passed on is told', async () => {
    const held = async (url, options) =>
      url.endsWith('/watch') ? new Promise(() => {}) : fetch(url, options);
    await rejectsWith(client({ fetch: held }), 'ERR_WEB_LOCKS_NO_WATCH');
  });

  describe('what can never serve is told from the first call on, with what is missing', () => {
    const lines = (...all) => `${all.join('\r\n')}\r\n\r\n`;
    const head = (status, ...more) => lines(`HTTP/1.1 ${status}`, 'content-length: 0', ...more);
    const RIGHTS = 'ERR_WEB_LOCKS_RIGHTS';
    const SERVER = 'ERR_WEB_LOCKS_SERVER';
    const GATEWAY = /no JSON gateway of etcd 3\.4 or newer.*--enable-grpc-gateway=false/;
    /** What a server answers to anything, and what is told of that. */
    const ANSWERS = {
      'a page that is not there': [head('404 Not Found'), SERVER, GATEWAY],
      'a method that is not allowed': [head('405 Method Not Allowed'), SERVER, GATEWAY],
      'a redirect': [head('302 Found', 'location: /login'), SERVER, GATEWAY],
      'a page': [lines('HTTP/1.1 200 OK', 'content-length: 6').concat('<html>'), SERVER, GATEWAY],
      'another JSON': [lines('HTTP/1.1 200 OK', 'content-length: 2').concat('{}'), SERVER, GATEWAY],
      'another protocol': ["-ERR unknown command 'POST'\r\n", SERVER, GATEWAY],
      'a proxy that wants a login': [head('401 Unauthorized'), RIGHTS, /in front of etcd.*`fetch`/],
      'a proxy that refuses': [head('403 Forbidden'), RIGHTS, /in front of etcd.*`fetch`/],
      'a proxy that refuses by JSON': [
        lines('HTTP/1.1 403 Forbidden', 'content-length: 20').concat('{"error":{"no":"x"}}'),
        ...[RIGHTS, /in front of etcd.*: {"error":{"no":"x"}}\)$/],
      ],
      'that it wants TLS': [
        lines('HTTP/1.1 400 Bad Request', 'content-length: 22').concat('was sent to HTTPS port'),
        ...[SERVER, GATEWAY],
      ],
      'that it wants TLS, as Go does': [
        lines('HTTP/1.0 400 Bad Request').concat('sent an HTTP request to an HTTPS server'),
        ...[SERVER, GATEWAY],
      ],
    };

    async function isTold(options, code, message) {
      const adapter = adapterOf(options);
      await assert.rejects(clientOf(adapter), (error) => {
        assert.deepEqual([error.code, adapter.classify(error)], [code, 'fatal'], error.message);
        assert.match(error.message, message);
        return true;
      });
      await adapter.dispose();
    }

    // A fetch follows redirects.
    for (const [what, [answer, code, message]] of Object.entries(ANSWERS))
      for (const [how, own] of Object.entries({ http: undefined, fetch: globalThis.fetch }))
        if (what !== 'a redirect' || !own)
          test(`${what}, by ${how}`, async (t) => {
            const other = net.createServer((socket) => {
              socket.on('error', () => {}).once('data', () => socket.end(answer));
            });
            t.after(() => other.close());
            await once(other.listen(0, '127.0.0.1'), 'listening');
            await isTold({ ...at(other.address().port), fetch: own }, code, message);
          });

    test('an etcd without the gateway, and its port for peers', async () => {
      const own = await startEtcd(1, ['--enable-grpc-gateway=false']);
      const [{ peer, port }] = own.members;
      await isTold(at(port), SERVER, GATEWAY);
      await isTold(at(peer), SERVER, GATEWAY);
      await own.stop();
    });

    test('TLS on one side only, or with another authority', async () => {
      const { certFile, keyFile } = await makeCertificate();
      const own = await startEtcd(1, [`--cert-file=${certFile}`, `--key-file=${keyFile}`]);
      const PLAIN = /The URL says http:, but the server speaks https:/;
      const SECURE = /The URL says https:, but the server speaks http:/;
      for (const fetch of [undefined, globalThis.fetch]) {
        await isTold({ ...at(own.port), fetch }, SERVER, PLAIN);
        const endpoints = [`https://127.0.0.1:${server.port}`];
        await isTold({ endpoints, fetch }, SERVER, SECURE);
        await isTold({ endpoints: own.endpoints, fetch }, SERVER, /NODE_EXTRA_CA_CERTS.*self-sign/);
      }
      await own.stop();
    });

    test('a role that lacks a right', async () => {
      const own = await startEtcd();
      const { endpoints } = own;
      await own.call('auth/user/add', { name: 'root', password: 'r' });
      await own.call('auth/role/add', { name: 'root' });
      await own.call('auth/user/grant', { user: 'root', role: 'root' });
      const roles = {
        none: [],
        reads: ['READ', 'web-locks/'],
        some: ['READWRITE', 'web-locks/1/'],
      };
      for (const [name, [permType, prefix]] of Object.entries(roles)) {
        await own.call('auth/user/add', { name, password: 's' });
        await own.call('auth/role/add', { name });
        const end = prefix?.replace(/.$/, '0');
        const perm = { permType, key: base64(prefix ?? ''), range_end: base64(end ?? '') };
        if (permType) await own.call('auth/role/grant', { name, perm });
        await own.call('auth/user/grant', { user: name, role: name });
      }
      await own.call('auth/enable');
      for (const user of Object.keys(roles)) {
        const auth = { user, password: 's' };
        await isTold({ endpoints, auth }, RIGHTS, /read and write all keys that begin with `web-l/);
      }
      await own.stop();
    });
  });

  test('the dispatcher of a fetch brings certificates', { skip: lacks.openssl }, async () => {
    const { cert, certFile, key, keyFile } = await makeCertificate();
    const files = [`--cert-file=${certFile}`, `--key-file=${keyFile}`];
    const own = await startEtcd(1, [
      ...files,
      '--client-cert-auth',
      `--trusted-ca-file=${certFile}`,
    ]);
    const { endpoints } = own;
    const Agent = await undiciAgent();
    const dispatchedBy = (connect) => {
      const dispatcher = new Agent({ connect });
      return (url, options) => fetch(url, { ...options, dispatcher });
    };
    await assert.rejects(client({ endpoints }), {
      code: 'ERR_WEB_LOCKS_SERVER',
      message: /self-signed certificate/,
    });
    const anonymous = client({ endpoints, fetch: dispatchedBy({ ca: cert }) });
    await rejectsWith(anonymous, 'ERR_WEB_LOCKS_UNREACHABLE');
    const known = { endpoints, fetch: dispatchedBy({ ca: cert, cert, key }) };
    const [a, b] = [await client(known), await client(known)];
    const [one, two] = [request('name'), request('name')];
    assert.deepEqual(await a.answers(one), ['granted']);
    assert.deepEqual(await b.answers(two), ['queued']);
    await a.answers(end(one));
    assert.equal((await b.next()).granted, two.ref);
  });

  test('a bucket outlives a login that is wanted for a while', async () => {
    const own = await startEtcd();
    const { endpoints } = own;
    await own.call('auth/user/add', { name: 'root', password: 'r' });
    await own.call('auth/role/add', { name: 'root' });
    await own.call('auth/user/grant', { user: 'root', role: 'root' });
    const serve = async () => {
      const body = JSON.stringify({ name: 'root', password: 'r' });
      const said = await fetch(`${endpoints[0]}/v3/auth/authenticate`, { method: 'POST', body });
      const { token } = await said.json();
      const headers = { authorization: token };
      await fetch(`${endpoints[0]}/v3/auth/disable`, { method: 'POST', body: '{}', headers });
    };
    const bucket = openBucket('login', { endpoints, ttl: refusal.TTL });
    const refuse = () => own.call('auth/enable');
    await refusal.outlivesRefusal(bucket, 'ERR_WEB_LOCKS_RIGHTS', refuse, serve);
  });

  test('user and password are needed where etcd wants them, and a token that is over is renewed', async () => {
    const own = await startEtcd();
    const { endpoints } = own;
    const range = { key: base64('web-locks/'), range_end: base64('web-locks0') };
    await own.call('auth/user/add', { name: 'root', password: 'r' });
    await own.call('auth/role/add', { name: 'root' });
    await own.call('auth/user/grant', { user: 'root', role: 'root' });
    await own.call('auth/user/add', { name: 'shop', password: 's' });
    await own.call('auth/role/add', { name: 'locks' });
    const perm = { permType: 'READWRITE', ...range };
    await own.call('auth/role/grant', { name: 'locks', perm });
    await own.call('auth/user/grant', { user: 'shop', role: 'locks' });
    const early = await client({ endpoints, auth: { user: 'shop', password: 's' } });
    await own.call('auth/enable');
    assert.deepEqual(await early.answers(request(fresh())), ['granted']);
    await rejectsWith(client({ endpoints }), 'ERR_WEB_LOCKS_RIGHTS');
    const wrong = { user: 'shop', password: 'x' };
    await rejectsWith(client({ endpoints, auth: wrong }), 'ERR_WEB_LOCKS_RIGHTS');
    const tokens = new Set();
    /** The server does not know the first token any more. */
    const forget = (url, options) => {
      const { authorization } = options.headers;
      if (authorization) tokens.add(authorization);
      const isFirst = authorization && tokens.size === 1 && url.endsWith('/txn');
      if (!isFirst) return fetch(url, options);
      const headers = { ...options.headers, authorization: 'over' };
      return fetch(url, { ...options, headers });
    };
    const a = await client({ endpoints, auth: { user: 'shop', password: 's' }, fetch: forget });
    const op = request(fresh());
    assert.deepEqual(await a.answers(op), ['granted']);
    assert.equal(tokens.size, 2);
    assert.deepEqual(await a.answers(end(op)), ['ended']);
    await a.adapter.close(a.session);
  });
});
