// slow: 79; long; waits; needs: redis

'use strict';

/** Tests the adapter of Redis against the contract, at a real server, with clients of all kinds. */

const assert = require('node:assert/strict');
const { fork, spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');

const { RedisAdapter } = require('../../lib/cluster/engines/redis/adapter.js');
const { explain } = require('../../lib/cluster/engines/redis/errors.js');
const { openBucket } = require('../../lib/redis.js');
const {
  LONG,
  TTL,
  clientOf,
  closeAll,
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
} = require('./contract.js');
const { valuesOf } = require('../helpers/locks.js');
const { tellStories } = require('./stories.js');
const { FaultyProxy } = require('./proxy.js');
const { StoredBucket, introduce } = require('./redis-bucket.js');
const refusal = require('./refusal.js');
const { clients, clusterClients, oddOptionsOf } = require('./redis-clients.js');
const { lacks, startRedis, startRedisCluster, startSentinel, stopAll } = require('./servers.js');

/** @type {Awaited<ReturnType<typeof startRedis>>} */
let server;
/** @type {ReturnType<typeof startRedisCluster>} */
let startingCluster;
const any = clients.ioredis;

const WEEK = 7 * 24 * 3_600_000;
/** A lease that is shorter than the time since the servers of a test started. */
const SHORT = 2_000;
const NOTHING_SEEN = { life: '', token: 0n };
/** A server sends this to a connection for which it has no room. */
const TOO_MANY = Buffer.from('-ERR max number of clients reached\r\n');

/** A bucket as the server stores it. */
const stored = (bucket = 'bucket', shard = 0, at = server) => new StoredBucket(at, bucket, shard);

/**
 * Returns a function that opens a session with this kind of client. A bucket that is new to a
 * server begins with a quarantine; with `isSettled`, the server knows it already.
 */
const clientBy =
  (make) =>
  async (
    { bucket = 'bucket', port = server.port, isSettled = port === server.port, login, ...options },
    ttl = TTL,
    seen = NOTHING_SEEN,
  ) => {
    const adapterOf = () => new RedisAdapter(bucket, { client: make(port, login), ...options });
    const { id } = adapterOf();
    if (isSettled && !known.has(id)) await introduce(adapterOf());
    known.add(id);
    return clientOf(adapterOf(), ttl, seen);
  };
const client = (options = {}, ...more) => clientBy(any)(options, ...more);
/** @type {Set<string>} */
const known = new Set();

/** Makes a client with connections that `change` alters. */
const changed = (change) => ({
  duplicate(options) {
    const made = any(server.port, options);
    change(made);
    return made;
  },
  call() {},
});

const isRefused =
  ({ adapter }) =>
  (error) =>
    adapter.classify(error) === 'refused';
const grantsIn = async ({ renew }) => (await renew()).grantsIn;
const spoil = (bucket, key) => stored(bucket).call('SET', key, 'something else');

/** Makes an engine for stories, with buckets of its own whose clock is the test's. */
function storiesOf(bucket, engine, shards = 1) {
  const all = Array.from({ length: shards }, (_, shard) => stored(bucket, shard));
  const each = (work) => Promise.all(all.map(work));
  return {
    ...engine,
    client: ({ bucket: other = '' } = {}, ttl) =>
      engine.client({ bucket: `${bucket}${other}`, shards }, ttl),
    keeper: () => engine.keeper({ bucket, shards }),
    // Tokens and tickets get one more digit in each story.
    endQuarantine: () => each((one) => one.set('from', '0', 'tok', 10 ** 15 - 8)),
    expire: (session) => each((one) => one.expire(session)),
    livesOf: (life) => all.map(() => life).join(' '),
    shift: (milliseconds) => each((one) => one.shift(milliseconds)),
    replace: () => each((one) => one.set('run', fresh('another'))),
    spoil: () => each((one) => one.deleteQueues()),
    verify: () => each((one) => one.verify()),
  };
}

/** Starts a process (redis-user.js) that ends by itself once its bucket is closed. */
async function startUser(kind, port) {
  const program = path.join(__dirname, 'redis-user.js');
  const user = fork(program, [kind, String(port)], { timeout: 300_000 });
  // A user that loses its session because the machine is slow may end before the others are open.
  const exit = once(user, 'exit').then(([code]) => [kind, code]);
  const ended = exit.then(() => assert.fail('it ended before it was open'));
  await Promise.race([once(user, 'message'), ended]);
  // The process may have lost its session meanwhile, and ended.
  return { exit, close: () => user.send('close', () => {}) };
}

/**
 * Starts a process that opens a session and then does nothing. After the message 'drop', it drops
 * the connections, and exits with 3 if it does not end by itself.
 */
function startIdle(kind, port, isSecure) {
  const [of] = kind.replace('iovalkey', 'ioredis').split(' ');
  const options = {
    ioredis: { host: 'name', ...(isSecure && { tls: {} }) },
    'node-redis': { url: `redis${isSecure ? 's' : ''}://name:${port}` },
  }[of];
  // Nothing listens at the first address: a socket has another handle for the next. An iovalkey
  // tries one address only.
  const hasNext = !isSecure && kind !== 'iovalkey';
  const addresses = hasNext ? ['127.0.0.2', '127.0.0.1'] : ['127.0.0.1'];
  const program = `
    const { clients } = require('./test/cluster/redis-clients.js');
    const { RedisAdapter } = require('./lib/cluster/engines/redis/adapter.js');
    const dns = require('node:dns');
    const found = ${JSON.stringify(addresses)}.map((address) => ({ address, family: 4 }));
    dns.lookup = (name, options, tell) =>
      options.all ? tell(null, found) : tell(null, found[0].address, 4);
    dns.promises.lookup = async () => found[0];
    const client = clients['${kind}'](${port}, ${JSON.stringify(options)});
    const adapter = new RedisAdapter('idle', { client });
    const opened = adapter.open({ clientId: 'a' }, 5000, { life: '', token: 0n });
    opened.then(() => process.disconnect(), () => {});
    process.once('message', (message) => {
      process.disconnect();
      if (message !== 'drop') return;
      adapter.dispose();
      setTimeout(() => process.exit(3), 60_000).unref();
    });`;
  const stdio = ['ignore', 'inherit', 'inherit', 'ipc'];
  return spawn(process.execPath, ['-e', program], { stdio });
}

/** Returns how such a process ends, at a real server or at one that sends nothing. */
async function endOfIdle(t, kind, { message, isSecure }) {
  let expected = 2;
  const silent = net.createServer({ allowHalfOpen: true }, (socket) => {
    t.after(() => socket.destroy());
    socket.on('error', () => {}).resume();
    if (--expected === 0) program.send(message);
  });
  t.after(() => silent.close());
  await once(silent.listen(0, '127.0.0.1'), 'listening');
  const { port } = message ? silent.address() : server;
  const program = startIdle(kind, port, isSecure);
  return once(program, 'exit');
}

/** Conditions that must not keep a process alive. */
const IDLE = {
  'an open session': {},
  'a connection that the server says nothing to': { message: 'stay' },
  'a TLS connection that the server says nothing to': { message: 'stay', isSecure: true },
  'a connection that was dropped': { message: 'drop' },
};

/** Checks that a session works after a silence that exceeds the odd time limits of its client. */
async function worksWithOddOptions(a) {
  await a.renew();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const op = request(fresh());
  const [, answers] = await Promise.all([
    a.renew(),
    a.answers(op),
    a.adapter.query(),
    a.adapter.marked(op.name),
  ]);
  assert.deepEqual([answers, a.told], [['granted'], []]);
  await closeAll(a);
}

describe('Redis', { skip: lacks.redis }, () => {
  // Answers of an open session do not keep a process alive, but this does.
  const alive = setInterval(() => {}, 60_000);

  before(async () => {
    startingCluster = startRedisCluster();
    server = await startRedis();
  });

  disposeAfterEach();

  after(async () => {
    clearInterval(alive);
    await stopAll();
  });

  for (const [kind, make] of Object.entries(clients)) {
    describe(`by ${kind}`, () => {
      const engine = {
        client: (options = {}, ...more) => clientBy(make)(options, ...more),
        alone: { bucket: `alone ${kind}` },
        keeper: ({ bucket = 'bucket', ...options } = {}) =>
          new RedisAdapter(bucket, { client: make(server.port), ...options }),
        endQuarantine: ({ bucket }) => stored(bucket).endQuarantine(),
        expire: (session, { bucket } = {}) => stored(bucket).expire(session),
        left: (session) => stored().left(session),
        remove: (_, { name }) => stored().delete(`n:${name}`, `r:${name}`, `q:${name}`),
        window: 4,
        port: () => server.port,
        through: (port) => ({ port, isSettled: false }),
        lastWords: { 'that there are too many': TOO_MANY },
        stride: 47,
      };
      contractOfClients(engine);
      if (make === any) {
        contract(engine);
        tellStories((lane) => storiesOf(`stories ${lane}`, engine));
        const ofShards = { ...engine, hasNoGroups: true, countsApart: true, window: 1 };
        tellStories((lane) => storiesOf(`stories of shards ${lane}`, ofShards, 3), 0.4);
        keepsNothing(engine, { bucket: 'answers of shards', shards: 3 });
      }

      for (const [what, options] of Object.entries(IDLE)) {
        test(`${what} keeps no process alive`, async (t) => {
          assert.deepEqual(await endOfIdle(t, kind, options), [0, null]);
        });
      }

      test('odd options of the client change nothing', async () => {
        await worksWithOddOptions(await engine.client({ login: oddOptionsOf(kind) }, 5_000));
      });

      test('keys and channels begin with the prefix, by default that of the client', async () => {
        const [name, rights] = [fresh(), ['~dev:*', '&dev:*', '+@all', '-@dangerous', '+info']];
        await server.call('ACL', 'SETUSER', 'dev', 'reset', 'on', '>dev', ...rights);
        const login = { username: 'dev', password: 'dev', keyPrefix: 'dev:' };
        // A node-redis 5 has no keyPrefix.
        const prefix = kind === 'node-redis 5' ? 'dev:' : undefined;
        const bucket = `prefix ${kind}`;
        const a = await engine.client({ bucket, login, prefix });
        const held = request(name);
        assert.deepEqual(await a.answers(held, request(name)), ['granted', 'queued']);
        await a.answers(end(held));
        assert.ok('granted' in (await a.next()));
        await a.renew();
        const other = { keyPrefix: 'dev:' };
        const b = await engine.client({ bucket, login: other, prefix: 'prod:' });
        const c = await engine.client({ bucket, login: other, prefix: '' });
        for (const one of [b, c]) assert.deepEqual(await one.answers(request(name)), ['granted']);
        assert.equal(new Set([a, b, c].map(({ adapter }) => adapter.id)).size, 3);
      });

      test('a bucket outlives a login that is refused', async () => {
        const own = await startRedis();
        await own.call('CONFIG', 'SET', 'requirepass', 'one');
        const admin = any(own.port, { password: 'one' });
        await admin.call('PING');
        const refuse = async () => {
          await admin.call('CONFIG', 'SET', 'requirepass', 'other');
          for (const type of ['normal', 'pubsub']) {
            await admin.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes');
          }
        };
        const serve = () => admin.call('CONFIG', 'SET', 'requirepass', 'one');
        const logged = make(own.port, { password: 'one' });
        const bucket = openBucket(`login ${kind}`, { client: logged, ttl: refusal.TTL });
        await refusal.outlivesRefusal(bucket, 'ERR_WEB_LOCKS_RIGHTS', refuse, serve);
        admin.disconnect();
        await own.crash();
      });

      test('R3: a step behind one that the server refuses is executed later', async () => {
        const bucket = `refused ${kind}`;
        const a = await engine.client({ bucket });
        const [bad, good] = [request('bad'), request('good')];
        await spoil(bucket, 'n:bad');
        const sent = await Promise.allSettled([a.step([bad], 1, 0), a.step([good], 2, 1)]);
        const classes = sent.map(({ reason }) => reason && a.adapter.classify(reason));
        assert.deepEqual(classes, ['refused', 'retry']);
        assert.equal((await a.renew()).mine.size, 0);
        assert.equal((await a.step([good], 3, 0))[0].code, 'granted');
        // The server answers a step if it has executed a part of it.
        const ops = [request(fresh()), bad, request(fresh())];
        for (let i = 0; i < 2; i++) {
          const answers = await a.step(ops, 4, 3);
          assert.deepEqual(valuesOf(answers, 'code'), ['granted', 'failed', 'granted']);
        }
        assert.equal((await a.renew()).mine.size, 3);
        assert.deepEqual(a.told, []);
      });

      test('as many names as a group may have are granted', async () => {
        const a = await engine.client({ bucket: `many ${kind}` });
        const { most } = a.adapter.can;
        const group = Array.from({ length: most }, () => request(fresh(), { group: 1 }));
        assert.deepEqual(new Set(await a.answers(...group)), new Set(['granted']));
        await closeAll(a);
      });
    });
  }

  describe('a session', () => {
    test('executes nothing that arrives over a connection that was replaced', async () => {
      const a = await client();
      const script = require('../../lib/cluster/engines/redis/redis.lua.js');
      const op = 'r900000 0 -1\nkey\nx 0\n0 ""\n\n"name"';
      const common = ['step', a.session, `1 ${TTL} 0`, '0'];
      const late = ['1', stored().prefix, ...common, await stored().get('run'), '1', '0', op];
      await a.hello();
      assert.deepEqual(await server.call('EVAL', script, ...late), ['-5']);
      assert.equal((await a.renew()).mine.size, 0);
    });

    test('is closed over another connection if its own ends meanwhile', async () => {
      const proxy = await FaultyProxy.open(server.port);
      const a = await client({ port: proxy.port });
      proxy.cutAfter(1, 'up');
      await a.adapter.close(a.session);
      assert.equal(await stored().left(a.session), 0);
      await proxy.close();
    });

    test('removes marks that are over, and keeps one that lasts longer', async () => {
      const bucket = 'over';
      const a = await client({ bucket });
      const keep = 3_600_000;
      const long = request(fresh());
      await a.answers(long);
      await a.answers(done(long, keep));
      for (let i = 0; i < 50; i++) {
        const held = request(fresh());
        await a.answers(held);
        await a.answers(done(held, 1));
        while (await a.adapter.marked(held.name));
      }
      const [marks] = await stored(bucket).call('ZCARD', 'k');
      const [markers] = await stored(bucket).call('HLEN', 'w');
      assert.ok(marks <= 3 && markers <= 3, `${marks} ${markers}`);
      assert.equal(await a.adapter.marked(long.name), true);
      for (const key of ['k', 'w']) {
        const [milliseconds] = await stored(bucket).call('PTTL', key);
        assert.ok(milliseconds > keep / 2, `${key} is removed in ${milliseconds} ms`);
      }
    });
  });

  describe('the echo of a renewal, however long the lease is,', () => {
    /** Lets milliseconds pass, by the clock of this process. */
    function pass(t, milliseconds) {
      const now = performance.now.bind(performance);
      t.mock.method(performance, 'now', () => now() + milliseconds);
    }

    for (const [what, shards, part] of [
      ['a bucket', 1, ''],
      ['a shard', 2, '#1}'],
    ]) {
      test(`is missed if no message of ${what} arrives`, async (t) => {
        let isDeaf = false;
        const heard = [];
        const made = changed((one) => {
          const { on } = one;
          one.on = (event, handle) => {
            const handleSome = (channel, message) => {
              if (isDeaf && channel.includes(part)) return;
              heard.push(message);
              handle(channel, message);
            };
            return on.call(one, event, event === 'message' ? handleSome : handle);
          };
        });
        const adapter = new RedisAdapter(`deaf ${shards}`, { client: made, shards });
        const a = await clientOf(adapter, WEEK);
        isDeaf = true;
        await a.renew();
        // That of another shard arrives, maybe after the answer.
        while (shards > 1 && !heard.includes('e 1')) await new Promise(setImmediate);
        pass(t, 3_000);
        await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_NO_NEWS');
        isDeaf = false;
        await a.hello();
        await a.renew();
      });
    }
  });

  describe('shards', () => {
    test('tell of the lease that ends first in any of them', async () => {
      const options = { bucket: 'first', shards: 3 };
      const [a, b] = [await client(options, LONG), await client(options, LONG)];
      for (const [shard, seconds] of [30, 20, 10].entries()) {
        const at = stored('first', shard);
        await at.call('ZADD', 's', (await at.now()) + seconds * 1_000, b.session);
        const { nextExpiryIn } = await a.renew();
        assert.ok(nextExpiryIn <= seconds * 1_000, String(nextExpiryIn));
      }
    });

    test('R5: have epochs and tokens of their own', async () => {
      const options = { bucket: 'lives', shards: 3 };
      const a = await client(options);
      const names = Array.from({ length: 12 }, () => fresh());
      const answers = await a.step(names.map((name) => request(name)));
      // One shard counts far ahead of the others.
      await stored('lives', 1).call('HINCRBY', 'm', 'tok', 900_000_000);
      const thefts = await a.step(names.map((name) => request(name, { kind: 'steal' })));
      const [ahead] = valuesOf(thefts, 'token').sort((one, two) => (one > two ? -1 : 1));
      assert.ok(ahead > answers[0].token + 800_000_000n);
      const { life } = await a.renew();
      const seen = { life, token: ahead };
      const next = await a.adapter.renew(seen);
      assert.deepEqual([next.grantsIn, next.life], [0, life], 'no shard is behind');
      assert.equal(await grantsIn(await client(options, TTL, seen)), 0);
      // That shard comes back as it was.
      await stored('lives', 1).call('HINCRBY', 'm', 'tok', -900_000_000);
      const careful = await a.adapter.renew(seen);
      assert.ok(careful.grantsIn > 0);
      const isNew = careful.life.split(' ').map((one, i) => one !== life.split(' ')[i]);
      assert.deepEqual(isNew, [false, true, false]);
      assert.equal((await a.adapter.renew({ ...seen, life: careful.life })).life, careful.life);
    });

    for (const isAnew of [false, true])
      test(`R3: grant once what one executes while another refuses, anew: ${isAnew}`, async () => {
        const bucket = `refusing shard ${isAnew}`;
        const first = await client({ bucket, shards: 2 });
        const ops = Array.from({ length: 8 }, () => request(fresh()));
        for (const { name } of ops) await spoil(bucket, `n:${name}`);
        await assert.rejects(first.step(ops), isRefused(first));
        // The answers are of no use to the next session.
        if (isAnew) await closeAll(first);
        const a = isAnew ? await clientOf(first.adapter) : first;
        const answers = [];
        for (const op of ops) answers.push(await a.answers(op).catch(() => ['refused']));
        const granted = answers.flat().filter((code) => code === 'granted').length;
        assert.ok(granted > 0 && granted < ops.length);
        const tokens = [...(await a.renew()).mine.values()];
        assert.ok(tokens.length === granted && tokens.every((token) => token > 0n));
      });

    test('R3: execute once what one of them has executed and another one never will', async () => {
      const options = { bucket: 'silent shard', shards: 2 };
      let isSilent = false;
      const made = changed((one) => {
        const { call } = one;
        one.call = (command, args) => {
          if (!isSilent || !args.includes('step')) return call.call(one, command, args);
          // The first shard executes its part, and the answer gets lost.
          if (!args[2].includes('#1}')) call.call(one, command, args);
          return new Promise(() => {});
        };
      });
      const b = await client(options);
      const a = await clientOf(new RedisAdapter(options.bucket, { ...options, client: made }));
      await a.step([request(fresh())]);
      const ops = Array.from({ length: 8 }, () => request(fresh(), { kind: 'steal' }));
      isSilent = true;
      const lost = assert.rejects(a.step(ops));
      let first;
      do ({ mine: first } = await a.renew());
      while (first.size < 2);
      isSilent = false;
      const robbed = ops.filter(({ ref }) => first.has(ref));
      const thefts = robbed.map(({ name }) => request(name, { kind: 'steal' }));
      await b.step(thefts);
      await a.hello();
      await lost;
      assert.equal((await a.renew()).step, 1);
      const answers = [...(await a.step(ops.slice(0, 4))), ...(await a.step(ops.slice(4)))];
      assert.equal((await a.renew()).step, 4);
      for (const [i, { code, token }] of answers.entries()) {
        assert.deepEqual([code, token], ['granted', first.get(ops[i].ref) ?? token]);
      }
      const { mine } = await b.renew();
      for (const { ref } of thefts) assert.ok(mine.get(ref) > 0n, 'it was not stolen again');
    });

    test('do not call a step unexecuted if the session has expired in one of them', async () => {
      const bucket = 'half dead';
      const a = await client({ bucket, shards: 2 });
      await stored(bucket, 1).expire(a.session);
      const ops = Array.from({ length: 8 }, () => request(fresh()));
      await assert.rejects(a.step(ops), (error) => a.adapter.classify(error) === 'retry');
      await rejectsWith(a.hello(), 'ERR_WEB_LOCKS_SESSION_DEAD');
    });
  });

  describe('keys that expire, so that nothing is left of processes that were killed,', () => {
    /** Opens a session that holds locks, waits, and marks. */
    const use = async (bucket) => {
      const a = await client({ bucket });
      const marked = request('marked');
      await a.answers(request('held'), request('held'), request('free'), marked);
      await a.answers(done(marked));
      return a;
    };

    test('live longer by a renewal once in a while, and by a request for their name', async () => {
      const bucket = 'kept';
      const a = await use(bucket);
      const at = stored(bucket);
      const shorten = async () => {
        for (const key of await at.keys('[^m]*')) await at.call('PEXPIRE', key, 60_000);
      };
      const longest = async () => Math.max(...(await at.lives()).values());
      const shortest = async (letters) => {
        const lives = [...(await at.lives())].filter(([key]) => letters.includes(key[0]));
        return Math.min(...lives.map(([, life]) => life));
      };
      await shorten();
      await a.renew();
      assert.ok((await longest()) <= 60_000);
      await at.call('HINCRBY', `i:${a.session}`, 'kept', -WEEK / 7);
      await a.renew();
      assert.ok((await shortest('sinqr')) > WEEK / 2);
      await shorten();
      const b = await client({ bucket });
      assert.deepEqual(await b.answers(request('held'), request('free')), ['queued', 'queued']);
      assert.ok((await shortest('nqr')) > WEEK / 2);
    });

    test('expire no more where the server evicts keys that would', async () => {
      const bucket = 'evicting';
      const before = await use(bucket);
      const setPolicy = (policy) => server.call('CONFIG', 'SET', 'maxmemory-policy', policy);
      const lives = async (of) => new Set((await stored(of).lives()).values());
      await setPolicy('volatile-lru');
      const first = 'evicting from the first';
      const a = await use(first);
      assert.deepEqual(await lives(first), new Set([-1]));
      await before.hello();
      await before.renew();
      const marked = request('marked');
      await before.answers(marked, done(marked));
      assert.deepEqual(await lives(bucket), new Set([-1]));
      await setPolicy('noeviction');
      await a.hello();
      await a.renew();
      assert.ok((await stored(first).lives()).get('s') > 0);
    });

    test('are missed when a jump of the clock has ended them', async () => {
      const bucket = 'gone';
      const a = await use(bucket);
      await stored(bucket).delete(...(await stored(bucket).keys('[^m]*')));
      const b = await client({ bucket });
      assert.ok(b.grantsIn > TTL / 2 && b.grantsIn <= TTL, String(b.grantsIn));
      assert.ok((await grantsIn(b)) > 0);
      assert.deepEqual(await b.answers(request('held', { kind: 'ifAvailable' })), ['unavailable']);
      await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_SESSION_DEAD');
      await closeAll(a, b);
      // A bucket that is closed leaves nothing to miss.
      await stored(bucket).delete('s');
      await stored(bucket).set('from', '0');
      assert.equal(await grantsIn(await client({ bucket })), 0);
    });

    test('are missed when a jump of the clock may have ended some of them', async () => {
      const bucket = 'almost a week';
      const [a, b] = [await client({ bucket }), await client({ bucket })];
      await a.answers(request('name'));
      await stored(bucket).delete(`i:${a.session}`, 'n:name');
      await stored(bucket).shift(WEEK - 600_000);
      assert.deepEqual(await b.answers(request('name')), ['queued']);
      assert.ok((await grantsIn(b)) > 0);
    });
  });

  describe('keys that are deleted by hand', () => {
    const CASES = ['m', 's', 'i', 's i', 'n', 'q', 'r', 'm s', 's n', 'i n', 's i q', 's i r'];
    for (const what of [...CASES, 'm s i']) {
      test(`keep no lock of a session that has expired: ${what}`, async () => {
        const bucket = `without ${what}`;
        const at = stored(bucket);
        const [dead, b] = [await client({ bucket }), await client({ bucket })];
        await dead.answers(request('held'), request('held'), request('alone'));
        const whole = { m: 'm', s: 's', i: `i:${dead.session}` };
        await at.delete(...what.split(' ').map((letter) => whole[letter] ?? `${letter}:held`));
        await closeAll(b);
        const c = await client({ bucket });
        const ops = [request('held'), request('alone')];
        await c.answers(...ops);
        if ((await at.leaseEnd(dead.session)) > 0) await at.expire(dead.session);
        let isCareful = false;
        for (let i = 0; i < 2; i++) {
          await c.adapter.sweep();
          isCareful ||= (await grantsIn(c)) > 0;
          await at.endQuarantine();
          await c.adapter.sweep();
        }
        const { mine } = await c.renew();
        for (const { ref } of ops) assert.ok(mine.get(ref) > 0n, String(mine.get(ref)));
        // A new server cannot know which other locks were held.
        assert.equal(isCareful, /[msi]/.test(what));
      });
    }
  });

  describe('keys that another program writes to', () => {
    test('keep no session from the other locks of an expired session', async () => {
      const bucket = 'spoiled';
      const [dead, b] = [await client({ bucket }), await client({ bucket })];
      const names = ['one', 'spoiled', 'two', 'three'];
      await dead.answers(...names.map((name) => request(name)));
      const waiting = ['one', 'two', 'three'].map((name) => request(name));
      await b.answers(...waiting);
      await spoil(bucket, 'n:spoiled');
      assert.equal((await dead.renew()).mine.size, 3);
      assert.equal((await b.adapter.query()).length, 6);
      await stored(bucket).expire(dead.session);
      await b.adapter.sweep();
      const { mine } = await b.renew();
      for (const { ref } of waiting) assert.ok(mine.get(ref) > 0n);
    });

    test('are not taken for errors of the server that are called as their name', async () => {
      const a = await client({ bucket: 'called so' });
      await spoil('called so', 'n:ACL');
      await rejectsWith(a.step([request('ACL')]), 'ERR_WEB_LOCKS_REDIS');
    });
  });

  describe('a quarantine', () => {
    test('does not begin when an adapter only looks, but with the next session', async () => {
      const adapter = new RedisAdapter('looked at', { client: any(server.port) });
      assert.deepEqual(await adapter.query('name'), []);
      assert.equal(await adapter.marked('name'), false);
      assert.deepEqual(await stored('looked at').keys(), []);
      await adapter.dispose();
    });

    test('begins at a replica that is promoted; a replica is refused', async () => {
      const primary = await startRedis();
      const replica = await startRedis({ primary });
      const { port } = replica;
      const open = (bucket, options) => client({ port, bucket, ...options }, SHORT);
      const isCareful = async (...options) => (await grantsIn(await open(...options))) > 0;
      await closeAll(await client({ port: primary.port, bucket: 'used' }, SHORT));
      await rejectsWith(open('used'), 'ERR_WEB_LOCKS_STANDBY');
      await primary.crash();
      await replica.promote();
      assert.equal(await isCareful('used'), true);
      assert.equal(await isCareful('unheard of'), true, 'it may have missed everything');
      const ago = () => replica.call('HINCRBY', '{wl:}server', 'since', String(-SHORT));
      await ago();
      assert.equal(await isCareful('opened when it had been a primary for long'), false);
      await replica.call('REPLICAOF', '127.0.0.1', String(primary.port));
      await replica.promote();
      assert.equal(await isCareful('promoted again'), true);
      await replica.call('HDEL', '{wl:}server', 'since');
      assert.equal(await isCareful('since when is not known'), true);
      await ago();
      const rights = ['on', '>one', '~{wl:own}*', '&{wl:own}*', '+@all'];
      await replica.call('ACL', 'SETUSER', 'one', ...rights);
      const login = { username: 'one', password: 'one' };
      assert.equal(await isCareful('own', { login }), true, 'the user cannot read since when');
      await replica.stop();
    });
  });

  test('strict refuses servers of which one that is split off would go on', async () => {
    const primary = await startRedis({ settings: ['--min-replicas-max-lag', '1'] });
    const configure = (replicas) =>
      primary.call('CONFIG', 'SET', 'min-replicas-to-write', String(replicas));
    const strict = { port: primary.port, strict: true };
    await rejectsWith(client(strict), 'ERR_WEB_LOCKS_STRICT');
    await configure(1);
    await rejectsWith(client(strict), 'ERR_WEB_LOCKS_NOT_REPLICATED');
    const first = await startRedis({ primary });
    await primary.until(/min_slaves_good_slaves:1/);
    const a = await client(strict);
    await a.renew();
    assert.equal(Number(await stored('bucket', 0, primary).get('pause')), TTL + 2_000);
    const second = await startRedis({ primary });
    await primary.until(/connected_slaves:2/);
    await assert.rejects(client(strict), { code: 'ERR_WEB_LOCKS_STRICT', message: /set it to 2/ });
    for (const replica of [second, first]) await replica.stop();
    await primary.until(/min_slaves_good_slaves:0/);
    await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_NOT_REPLICATED');
    // The refusal stays even after the setting is taken back.
    await configure(0);
    await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_NOT_REPLICATED');
    await primary.stop();
  });

  describe('a release that is refused because the user has lost a right', () => {
    /** Grants the lock to `own`, as a user whose rights can be changed. */
    async function setUp(t, user, hasWaiter) {
      const login = { username: user, password: user };
      const setUser = (...rights) => server.call('ACL', 'SETUSER', user, ...rights);
      await setUser('reset', 'on', `>${user}`, '~*', '&*', '+@all');
      const open = (options) =>
        openBucket(user, { client: any(server.port, options), ttl: refusal.TTL });
      const [own, other] = [open(login), open()];
      t.after(() => Promise.all([own.close(), other.close()]));
      const handle = await own.locks.acquire('a');
      const waiter = hasWaiter && other.locks.acquire('a');
      while (waiter && (await other.locks.query()).pending.length === 0);
      const next = async () => (await (waiter || other.locks.acquire('a'))).release();
      return { own, handle, next, setUser };
    }

    // A lock with a waiter has a queue; the key of another lock is deleted.
    for (const [right, hasWaiter] of [
      ['zrem', true],
      ['hdel', true],
      ['del', false],
    ]) {
      test(`is replaced by the end of the session, which is refused: ${right}`, async (t) => {
        const { own, handle, next, setUser } = await setUp(t, `no-${right}`, hasWaiter);
        await setUser(`-${right}`);
        await handle.release();
        await next();
        const refused = own.locks.request('b', () => {});
        await assert.rejects(refused, { code: 'ERR_WEB_LOCKS_RIGHTS' });
        await setUser(`+${right}`);
        await refusal.isOpen(own);
        assert.equal(await own.locks.request('a', ({ name }) => name), 'a');
      });
    }
  });

  describe('a cluster', () => {
    /** @type {Awaited<ReturnType<typeof startRedisCluster>>} */
    let cluster;
    let owner;
    before(async () => {
      cluster = await startingCluster;
      ({ owner } = await cluster.find(stored().prefix));
    });

    test('refuses a client of one server', async () => {
      const { port } = cluster.nodes.find((node) => node !== owner);
      for (const make of Object.values(clients)) {
        await rejectsWith(clientBy(make)({ port }), 'ERR_WEB_LOCKS_CLUSTER');
      }
    });

    for (const [kind, make] of Object.entries(clusterClients)) {
      describe(`by ${kind}`, () => {
        const clientIn = (options, ...more) =>
          clientBy(make)({ port: cluster.port, isSettled: true, ...options }, ...more);

        endsWhileOpening({
          client: ({ port }) => {
            const nodes = { [`127.0.0.1:${owner.port}`]: { host: '127.0.0.1', port } };
            return clientBy(() => make(port, undefined, nodes))({ port });
          },
          port: () => owner.port,
          through: (port) => ({ port }),
          lastWords: { 'that there are too many': TOO_MANY },
          stride: 97,
        });

        test('locks are in slots of several nodes, and so are their messages', async () => {
          const bucket = `cluster ${kind}`;
          const options = { bucket, shards: 8, prefix: 'dev:' };
          const [a, b] = [await clientIn(options), await clientIn(options)];
          const all = cluster.nodes.map((node) => node.call('KEYS', `dev:{wl:${bucket}*:m`));
          const keys = await Promise.all(all);
          assert.ok(keys.every(([key]) => key !== '') && keys.flat().length === 8);
          const names = Array.from({ length: 24 }, () => fresh());
          const [one, two] = [names, names].map((its) => its.map((name) => request(name)));
          assert.deepEqual(new Set(await a.answers(...one)), new Set(['granted']));
          assert.deepEqual(new Set(await b.answers(...two)), new Set(['queued']));
          await a.answers(...one.map(end));
          const told = new Set();
          while (told.size < 24) told.add((await b.next()).granted);
          assert.deepEqual(told, new Set(valuesOf(two, 'ref')));
          assert.equal((await b.adapter.query()).length, 24);
          await b.hello();
          await b.answers(...two.map(end));
          await closeAll(a, b);
        });

        test('many shards of a node have no more listeners than a few', async (t) => {
          const warnings = [];
          const note = ({ name }) => warnings.push(name);
          process.on('warning', note);
          t.after(() => process.off('warning', note));
          await closeAll(await clientIn({ bucket: `many ${kind}`, shards: 64 }));
          await new Promise(setImmediate);
          assert.deepEqual(warnings, []);
        });

        test('messages go to no node without the slot, except for older versions', async () => {
          const options = { bucket: `messages ${kind}` };
          const [a, b] = [await clientIn(options), await clientIn(options)];
          const { owner } = await cluster.find(stored(options.bucket).prefix);
          const own = stored(options.bucket, 0, owner);
          const countSent = async () => {
            const info = (await owner.call('CLUSTER', 'INFO')).join('\n');
            return Number(/cluster_stats_messages_publish_sent:(\d+)/.exec(info)?.[1] ?? 0);
          };
          const handOver = async (isOld) => {
            const [held, waiting] = [request('name'), request('name')];
            await a.answers(held);
            await b.answers(waiting);
            const before = await countSent();
            await a.answers(end(held));
            assert.equal((await b.next()).granted, waiting.ref);
            await b.renew();
            assert.equal((await countSent()) > before, isOld);
            await b.answers(end(waiting));
          };
          await handOver(false);
          await own.call('HDEL', `i:${b.session}`, 'in_shard');
          await handOver(true);
          await b.hello();
          await handOver(false);
          // A session of an older version notifies all nodes.
          await owner.call('PUBLISH', `${own.prefix}:c:${b.session}`, 'g 7 8');
          assert.equal((await b.next()).granted, 7);
        });

        test('odd options of the client change nothing', async () => {
          const { readonly: _, ...login } = oddOptionsOf(kind);
          await worksWithOddOptions(await clientIn({ bucket: `odd ${kind}`, login }, 5_000));
        });

        test('a slot that is moved to another node keeps its locks', async () => {
          const options = { bucket: `moved ${kind}`, isSettled: false };
          const a = await clientIn(options, 30_000);
          const held = request('name');
          const [{ token }] = await a.step([held]);
          // While its keys move, neither of the nodes has all of them.
          await cluster.move(stored(options.bucket).prefix, () =>
            rejectsWith(clientIn(options), 'ERR_WEB_LOCKS_UNREACHABLE'),
          );
          const b = await clientIn(options);
          const attempt = request('name', { kind: 'ifAvailable' });
          assert.deepEqual(await b.answers(attempt), ['unavailable']);
          // Messages of the slot no longer arrive.
          assert.ok((await a.next()).down);
          await a.hello();
          const { grantsIn: careful, mine } = await a.renew();
          assert.deepEqual([...mine], [[held.ref, token]]);
          assert.ok(careful > 0, 'it is another server');
        });
      });
    }

    for (const right of ['ssubscribe', 'spublish']) {
      test(`locks are handed over without the right to ${right}`, async () => {
        const login = { username: right, password: right };
        const rights = ['reset', 'on', `>${right}`, '~*', '&*', '+@all', `-${right}`];
        for (const node of cluster.nodes) await node.call('ACL', 'SETUSER', right, ...rights);
        for (const make of [clusterClients.ioredis, clusterClients['node-redis']]) {
          const options = { port: cluster.port, bucket: right, isSettled: true };
          const a = await clientBy(make)({ ...options, login });
          const b = await clientBy(make)({ ...options, login });
          const name = fresh();
          const [held, waiting] = [request(name), request(name)];
          await a.answers(held);
          await b.answers(waiting);
          await a.answers(end(held));
          assert.equal((await b.next()).granted, waiting.ref);
        }
      });
    }
  });

  describe('a process that closes its bucket ends', () => {
    test('while a node of the cluster is gone', async () => {
      const cluster = await startingCluster;
      const { owner } = await cluster.find(stored().prefix);
      const kinds = Object.keys(clusterClients).map((kind) => `${kind} cluster`);
      const users = await Promise.all(kinds.map((kind) => startUser(kind, cluster.port)));
      // Each process closes its bucket when its session is lost.
      await owner.crash();
      const codes = await Promise.all(users.map(({ exit }) => exit));
      assert.deepEqual(
        codes,
        kinds.map((kind) => [kind, 0]),
      );
    });

    test('while the server hangs', async () => {
      const own = await startRedis();
      const kinds = Object.keys(clients);
      const users = await Promise.all(kinds.map((kind) => startUser(kind, own.port)));
      await own.signal('SIGSTOP');
      for (const user of users) user.close();
      const codes = await Promise.all(users.map(({ exit }) => exit));
      await own.signal('SIGCONT');
      await own.stop();
      assert.deepEqual(
        codes,
        kinds.map((kind) => [kind, 0]),
      );
    });
  });

  describe('what can be wrong:', () => {
    test('options that are not allowed are TypeErrors', () => {
      const given = any(server.port);
      for (const options of [
        { client: { duplicate() {} } },
        { client: given, shards: 0 },
        { client: given, shards: 1.5 },
        { client: given, strict: 'yes' },
        { client: given, failover: 'often' },
        { client: clusterClients.ioredis(server.port), strict: true },
        { client: given, prefix: 'a{b' },
        { client: given, prefix: 1 },
        { client: any(server.port, { keyPrefix: '{app}:' }) },
        { client: clusterClients.ioredis(server.port, { keyPrefix: '{app}:' }) },
      ]) {
        assert.throws(() => new RedisAdapter('', options), { name: 'TypeError' });
      }
      const tagged = any(1, { keyPrefix: '{app}:' });
      assert.ok(new RedisAdapter('', { client: tagged, prefix: 'app:' }));
    });

    test('an object that is no client is named, and what to pass instead', () => {
      const method = () => {};
      const { createClientPool, createSentinel } = require('redis');
      const four = require('redis4');
      const nodes = [{ host: '127.0.0.1', port: 1 }];
      // The members by which the two classes of glide 2.0 to 2.5 differ from other clients.
      const glide = { customCommand: method, invokeScript: method };
      const glideCluster = { ...glide, invokeScriptWithRoute: method };
      const sentinel = createSentinel({ name: 'main', sentinelRootNodes: nodes });
      const cases = [
        [undefined, /'client' is undefined; expected a client of redis 5 or 6/],
        ['redis://host', /is 'redis:\/\/host'.*Pass createClient\(/],
        [new Map(), /is an object of the class Map/],
        [four.createClient(), /a client of redis 4 \(createClient\).*npm install redis@latest/],
        [four.createCluster({ rootNodes: nodes }), /redis 4 \(createCluster\).*createCluster\(/],
        [{ duplicate: method, send_command: method }, /is a client of redis 3/],
        [sentinel, /Sentinel.*sentinels.*ioredis/],
        [createClientPool(), /is a pool.*createClient\(options\)/],
        [glide, /glide \(GlideClient\), which does not say .* Pass new Valkey\(.*iovalkey/],
        [glideCluster, /glide \(GlideClusterClient\), with which .* Pass new Cluster\(.*iovalkey/],
        [{ evalsha: method, pipeline: method }, /HTTP.*rediss:/],
      ];
      for (const [given, message] of cases) {
        const expected = { name: 'TypeError', message };
        assert.throws(() => new RedisAdapter('', { client: given }), expected);
      }
    });

    test('a server that would evict locks is refused', async () => {
      await server.call('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
      await assert.rejects(client(), { code: 'ERR_WEB_LOCKS_EVICTION', message: /noeviction/ });
      await server.call('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    });

    test('a bucket of another version, or number of shards, is refused', async () => {
      const bucket = 'other shape';
      await client({ bucket, shards: 2 });
      const refused = (message) =>
        assert.rejects(client({ bucket }), { code: 'ERR_WEB_LOCKS_BUCKET', message });
      await refused(/2 shards/);
      await stored(bucket).set('version', '99');
      await refused(/99/);
    });

    test('a user needs few rights, and an error says where they are listed', async () => {
      const login = { username: 'app', password: 'app' };
      await server.call('ACL', 'SETUSER', 'app', 'on', '>app', '~mine:*', '+@all', 'resetchannels');
      const code = 'ERR_WEB_LOCKS_RIGHTS';
      await assert.rejects(client({ login }), { code, message: /docs\/CLUSTER\.md/ });
      const rights = ['resetkeys', '~{wl:*', '&{wl:*', '-@all', '+@read', '+@write', '+@pubsub'];
      const more = ['+@connection', '+evalsha', '+eval', '+info', '+time'];
      await server.call('ACL', 'SETUSER', 'app', ...rights, ...more);
      const a = await client({ login });
      const op = request(fresh());
      assert.deepEqual(await a.answers(op), ['granted']);
      assert.deepEqual(await a.answers(end(op)), ['ended']);
    });

    test('errors of Redis 6, and of this process, mean what those of others do', () => {
      const errors = {
        retry: [
          "READONLY You can't write against a read only replica.",
          'CLUSTERDOWN The cluster is down',
          "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
          'ERR Error running script (call to f_1): @user_script:1: -MISCONF Redis is configured to',
          'ERR Error running script (call to f_1): @user_script: 1: -OOM command not allowed',
          'ERR max number of clients reached',
          'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
          'LOADING Redis is loading the dataset in memory',
          'ERR Error running script (call to f_1): Script killed by user with SCRIPT KILL...',
        ],
        fatal: [
          'NOAUTH Authentication required.',
          'DENIED Redis is running in protected mode.',
          "NOPERM this user has no permissions to run the 'set' command",
        ],
        refused: [
          'ERR user_script:7: Script attempted to access nonexistent global variable',
          'WRONGTYPE Operation against a key holding the wrong kind of value',
        ],
      };
      const { classify } = new RedisAdapter('', { client: any(1) });
      for (const [meaning, texts] of Object.entries(errors)) {
        for (const text of texts) assert.equal(classify(explain(new Error(text))), meaning, text);
      }
      assert.equal(classify(explain(new RangeError('Maximum call stack size exceeded'))), 'local');
      assert.equal(classify(explain(new TypeError('x'))), 'local');
      const cut = Object.assign(new Error('write EPIPE'), { syscall: 'write' });
      assert.equal(classify(explain(cut)), 'retry');
    });

    for (const [what, code, arrange] of [
      ['has no memory', 'OUT_OF_MEMORY', (own) => own.call('CONFIG', 'SET', 'maxmemory', '1')],
      [
        'lacks replicas',
        'NOT_REPLICATED',
        (own) => own.call('CONFIG', 'SET', 'min-replicas-to-write', '1'),
      ],
      ['becomes a replica', 'STANDBY', (own) => own.call('REPLICAOF', '127.0.0.1', '1')],
      [
        'cannot save',
        'BUSY',
        async (own) => {
          fs.mkdirSync(path.join(own.folder, 'dump.rdb'));
          await own.call('CONFIG', 'SET', 'save', '3600 1');
          await own.call('BGSAVE');
          await own.until(/rdb_last_bgsave_status:err/);
        },
      ],
    ])
      test(`a call is retried if the server ${what}`, async () => {
        const own = await startRedis();
        const refused = `ERR_WEB_LOCKS_${code}`;
        const a = await client({ port: own.port });
        const [held, other] = [request('held'), request('other')];
        await a.answers(held, other);
        await arrange(own);
        // The first operation writes nothing, so the second one is refused.
        const fails = request('held', { kind: 'ifAvailable' });
        const ops = [request('free'), request('free', { kind: 'steal' })];
        // An end, which only deletes, needs no memory.
        if (code !== 'OUT_OF_MEMORY') ops.push(end(other));
        for (const call of [
          ...ops.map((op) => () => a.step([fails, op])),
          a.renew,
          () => client({ port: own.port }),
        ])
          await assert.rejects(call, (error) => {
            assert.deepEqual([error.code, a.adapter.classify(error)], [refused, 'retry']);
            return true;
          });
        await own.crash();
      });

    describe('a server that cannot serve is named, with what it lacks:', () => {
      const sentinel = async () => (await startSentinel(await startRedis(), /\+monitor /)).port;
      async function isNamed(one, code, message, meaning = 'fatal') {
        const adapter = new RedisAdapter('never', { client: one });
        await assert.rejects(adapter.open({ clientId: 'a' }, TTL, NOTHING_SEEN), (error) => {
          const { classify } = adapter;
          assert.deepEqual([error.code, classify(error)], [code, meaning], error.message);
          assert.match(error.message, message);
          return true;
        });
        await adapter.dispose();
      }

      /**
       * @type {[what: string, message: RegExp, start: () => Promise<number>, ...more: string[]][]}
       */
      const CASES = ['EVALSHA', 'EVAL', 'SUBSCRIBE', 'TIME', 'PUBLISH'].map((command) => [
        `no ${command}`,
        new RegExp(`unknown (command '${command}'|(Redis )?command called)`, 'i'),
        async () => (await startRedis({ settings: ['--rename-command', command, ''] })).port,
      ]);
      CASES.push(['a Sentinel', /not to a Sentinel.*EVALSHA/, sentinel]);
      CASES.push(['none', /./, async () => 1, 'ERR_WEB_LOCKS_UNREACHABLE', 'retry']);
      for (const [what, message, start, code = 'ERR_WEB_LOCKS_SERVER', meaning] of CASES) {
        test(what, async () => {
          const port = await start();
          for (const make of Object.values(clients)) {
            await isNamed(make(port), code, message, meaning);
          }
        });
      }

      test('one server, and a Sentinel, by clients of a cluster', async () => {
        const port = await sentinel();
        for (const make of Object.values(clusterClients)) {
          const one = make(server.port);
          await isNamed(one, 'ERR_WEB_LOCKS_CLUSTER', /not part of a cluster/, 'misuse');
          await isNamed(make(port), 'ERR_WEB_LOCKS_SERVER', /Sentinel/);
        }
      });
    });
  });
});
