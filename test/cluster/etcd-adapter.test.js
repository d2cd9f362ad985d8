// slow: 58; long; waits; needs: etcd

'use strict';

/** Tests the adapter of etcd against the contract, and its own duties, at real servers. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');
const { setTimeout: wait } = require('node:timers/promises');

const { EtcdAdapter } = require('../../lib/cluster/engines/etcd/adapter.js');
const { leaseKey } = require('../../lib/cluster/engines/etcd/keys.js');
const { deferred, valuesOf } = require('../helpers/locks.js');
const { TTL, clientOf, contend, contract, contractOfClients } = require('./contract.js');
const { disposeAfterEach, done, end, fresh } = require('./contract.js');
const { rejectsWith, request, theft, units } = require('./contract.js');
const { lacks, makeCertificate, startEtcd, stopAll } = require('./servers.js');
const { tellStories } = require('./stories.js');

/** @type {Awaited<ReturnType<typeof startEtcd>>} */
let server;
/** Stories make this server forget revisions, which other tests may need. */
let forgetful;

const at = (port) => ({ endpoints: [`http://127.0.0.1:${port}`] });

const adapterOf = ({ bucket = 'bucket', guards, ...options } = {}) =>
  new EtcdAdapter(bucket, { endpoints: server.endpoints, ...options }, guards);

const client = (options = {}, ttl = TTL, seen = undefined) =>
  clientOf(adapterOf(options), ttl, seen);

const base64 = (text) => Buffer.from(text).toString('base64');
const textOf = (base) => Buffer.from(base, 'base64').toString();

const keyPart = (text) =>
  text.replace(/[^\w.-]/g, (unit) => `%${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

const put = (key, value, lease = 0, its = server) =>
  its.call('kv/put', { key: base64(key), value: base64(value), lease });
const deleteKey = (key) => server.call('kv/deleterange', { key: base64(key) });
const stepsKeyOf = ({ session }) => `web-locks/1-steps/bucket/${leaseKey(session)}`;

/** Makes etcd forget all revisions but the last. */
async function compact(its = server) {
  const { header } = await put('other', '', 0, its);
  await its.call('kv/compaction', { revision: header.revision, physical: true });
}

/** Ends a lease, as time would. */
const expire = (session, its = server) => its.call('lease/revoke', { ID: session });

/** Counts the keys of a session. */
const left = async (session) =>
  (await server.call('lease/timetolive', { ID: session, keys: true })).keys?.length ?? 0;

async function endQuarantine({ bucket = 'bucket' } = {}, its = server) {
  const key = base64(`web-locks/1/${keyPart(bucket)}/w/quarantine`);
  const { kvs: [quarantine] = [] } = await its.call('kv/range', { key });
  if (quarantine) await its.call('lease/revoke', { ID: quarantine.lease });
}

/** Deletes the key of the only request that a session has for a name. */
async function remove({ session }, { name }) {
  const prefix = `web-locks/1/bucket/n/${keyPart(name)}/`;
  const { keys } = await server.call('lease/timetolive', { ID: session, keys: true });
  const own = keys.filter((key) => textOf(key).startsWith(prefix));
  assert.equal(own.length, 1);
  await server.call('kv/deleterange', { key: own[0] });
}

/**
 * Rejects if a request has two keys, if the limits of a name are not those of its requests, or if
 * two marks have the same lease, so that they would end together.
 */
async function verify(bucket, its) {
  const [from, to] = ['/', '0'].map((last) => `web-locks/1-done/${keyPart(bucket)}${last}`);
  const marks = await its.call('kv/range', { key: base64(from), range_end: base64(to) });
  const leases = valuesOf(marks.kvs ?? [], 'lease');
  assert.equal(new Set(leases).size, leases.length, 'a lease of two marks');
  const prefix = `web-locks/1/${keyPart(bucket)}/n`;
  const range = { key: base64(`${prefix}/`), range_end: base64(`${prefix}0`) };
  const { kvs = [] } = await its.call('kv/range', range);
  const partsOf = ({ key, value = '' }) => [...textOf(key).split('/').slice(4), textOf(value)];
  const all = kvs.map(partsOf);
  const own = ([name, ...more]) => `${name} ${more.at(-2)}`;
  const [requests, limits] = [false, true].map((is) =>
    all.filter(([, kind]) => (kind === 'u') === is),
  );
  assert.equal(new Set(requests.map(own)).size, requests.length);
  const shared = requests.filter((one) => one.at(-1).includes('"mode":"shared"'));
  assert.deepEqual(limits.map(own).sort(), shared.map(own).sort());
}

class Call {
  constructor(url, options) {
    Object.assign(this, { url, options });
    this.path = url.slice(url.indexOf('/v3/') + 4);
    this.body = JSON.parse(options.body);
    this.success = this.body.success ?? [];
  }

  /** Whether this is a transaction of a step, unless that has only ends, which may be repeated. */
  get isStep() {
    const isOfSession = JSON.stringify(this.body.compare)?.includes('"version"');
    const writes = JSON.stringify(this.success);
    return isOfSession === true && writes.includes(`"key":"${base64('web-locks/1-steps/')}`);
  }

  /** Whether this only deletes requests. */
  get isDeletion() {
    return this.success.length > 0 && this.success.every((one) => one.request_delete_range);
  }

  /** Whether this grants what a session that ended has made free. */
  get isGrant() {
    return !this.isStep && this.success.some((one) => one.request_delete_range);
  }

  get isRead() {
    return this.success.length > 0 && this.success.every((one) => one.request_range);
  }

  /** @returns the first key of a watch; '' for other calls */
  get watched() {
    return this.path === 'watch' ? textOf(this.body.create_request.key) : '';
  }

  /** Whether this is the watch of the ends of sessions. */
  get isEndsWatch() {
    return this.watched.startsWith('web-locks/1/bucket/s/');
  }

  /** Whether this is the watch of a session's events. */
  get isNewsWatch() {
    return this.watched.startsWith('web-locks/1/bucket/m/');
  }

  send(more = {}) {
    return fetch(this.url, { ...this.options, ...more });
  }

  /** Reads the text of the answer, even if the connection is replaced meanwhile. */
  async answer() {
    const response = await this.send({ signal: undefined });
    return response.text();
  }
}

/** Makes a `fetch` whose calls `handle` answers. */
const fetchBy = (handle) => async (url, options) => handle(new Call(url, options));

const lost = () => {
  throw new TypeError('fetch failed');
};

const refusal = () => new Response('{"error":"no","message":"no","code":3}', { status: 400 });

const keysIn = (text) => [...text.matchAll(/"key":"([^"]*)"/g)].map(([, key]) => textOf(key));

/** Passes the answer to a watch on, without the parts that `look` rejects, maybe after a while. */
function streamOf(response, look) {
  async function* body() {
    for await (const chunk of response.body) {
      if (await look(String(Buffer.from(chunk)))) yield chunk;
    }
  }
  return { status: response.status, text: () => response.text(), body: body() };
}

/** Makes a `fetch` that records the open watches, and the keys of their events. */
function fetchListening() {
  const open = new Set();
  const heard = [];
  const listening = fetchBy(async (call) => {
    if (call.path !== 'watch') return call.send();
    open.add(call.watched);
    call.options.signal.addEventListener('abort', () => open.delete(call.watched));
    return streamOf(await call.send(), (text) => heard.push(...keysIn(text)) || true);
  });
  return { listening, open, heard };
}

/** Makes a `fetch` that counts its transactions: steps, and others. */
function fetchCounting() {
  const counts = { steps: 0, others: 0 };
  const counting = fetchBy((call) => {
    if (call.path === 'kv/txn') counts[call.isStep ? 'steps' : 'others']++;
    return call.send();
  });
  return { counting, counts };
}

/** The last changes of each session of a story. */
const copies = new Map();

/** Deletes the keys that steps write. Late copies are dropped, as only those keys refuse them. */
async function deleteStepsKeys(bucket, its) {
  copies.clear();
  const prefix = `web-locks/1-steps/${keyPart(bucket)}`;
  const [key, range_end] = [`${prefix}/`, `${prefix}0`];
  await its.call('kv/deleterange', { key: base64(key), range_end: base64(range_end) });
}

/**
 * Makes a client whose next step may meet something else: before its first or second attempt,
 * before its answer, which may get lost, or before the next read. One of its calls may get lost.
 * Each of its last two changes arrives again and again, and each of its watches begins and reports
 * late by another time.
 */
async function clientOfStories(bucket, { endpoints }, ttl) {
  let [next, attempts] = [{}, 0];
  /** The requests that have not ended, and how many there were with each request. */
  const [open, needed] = [new Set(), new Map()];
  let sent = '';
  const self = {};
  let watches = 0;
  const faulty = fetchBy(async (call) => {
    if (call.path === 'watch') {
      const delay = ++watches % 3;
      await wait(20 * delay);
      return streamOf(await call.send(), () => wait(next.meetAtRead ? 50 : delay, true));
    }
    if (next.lostAt > 0 && --next.lostAt === 0) {
      if (next.isDone) await call.answer();
      return lost();
    }
    if (call.isRead && next.meetAtRead) await next.meetAtRead();
    if (call.isStep) sent += call.options.body;
    if (call.isStep && next.refusesAt > 0 && --next.refusesAt === 0) return refusal();
    if (call.isStep || call.isDeletion) {
      const last = copies.get(self) ?? [];
      for (const copy of last) await copy.answer();
      copies.set(self, [...last.slice(-1), call]);
    }
    if (call.isStep) attempts++;
    if (!call.isStep || next.lostAt > 0 || next.refusesAt > 0) return call.send();
    const what = next;
    const { meet, isBefore, isLost, isSecond } = what;
    next = {};
    if (isBefore && isLost) return lost();
    if (isBefore && !isSecond) await meet();
    if (!isSecond && (isBefore || !(meet || isLost))) return call.send();
    const text = await call.answer();
    if (!JSON.parse(text).succeeded) {
      // A condition of this attempt did not hold, so it changed nothing.
      next = { ...what, isSecond: false };
      return new Response(text);
    }
    if (isSecond) return new Response(text);
    await meet?.();
    return isLost ? lost() : new Response(text);
  });
  // Each session that waits has a watch of the ends of sessions.
  const made = await client({ bucket, endpoints, fetch: faulty, guards: 1e9 }, ttl);
  const ofOwn = new RegExp(`/${leaseKey(made.session)}-(\\d+)$`);
  /** Sends a step, whose new requests may have no greater slots than the session needs for them. */
  const step = async (ops, ...more) => {
    for (const { stolen } of made.told) open.delete(stolen);
    const asked = ops.filter(({ mode }) => mode);
    for (const { ref } of asked) needed.set(ref, needed.get(ref) ?? open.size + asked.length);
    sent = '';
    const answers = await made.step(ops, ...more);
    for (const [i, { kind, ref }] of ops.entries()) {
      if (['granted', 'queued'].includes(answers[i].code)) open.add(ref);
      if (kind === 'end') open.delete(ref);
    }
    for (const [, key, value] of sent.matchAll(/"key":"([^"]+)","value":"([^"]+)"/g)) {
      const { ref } = JSON.parse(textOf(value));
      const [, slot] = ofOwn.exec(textOf(key)) ?? [];
      if (slot && asked.some((op) => op.ref === ref)) assert.ok(Number(slot) < needed.get(ref));
    }
    return answers;
  };
  /** Returns how many attempts at steps the client has made since the last call. */
  const meets = (what = {}) => {
    const count = attempts;
    [next, attempts] = [what, 0];
    return count;
  };
  return { ...made, meets, step };
}

/** Asserts that a renewal is not answered while several calls of another session are. */
async function isUnanswered(renewal, { adapter }) {
  let isRenewed = false;
  const see = () => {
    isRenewed = true;
  };
  renewal.then(see, () => {});
  for (let round = 0; round < 10; round++) await adapter.query();
  assert.ok(!isRenewed);
}

const codesOf = (answers) => valuesOf(answers, 'code');
const DEAD = 'ERR_WEB_LOCKS_SESSION_DEAD';

describe('etcd', { skip: lacks.etcd }, () => {
  // Answers of an open session do not keep a process alive, but this does.
  const alive = setInterval(() => {}, 60_000);

  before(async () => {
    [server, forgetful] = [await startEtcd(), await startEtcd()];
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
    endQuarantine,
    expire: (session) => expire(session),
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
    epochsEndSessions: true,
    keepsNoLimit: true,
    losesNoHint: true,
    tellsNoStep: true,
    // The lease of a mark begins before the step.
    shortestKeep: 60_000,
    tellsOfDead: true,
  };
  contractOfClients(engine);
  contract(engine);
  tellStories((lane) => {
    const its = lane === 0 ? forgetful : server;
    return {
      ...engine,
      client: ({ bucket = '' } = {}, ttl) => clientOfStories(`stories ${lane}${bucket}`, its, ttl),
      keeper: () => adapterOf({ bucket: `stories ${lane}`, endpoints: its.endpoints }),
      endQuarantine: () => endQuarantine({ bucket: `stories ${lane}` }, its),
      expire: (session) => expire(session, its),
      verify: () => verify(`stories ${lane}`, its),
      forget: async () => its === forgetful && compact(its),
      spoil: () => deleteStepsKeys(`stories ${lane}`, its),
      meets: true,
    };
  });

  describe('by the fetch of Node.js', () => {
    const { 'that it goes on by another protocol': _, ...lastWords } = engine.lastWords;
    contractOfClients({
      ...engine,
      client: (options = {}, ...rest) => client({ fetch: globalThis.fetch, ...options }, ...rest),
      through: (port) => ({ ...at(port), fetch: globalThis.fetch }),
      lastWords,
    });
  });

  describe('a step', () => {
    test('of a hundred operations is one transaction, of whatever kind', async () => {
      const { counting, counts } = fetchCounting();
      const a = await client({ fetch: counting });
      const names = Array.from({ length: 100 }, () => fresh());
      for (const make of [
        (name) => request(name),
        (name) => request(name, { kind: 'ifAvailable' }),
        (name) => request(name, { kind: 'ifAvailable', group: 1 }),
        (name) => theft(name),
        (name) => units(name, 2, 1, { kind: 'ifAvailable' }),
      ]) {
        counts.steps = 0;
        const ops = names.map(make);
        assert.deepEqual(new Set(await a.answers(...ops)), new Set(['granted']));
        assert.equal(counts.steps, 1);
        await a.answers(...ops.map(end));
      }
      counts.steps = 0;
      const attempts = names.map(() => request(names[0], { kind: 'ifAvailable' }));
      const [first, ...rest] = await a.answers(...attempts);
      assert.deepEqual([first, new Set(rest)], ['granted', new Set(['unavailable'])]);
      assert.equal(counts.steps, 1, 'of one name, too');
    });

    test('of a hundred names is one transaction also where others came first', async () => {
      const b = await client();
      const names = Array.from({ length: 100 }, () => fresh());
      const other = request(names[0]);
      await b.answers(other);
      const meeting = fetchBy(async (call) => {
        const response = await call.send();
        if (call.isStep) await b.answers(end(other));
        return response;
      });
      const a = await client({ fetch: meeting });
      const group = names.map((name) => request(name, { kind: 'ifAvailable', group: 1 }));
      assert.deepEqual(new Set(await a.answers(...group)), new Set(['granted']));
    });

    test('whose session dies between its transactions may have done something', async () => {
      let sent = 0;
      const dying = fetchBy(async (call) => {
        if (call.isStep && ++sent === 2) await expire(a.session);
        return call.send();
      });
      const a = await client({ fetch: dying });
      const name = fresh();
      const step = a.step([request(name), theft(name)]);
      await assert.rejects(step, (error) => a.adapter.classify(error) === 'retry');
      await rejectsWith(a.hello(), DEAD);
    });

    test('fails only in a name that is too long, and its group', async () => {
      const a = await client();
      const group = Array.from({ length: 200 }, () => request(fresh(), { group: 1 }));
      const long = 'x'.repeat(1_200_000);
      const [single, alone] = [request(fresh()), request(long)];
      const all = [fresh(), long].map((name) => request(name, { kind: 'ifAvailable', group: 2 }));
      const answers = await a.step([...group, single, alone, ...all]);
      assert.deepEqual(codesOf(answers.slice(-4)), ['granted', 'failed', 'unavailable', 'failed']);
      assert.deepEqual(
        new Set(answers.filter(({ code }) => code === 'failed').map(({ error }) => error.code)),
        new Set(['ERR_WEB_LOCKS_TOO_LARGE']),
      );
      assert.deepEqual(
        [...(await a.renew()).mine.keys()],
        [...group, single].map(({ ref }) => ref),
      );
    });

    test('that comes again extends the lease of its mark', async () => {
      let marked;
      const kept = [];
      const losing = fetchBy((call) => {
        if (call.path === 'lease/keepalive') kept.push(String(call.body.ID));
        if (call.path === 'lease/grant' && call.body.ID) marked ??= String(call.body.ID);
        else if (call.isStep && marked && kept.length === 0 && !isAgain) return lost();
        return call.send();
      });
      let isAgain = false;
      const a = await client({ fetch: losing });
      const op = request(fresh());
      await a.answers(op);
      await assert.rejects(a.step([done(op)]));
      isAgain = true;
      await a.hello();
      assert.deepEqual(codesOf(await a.again([done(op)])), ['ended']);
      assert.ok(kept.includes(marked));
    });
  });

  describe('watches', () => {
    test('are none of names that a session does not wait for', async () => {
      const { listening, open, heard } = fetchListening();
      const idle = await client({ fetch: listening });
      const { counting, counts } = fetchCounting();
      const [a, b] = [await client({ fetch: counting }), await client()];
      Object.assign(counts, { steps: 0, others: 0 });
      const { name, handOver } = await contend(a, b);
      assert.deepEqual(counts, { steps: 1, others: 0 }, 'a call');
      await handOver();
      await b.answers(theft(name));
      await idle.renew();
      assert.equal(open.size, 1);
      assert.deepEqual(
        new Set(heard),
        new Set([`web-locks/1/bucket/m/${leaseKey(idle.session)}/sync`]),
      );
    });

    test('of the ends of sessions are had by some of many waiters', async () => {
      const { listening, open } = fetchListening();
      const name = fresh();
      const count = 40;
      for (let i = 0; i < count; i++)
        await (await client({ fetch: listening })).answers(request(name));
      const ends = [...open].filter((key) => key.startsWith('web-locks/1/bucket/s/'));
      assert.equal(open.size, count + 1);
      assert.equal(ends.length, 1);
    });

    test('of a session that waits behind many hear nothing of them', async () => {
      const { listening, heard } = fetchListening();
      const all = await Promise.all(Array.from({ length: 20 }, () => client()));
      const last = await client({ guards: 0, fetch: listening });
      const name = fresh();
      const ops = [...all, last].map(() => request(name));
      for (const [i, one] of [...all, last].entries()) await one.answers(ops[i]);
      await last.renew();
      heard.length = 0;
      for (const [i, one] of all.entries()) {
        await one.answers(end(ops[i]));
        assert.equal((await (all[i + 1] ?? last).next()).granted, ops[i + 1].ref);
      }
      assert.deepEqual(heard, [`web-locks/1/bucket/m/${leaseKey(last.session)}/000000`]);
    });

    test('grant what comes ahead of a waiter while that one is granted the lock', async () => {
      let meet;
      const meeting = fetchBy(async (call) => {
        if (!call.isGrant) return call.send();
        await meet?.();
        meet = undefined;
        return call.send();
      });
      const a = await client();
      const [b, c] = [await client({ fetch: meeting }), await client({ guards: 0 })];
      const { name } = await contend(a, b);
      // By then, it has read the queue as it was when its watch began.
      await b.renew();
      const ahead = request(name, { priority: 1 });
      meet = () => c.answers(ahead);
      await expire(a.session);
      assert.equal((await c.next()).granted, ahead.ref);
    });

    test('of many names are a few streams, which end when the session waits no more', async () => {
      const { listening, open } = fetchListening();
      const [a, b] = [await client(), await client({ fetch: listening })];
      let all = [];
      // The second time, the session waits for many names again.
      for (let time = 0; time < 2; time++) {
        all = [];
        for (let i = 0; i < 12; i++) {
          all.push(await contend(a, b));
          assert.equal(open.size, 2);
        }
        await b.renew();
        for (const { handOver } of all) await handOver();
        for (let round = 0; round < 3; round++) await b.renew();
        assert.equal(open.size, 1);
      }
      const [{ name, waiting }] = all;
      await b.answers(end(waiting));
      const { handOver } = await contend(a, b, name);
      await handOver();
    });

    const never = () => new Promise(() => {});
    test('a renewal makes up for a watch that does not begin, or a refused grant', async () => {
      let refusals = 0;
      const harmed = fetchBy((call) => {
        if (call.isEndsWatch) return never();
        return call.isGrant && refusals++ === 0 ? refusal() : call.send();
      });
      const [a, b] = [await client(), await client({ fetch: harmed })];
      const { waiting } = await contend(a, b);
      await expire(a.session);
      await assert.rejects(b.renew());
      await b.renew();
      assert.ok((await b.renew()).mine.get(waiting.ref) > 0n);
    });

    test('a session whose event watch is silent renews only when it connects again', async () => {
      let isHarmed = false;
      const harmed = fetchBy(async (call) =>
        call.isNewsWatch ? streamOf(await call.send(), () => !isHarmed) : call.send(),
      );
      const [a, b] = [await client(), await client({ fetch: harmed })];
      const { held, waiting } = await contend(a, b);
      isHarmed = true;
      await a.answers(end(held));
      const renewal = b.renew();
      await isUnanswered(renewal, a);
      isHarmed = false;
      await b.hello();
      await renewal.catch(() => {});
      assert.equal((await b.next()).granted, waiting.ref);
    });

    test('a session opens only when its own watch has begun', async () => {
      const deaf = fetchBy((call) => (call.path === 'watch' ? never() : call.send()));
      await rejectsWith(client({ fetch: deaf }, 8_000), 'ERR_WEB_LOCKS_NO_WATCH');
    });
  });

  describe('queries', () => {
    test('are made once more if etcd forgets meanwhile what they read', async () => {
      let isForgetting = false;
      const other = await client();
      const forgetting = fetchBy(async (call) => {
        const text = await call.send();
        if (!isForgetting || !call.isRead) return text;
        isForgetting = false;
        await other.answers(request(fresh()));
        await compact();
        return text;
      });
      const a = await client({ bucket: 'forgotten', fetch: forgetting });
      await a.answers(request('name'));
      isForgetting = true;
      assert.equal((await a.adapter.query()).length, 1);
      assert.equal(isForgetting, false);
    });

    test('and renewals read an answer of the past again', async () => {
      const isReadAgain = deferred();
      let since;
      const past = fetchBy(async (call) => {
        const response = await call.send();
        if (!since || !call.isRead) return response;
        const answer = await response.json();
        // A read in the order of the writes has a failure branch, too.
        if (call.body.failure?.length) isReadAgain.resolve();
        else {
          answer.header.revision = since;
          for (const one of answer.responses) one.response_range = {};
        }
        return new Response(JSON.stringify(answer));
      });
      const [a, b] = [await client(), await client({ fetch: past })];
      const job = request(fresh());
      await a.answers(job);
      await a.answers(done(job));
      // The session has seen nothing newer than that answer, which may come from another member.
      const { name, waiting, handOver } = await contend(a, b);
      since = '1';
      assert.equal(await b.adapter.marked(job.name), true);
      assert.equal((await b.adapter.query(name)).length, 2);
      await b.renew();
      await isReadAgain.promise;
      await b.hello();
      assert.equal((await b.renew()).mine.get(waiting.ref), 0n);
      await handOver();
      // The answer of the past lacks the session, which the refusal of a step reads.
      await deleteKey(stepsKeyOf(b));
      assert.deepEqual(await b.answers(request(fresh())), ['granted']);
      // Only a watch has reported the end of this session.
      const last = await contend(a, b);
      since = (await put('other', '')).header.revision;
      await expire(a.session);
      assert.equal((await b.next()).granted, last.waiting.ref);
    });
  });

  describe('a renewal', () => {
    test('compares thousands of locks by one more call', async () => {
      const calls = [];
      const counting = fetchBy((call) => {
        calls.push(call.path);
        return call.send();
      });
      const a = await client({ bucket: 'thousands', fetch: counting });
      // A query reads them in several pages.
      const held = Array.from({ length: 5_100 }, () => request(fresh()));
      for (let i = 0; i < held.length; i += 100) await a.answers(...held.slice(i, i + 100));
      assert.equal(new Set(valuesOf(await a.adapter.query(), 'ref')).size, held.length);
      calls.length = 0;
      assert.equal((await a.renew()).mine.size, held.length);
      assert.deepEqual(calls.sort(), ['kv/txn', 'lease/keepalive', 'lease/timetolive']);
      await server.call('kv/deleterange', {
        key: base64('web-locks/1/thousands/n/'),
        range_end: base64('web-locks/1/thousands/n0'),
      });
      assert.equal((await a.renew()).mine.size, 0);
    });

    test('by a leader that was replaced meanwhile extends no lease', async () => {
      const old = fetchBy(async (call) => {
        const response = await call.send();
        if (call.path !== 'lease/keepalive') return response;
        const answer = await response.json();
        answer.result.header.raft_term = '1';
        return new Response(JSON.stringify(answer));
      });
      const a = await client({ fetch: old });
      await assert.rejects(a.renew(), (error) => {
        assert.match(error.message, /new leader/);
        return a.adapter.classify(error) === 'retry';
      });
      const keeper = adapterOf({ fetch: old });
      const extended = keeper.extend(a.adapter.keeperTicket(), a.seen);
      await assert.rejects(extended, /new leader/);
      await keeper.dispose();
    });
  });

  describe('epochs', () => {
    for (const [what, key] of [
      ['has the layout of another version', 'web-locks/1-life/BUCKET'],
      ['has a session of an older version', 'web-locks/1/BUCKET/s/LEASE'],
      ['has a sync key of an older version', 'web-locks/1/BUCKET/m/LEASE'],
      ['has a request of an older version', 'web-locks/1/BUCKET/q/name/b/LEASE-0000000000000001'],
    ])
      test(`a bucket is refused that ${what}`, async () => {
        const { ID } = await server.call('lease/grant', { TTL: 60 });
        const its = key.replace('BUCKET', `old-${ID}`).replace('LEASE', leaseKey(ID));
        await put(its, JSON.stringify({ id: 'x', offset: '0', known: [] }), ID);
        const adapter = adapterOf({ bucket: `old-${ID}` });
        await assert.rejects(clientOf(adapter), (error) => {
          assert.equal(error.code, 'ERR_WEB_LOCKS_BUCKET');
          assert.match(error.message, /all clients/);
          return adapter.classify(error) === 'fatal';
        });
      });

    test('a session is dead if its epoch is deleted', async () => {
      const bucket = 'killed';
      const a = await client({ bucket });
      await a.answers(request('name'));
      await deleteKey(`web-locks/1-life/${bucket}`);
      await rejectsWith(a.renew(), DEAD);
      await rejectsWith(client({ bucket }), 'ERR_WEB_LOCKS_BUCKET');
      await a.adapter.close(a.session);
      await client({ bucket });
    });

    test('a quarantine lasts from when it has begun, however long that took', async () => {
      const bucket = 'slow';
      const a = await client({ bucket });
      const kept = [];
      let lease;
      const watched = fetchBy((call) => {
        if (call.path === 'lease/keepalive') kept.push(String(call.body.ID));
        // This call ends the sessions of the epoch before.
        if (call.success.some((one) => one.request_delete_range))
          lease = String(call.success.find((one) => one.request_put?.lease).request_put.lease);
        return call.send();
      });
      const seen = { life: 'x/y', token: 5n };
      const b = await client({ bucket, fetch: watched }, TTL, seen);
      assert.ok((await b.renew()).grantsIn > 0);
      assert.ok(kept.includes(lease));
      assert.equal((await a.renew()).alive, false);
    });

    test('a quarantine tells how long it lasts until it is over', async () => {
      const a = await client({ bucket: 'short' }, 2_000, { life: 'x/y', token: 0n });
      for (let left = 2_000; left > 0; ) {
        const { grantsIn } = await a.renew();
        assert.ok(grantsIn <= left, `${grantsIn} ms`);
        left = grantsIn;
      }
    });

    for (const [how, tell] of [
      ['renews', ({ adapter, seen }) => adapter.renew(seen)],
      ['opens another session', ({ adapter, seen }) => clientOf(adapter, TTL, seen)],
      ['connects again', (a) => rejectsWith(a.hello(), DEAD)],
    ])
      test(`R5: tokens exceed those of an earlier etcd when its session ${how}`, async () => {
        const bucket = fresh('gone');
        // An etcd that is ahead answers the step: it has granted all earlier tokens to others.
        const ahead = fetchBy(async (call) => {
          const response = await call.send();
          if (!call.isStep) return response;
          const answer = await response.json();
          answer.header.revision = '3000000000';
          return new Response(JSON.stringify(answer));
        });
        const a = await client({ bucket, fetch: ahead });
        await a.answers(request('name'));
        await tell(a);
        const key = base64(`web-locks/1-life/${keyPart(bucket)}`);
        const { kvs } = await server.call('kv/range', { key });
        assert.ok(JSON.parse(textOf(kvs[0].value)).added > 3e9);
      });

    for (const what of ['wiped', 'restored'])
      test(`an etcd that was ${what} grants nothing until all earlier locks are over`, async () => {
        const own = await startEtcd();
        const { endpoints, members } = own;
        const folder = path.join(members[0].folder, 'data');
        const copy = path.join(members[0].folder, 'copy');
        const a = await client({ endpoints });
        await own.stop('SIGTERM');
        execFileSync('cp', ['-a', folder, copy]);
        await own.start();
        await a.hello();
        const other = await client({ endpoints });
        const name = fresh();
        let held = request(name);
        for (let round = 0; round < 20; round++) {
          await other.answers(end(held));
          held = request(name);
          await other.answers(held);
        }
        const token = (await other.renew()).mine.get(held.ref);
        const { life } = await a.renew();
        await own.stop();
        fs.rmSync(folder, { recursive: true });
        if (what === 'restored') fs.renameSync(copy, folder);
        await own.start();
        const b = await client({ endpoints });
        await rejectsWith(a.hello(), DEAD);
        // A session of the restored server reports what it has seen, though it held nothing.
        const seen = what === 'wiped' ? { life, token } : undefined;
        const next = await client({ endpoints }, TTL, seen);
        assert.ok(next.grantsIn > 0);
        assert.ok((await next.renew()).grantsIn > 0);
        await rejectsWith(b.step([request(name)]), DEAD);
        const c = await client({ endpoints });
        const steal = theft(name);
        const ops = [request(fresh(), { kind: 'ifAvailable' }), request(name), steal];
        assert.deepEqual(await c.answers(...ops), ['unavailable', 'queued', 'queued']);
        await endQuarantine({}, own);
        const event = await c.next();
        assert.equal(event.granted, steal.ref);
        assert.ok(event.token > token);
        assert.equal((await c.renew()).grantsIn, 0);
        assert.equal((await client({ endpoints })).grantsIn, 0);
        await own.stop();
      });
  });

  describe('calls', () => {
    test('grant leases of whole seconds, of which none is shorter than wanted', async () => {
      const granted = [];
      const watched = fetchBy((call) => {
        if (call.path === 'lease/grant') granted.push(call.body.TTL);
        return call.send();
      });
      const a = await client({ bucket: 'seconds', fetch: watched }, 60_400);
      const job = request('name');
      for (const keep of [1, 999, 1000, 1001, 1499, 2501]) {
        await a.answers(job);
        await a.answers(done(job, keep));
        job.ref = request('name').ref;
      }
      assert.deepEqual(granted, ['61', '1', '1', '1', '2', '2', '3']);
    });

    const breaks = [
      () => {
        throw new TypeError('not a promise');
      },
      async () => lost(),
      async () => undefined,
      async () => new Response('{}'),
      async () => new Response('null'),
      async () => new Response('<html>'),
      async () => ({ status: 200, text: () => Promise.reject(new TypeError('terminated')) }),
      async () => new Response('no', { status: 502 }),
    ];
    test('are made again after what goes wrong in a fetch, and not before it', async () => {
      for (const broken of breaks) {
        let isBroken = false;
        const a = await client({ fetch: (...all) => (isBroken ? broken() : fetch(...all)) });
        isBroken = true;
        for (const call of [() => a.step([request(fresh())]), a.renew, a.hello])
          await assert.rejects(call(), (error) => a.adapter.classify(error) === 'retry');
        isBroken = false;
        await a.hello();
      }
      const a = await client();
      assert.equal(a.adapter.classify(new TypeError('a defect')), 'local');
      const cyclic = request(fresh());
      cyclic.label = { toJSON: () => cyclic.nothing.at(0) };
      await assert.rejects(a.step([cyclic]), (error) => a.adapter.classify(error) === 'local');
    });

    /** The call is never answered, and rejects when it is aborted. */
    const silent = ({ options: { signal } }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });

    test('that open a session end once the adapter is disposed of', async () => {
      const watched = deferred();
      const deaf = fetchBy((call) => {
        if (call.path !== 'watch') return call.send();
        watched.resolve();
        return silent(call);
      });
      const adapter = adapterOf({ fetch: deaf });
      const failed = rejectsWith(clientOf(adapter), 'ERR_WEB_LOCKS_STALE');
      await watched.promise;
      await adapter.dispose();
      await failed;
    });

    test('go to the next endpoint if one cannot be reached', async () => {
      const adapter = adapterOf({ endpoints: ['http://127.0.0.1:1', ...server.endpoints] });
      await rejectsWith(clientOf(adapter), 'ERR_WEB_LOCKS_UNREACHABLE');
      const a = await clientOf(adapter);
      assert.deepEqual(await a.answers(request(fresh())), ['granted']);
      await rejectsWith(a.hello(), 'ERR_WEB_LOCKS_UNREACHABLE');
      await adapter.close(a.session);
      assert.equal(await left(a.session), 0);
    });
  });

  describe('what can never serve is refused at the first call, with what is missing', () => {
    const lines = (...all) => `${all.join('\r\n')}\r\n\r\n`;
    const head = (status, ...more) => lines(`HTTP/1.1 ${status}`, 'content-length: 0', ...more);
    const body = (status, text) =>
      lines(`HTTP/1.1 ${status}`, `content-length: ${text.length}`).concat(text);
    const RIGHTS = 'ERR_WEB_LOCKS_RIGHTS';
    const SERVER = 'ERR_WEB_LOCKS_SERVER';
    const GATEWAY = /no JSON gateway of etcd 3\.4 or newer.*--enable-grpc-gateway=false/;
    const PROXY = /in front of etcd.*`fetch`/;

    async function isRefused(options, code, message) {
      const adapter = adapterOf(options);
      await assert.rejects(clientOf(adapter), (error) => {
        assert.deepEqual([error.code, adapter.classify(error)], [code, 'fatal'], error.message);
        assert.match(error.message, message);
        return true;
      });
      await adapter.dispose();
    }

    for (const [what, answer, code, message] of [
      ['a page that is not there', head('404 Not Found'), SERVER, GATEWAY],
      ['a method that is not allowed', head('405 Method Not Allowed'), SERVER, GATEWAY],
      ['a redirect', head('302 Found', 'location: /login'), SERVER, GATEWAY],
      ['a page', body('200 OK', '<html>'), SERVER, GATEWAY],
      ['another JSON', body('200 OK', '{}'), SERVER, GATEWAY],
      ['another protocol', "-ERR unknown command 'POST'\r\n", SERVER, GATEWAY],
      ['a proxy that wants a login', head('401 Unauthorized'), RIGHTS, PROXY],
      ['a proxy that refuses', head('403 Forbidden'), RIGHTS, PROXY],
      [
        'a proxy that refuses by JSON',
        body('403 Forbidden', '{"error":{"no":"x"}}'),
        RIGHTS,
        /in front of etcd.*: {"error":{"no":"x"}}\)$/,
      ],
      ['TLS', body('400 Bad Request', 'was sent to HTTPS port'), SERVER, GATEWAY],
      [
        'TLS, as Go says it',
        lines('HTTP/1.0 400 Bad Request').concat('sent an HTTP request to an HTTPS server'),
        SERVER,
        GATEWAY,
      ],
    ])
      test(what, async (t) => {
        const other = net.createServer((socket) => {
          socket.on('error', () => {}).once('data', () => socket.end(answer));
        });
        t.after(() => other.close());
        await once(other.listen(0, '127.0.0.1'), 'listening');
        const options = at(other.address().port);
        await isRefused(options, code, message);
        // A fetch follows redirects.
        if (what !== 'a redirect') await isRefused({ ...options, fetch }, code, message);
      });

    test('an etcd without the gateway, and its port for peers', async () => {
      const own = await startEtcd(1, ['--enable-grpc-gateway=false']);
      const [{ peer, port }] = own.members;
      await isRefused(at(port), SERVER, GATEWAY);
      await isRefused(at(peer), SERVER, GATEWAY);
      await own.stop();
    });

    test('TLS on one side only, or with another authority', async () => {
      const { certFile, keyFile } = await makeCertificate();
      const own = await startEtcd(1, [`--cert-file=${certFile}`, `--key-file=${keyFile}`]);
      for (const fetch of [undefined, globalThis.fetch])
        for (const [endpoint, message] of [
          [`http://127.0.0.1:${own.port}`, /URL says http:, but the server speaks https:/],
          [`https://127.0.0.1:${server.port}`, /URL says https:, but the server speaks http:/],
          [own.endpoints[0], /NODE_EXTRA_CA_CERTS.*self-sign/],
        ])
          await isRefused({ endpoints: [endpoint], fetch }, SERVER, message);
      await own.stop();
    });

    test('a role that lacks a right', async () => {
      const own = await startWithUsers({ none: [], reads: ['READ'], some: ['READWRITE', '1/'] });
      const { endpoints } = own;
      await own.call('auth/enable');
      for (const user of ['none', 'reads', 'some']) {
        const auth = { user, password: 's' };
        await isRefused(
          { endpoints, auth },
          RIGHTS,
          /read and write all keys that begin with `web-l/,
        );
      }
      await own.stop();
    });
  });

  /** Starts a server with a user 'root', and users by their rights: a kind, and a key prefix. */
  async function startWithUsers(users) {
    const own = await startEtcd();
    await own.call('auth/user/add', { name: 'root', password: 's' });
    await own.call('auth/role/add', { name: 'root' });
    await own.call('auth/user/grant', { user: 'root', role: 'root' });
    for (const [name, [permType, more = '']] of Object.entries(users)) {
      const prefix = `web-locks/${more}`;
      const range = { key: base64(prefix), range_end: base64(prefix.replace(/.$/, '0')) };
      await own.call('auth/user/add', { name, password: 's' });
      await own.call('auth/role/add', { name });
      const perm = { permType, ...range };
      if (permType) await own.call('auth/role/grant', { name, perm });
      await own.call('auth/user/grant', { user: name, role: name });
    }
    return own;
  }

  test('the dispatcher of a fetch brings certificates', { skip: lacks.openssl }, async () => {
    const { cert, certFile, key, keyFile } = await makeCertificate();
    const files = { 'cert-file': certFile, 'key-file': keyFile, 'trusted-ca-file': certFile };
    const options = Object.entries(files).map(([name, file]) => `--${name}=${file}`);
    const { endpoints } = await startEtcd(1, [...options, '--client-cert-auth']);
    // Node.js keeps the class of undici for its own `fetch`.
    await fetch('data:,');
    const symbols = Object.getOwnPropertySymbols(globalThis);
    const dispatchers = symbols.map((symbol) => globalThis[symbol]);
    const { constructor: Agent } = dispatchers.find((it) => it?.constructor?.name === 'Agent');
    const dispatchedBy = (connect) => {
      const dispatcher = new Agent({ connect });
      return (url, options) => fetch(url, { ...options, dispatcher });
    };
    const anonymous = client({ endpoints, fetch: dispatchedBy({ ca: cert }) });
    await rejectsWith(anonymous, 'ERR_WEB_LOCKS_UNREACHABLE');
    const a = await client({ endpoints, fetch: dispatchedBy({ ca: cert, cert, key }) });
    const { handOver } = await contend(a, a);
    await handOver();
  });

  test('a user logs in where etcd wants that, and again when its token is over', async () => {
    const own = await startWithUsers({ shop: ['READWRITE'] });
    const { endpoints } = own;
    const auth = { user: 'shop', password: 's' };
    const early = await client({ endpoints, auth });
    await own.call('auth/enable');
    assert.deepEqual(await early.answers(request(fresh())), ['granted']);
    await rejectsWith(client({ endpoints }), 'ERR_WEB_LOCKS_RIGHTS');
    const wrong = { ...auth, password: 'x' };
    await rejectsWith(client({ endpoints, auth: wrong }), 'ERR_WEB_LOCKS_RIGHTS');
    const tokens = new Set();
    /** The server no longer knows the first token. */
    const forget = fetchBy((call) => {
      const { headers } = call.options;
      const { authorization } = headers;
      if (authorization) tokens.add(authorization);
      const isFirst = authorization && tokens.size === 1 && call.path === 'kv/txn';
      return call.send(isFirst ? { headers: { ...headers, authorization: 'over' } } : {});
    });
    const a = await client({ endpoints, auth, fetch: forget });
    const op = request(fresh());
    assert.deepEqual(await a.answers(op), ['granted']);
    assert.equal(tokens.size, 2);
    assert.deepEqual(await a.answers(end(op)), ['ended']);
    await a.adapter.close(a.session);
  });
});
