// slow: 79; long; waits; needs: redis

'use strict';

/** The adapter of Redis against the contract, at a real server, with clients of all kinds. */

const assert = require('node:assert/strict');
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { on, once } = require('node:events');
const net = require('node:net');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');
const { setImmediate } = require('node:timers/promises');

const { RedisAdapter } = require('../../lib/cluster/engines/redis/adapter.js');
const { explain } = require('../../lib/cluster/engines/redis/errors.js');
const { openBucket } = require('../../lib/redis.js');
const {
  LONG,
  TTL,
  clientOf,
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
} = require('./contract.js');
const { valuesOf } = require('../helpers/locks.js');
const { tellStories } = require('./stories.js');
const { FaultyProxy } = require('./proxy.js');
const refusal = require('./refusal.js');
const { clients, clusterClients, oddOptionsOf } = require('./redis-clients.js');
const {
  freePort,
  lacks,
  startRedis,
  startRedisCluster,
  startSentinel,
  stopAll,
} = require('./servers.js');

/** @type {Awaited<ReturnType<typeof startRedis>>} */
let server;
/** @type {ReturnType<typeof startRedisCluster>} */
let startingCluster;
const any = clients.ioredis;

/** What makes an adapter of a kind of client, and a session of it. */
const clientBy =
  (make) =>
  async (
    { bucket = 'bucket', port = server.port, login, ...options } = {},
    ttl = TTL,
    seen = undefined,
  ) => {
    const adapter = new RedisAdapter(bucket, { client: make(port, login), ...options });
    if (port === server.port)
      await settle(bucket, options.prefix ?? login?.keyPrefix, options.shards);
    return clientOf(adapter, ttl, seen);
  };
const client = clientBy(any);

/**
 * Has the server know a bucket, unless it was in use before: a bucket that is new to a server that
 * is younger than a lease begins with a quarantine.
 */
async function settle(bucket, prefix = '', shards = 1) {
  for (let shard = 0; shard < shards; shard++) {
    const key = `${prefix}{wl:${bucket}${shard > 0 ? `#${shard}` : ''}}:m`;
    if (known.has(key)) continue;
    known.add(key);
    const [, run] = /run_id:(\w+)/.exec((await server.call('INFO', 'server')).join('\n'));
    const now = Date.now();
    const life = createHash('sha1').update(key).digest('hex');
    const lives = `${createHash('sha1').update(life).digest('hex').slice(0, 16)} `;
    const its = { run, life, lives, from: 0, renewed: now, tok: `${now}000` };
    await server.call('HSET', key, ...Object.entries(its).flat().map(String));
  }
}
const known = new Set();

/** What a server says to a connection for which it has no room. */
const TOO_MANY = Buffer.from('-ERR max number of clients reached\r\n');

const P = '{wl:bucket}';
/** Makes a lease run out, as time would; it is not extended because nobody has renewed for long. */
const expire = async (session, prefix = P) => {
  const [seconds] = await server.call('TIME');
  const past = String(Number(seconds) * 1_000 - 1_000);
  await server.call('HSET', `${prefix}:i:${session}`, 'graced', '1', 'till', past);
  await server.call('ZADD', `${prefix}:s`, past, session);
};
/** How much there is of a session. */
const left = async (session) => {
  const [keys] = await server.call('EXISTS', `${P}:i:${session}`, `${P}:t:${session}`);
  const [rank] = await server.call('ZRANK', `${P}:s`, session);
  return Number(keys) + (rank === '' ? 0 : 1);
};
const sleep = require('node:timers/promises').setTimeout;
/** The time to live of each key of a bucket, milliseconds; -1 for none. */
const livesOf = async (bucket) => {
  const keys = (await server.call('KEYS', `{wl:${bucket}}*`)).filter((key) => key);
  const lives = new Map();
  for (const key of keys) {
    const [life] = await server.call('PTTL', key);
    lives.set(key.slice(`{wl:${bucket}}:`.length), Number(life));
  }
  return lives;
};
const WEEK = 7 * 24 * 3_600_000;
/** A lease that is shorter than servers of a test are old. */
const SHORT = 2_000;
/** A process that was started; rejects if it ends before. */
const saysSomething = (user) =>
  Promise.race([
    once(user, 'message'),
    once(user, 'exit').then(() => assert.fail('it ended before it was open')),
  ]);
/**
 * A process that connects to a server, and does nothing else once it is told that it is connected;
 * or drops the connections, and ends with 3 if that takes long.
 * @param {string} kind of its client
 * @param {number} port
 * @param {boolean} isSecure
 */
function connecting(kind, port, isSecure) {
  const { spawn } = require('node:child_process');
  const [of] = kind.split(' ');
  const options = {
    ioredis: { host: 'name', ...(isSecure && { tls: {} }) },
    'node-redis': { url: `redis${isSecure ? 's' : ''}://name:${port}` },
  }[of];
  // Nobody is at the first address that is found: a socket has another handle for the next.
  const addresses = isSecure ? ['127.0.0.1'] : ['127.0.0.2', '127.0.0.1'];
  const program = `
    const { clients } = require('./test/cluster/redis-clients.js');
    const { RedisAdapter } = require('./lib/cluster/engines/redis/adapter.js');
    const dns = require('node:dns');
    const found = ${JSON.stringify(addresses)}.map((address) => ({ address, family: 4 }));
    dns.lookup = (name, options, tell) =>
      options.all ? tell(null, found) : tell(null, found[0].address, 4);
    dns.promises.lookup = async () => found[0];
    const client = clients['${kind}'](${port}, ${JSON.stringify(options)});
    const seen = { life: '', token: 0n };
    const adapter = new RedisAdapter('idle', { client });
    const opened = adapter.open({ clientId: 'a' }, 5000, seen);
    process.once('message', (message) => {
      process.disconnect();
      if (message !== 'drop') return;
      opened.catch(() => {});
      adapter.dispose();
      setTimeout(() => process.exit(3), 60_000).unref();
    });`;
  const stdio = ['ignore', 'inherit', 'inherit', 'ipc'];
  return spawn(process.execPath, ['-e', program], { stdio });
}
/** How such a process ends, if the server says nothing, and does not take leave either. */
async function endOfConnecting(t, kind, isSecure, message) {
  let expected = 2;
  const silent = net.createServer({ allowHalfOpen: true }, (socket) => {
    t.after(() => socket.destroy());
    socket.on('error', () => {}).resume();
    if (--expected === 0) program.send(message);
  });
  t.after(() => silent.close());
  await once(silent.listen(0, '127.0.0.1'), 'listening');
  const program = connecting(kind, silent.address().port, isSecure);
  return once(program, 'exit');
}
/** What a server gets first of each of so many connections: a command, or their end. */
async function firstOfEach(t, silent, count) {
  const firsts = [];
  for await (const [socket] of on(silent, 'connection')) {
    t.after(() => socket.destroy());
    const first = new Promise((resolve) => {
      socket.on('data', () => resolve('command')).on('close', () => resolve('end'));
      socket.on('error', () => {});
    });
    if (firsts.push(first) === count) return Promise.all(firsts);
  }
}
/**
 * Lets milliseconds pass: all times of a bucket, or of a shard of it, are so much longer ago. A mark
 * that is over stays over, though the server may still have it.
 */
const shift = (prefix, milliseconds) =>
  server.call('EVAL', SHIFT, '1', prefix, String(milliseconds));
const SHIFT = `
  local P, by, call = KEYS[1], tonumber(ARGV[1]), redis.call
  local function move(hash, ...)
    for _, field in ipairs({ ... }) do
      local at = tonumber(call('HGET', hash, field) or 0)
      if at > 0 then call('HSET', hash, field, string.format('%.0f', at - by)) end
    end
  end
  move(P .. ':m', 'from', 'renewed', 'missed')
  for _, key in ipairs(call('KEYS', P .. ':i:*')) do move(key, 'till', 'kept') end
  local time = call('TIME')
  local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  for all, since in pairs({ [':s'] = '0', [':k'] = now }) do
    for _, one in ipairs(call('ZRANGEBYSCORE', P .. all, '(' .. since, '+inf')) do
      call('ZINCRBY', P .. all, string.format('%.0f', -by), one)
    end
  end`;
/** Deletes all queues, which are made again of the rows of names. */
const DELETE_QUEUES = `for _, key in ipairs(redis.call('KEYS', KEYS[1] .. ':q:*')) do
  redis.call('DEL', key) end`;
const setUp = (bucket, ...fields) => server.call('HSET', `{wl:${bucket}}:m`, ...fields);
/** Deletes what there is of a name, with its only request of a session. */
const remove = (_, { name }) =>
  server.call('DEL', ...['n', 'r', 'q'].map((kind) => `${P}:${kind}:${name}`));
/** It is over just now: names that wait are set going by a sweep. */
const endQuarantine = async (bucket) => {
  const [seconds] = await server.call('TIME');
  await setUp(bucket, 'from', String(Number(seconds) * 1_000));
};
/** An engine for stories, with a bucket of its own whose clock is the test's. */
const storiesOf = (bucket, engine, shards = 1) => {
  const prefixes = Array.from(
    { length: shards },
    (_, i) => `{wl:${bucket}${i > 0 ? `#${i}` : ''}}`,
  );
  const each = (work) => Promise.all(prefixes.map(work));
  return {
    ...engine,
    client: (_, ttl) => engine.client({ bucket, shards }, ttl),
    endQuarantine: () => each((prefix) => server.call('HSET', `${prefix}:m`, 'from', '0')),
    expire: (session) => each((prefix) => expire(session, prefix)),
    livesOf: (life) => prefixes.map(() => life).join(' '),
    shift: (milliseconds) => each((prefix) => shift(prefix, milliseconds)),
    spoil: () => each((prefix) => server.call('EVAL', DELETE_QUEUES, '1', prefix)),
  };
};
const sessionsOf = (bucket) => server.call('ZRANGE', `{wl:${bucket}}:s`, '0', '-1');

describe('Redis', { skip: lacks.redis }, () => {
  // Answers of an open session do not keep a process alive, this does.
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

  test('marks that are over do not add up', async () => {
    const bucket = 'over';
    const a = await client({ bucket });
    for (let i = 0; i < 50; i++) {
      const held = request(fresh());
      await a.answers(held);
      await a.answers(done(held, 1));
      while (await a.adapter.marked(held.name));
    }
    for (const key of ['k', 'w']) {
      const [count] = await server.call(key === 'k' ? 'ZCARD' : 'HLEN', `{wl:${bucket}}:${key}`);
      assert.ok(Number(count) <= 2, count);
    }
  });

  for (const [kind, make] of Object.entries(clients)) {
    describe(`by ${kind}`, () => {
      const engine = {
        client: clientBy(make),
        alone: { bucket: `alone ${kind}` },
        keeper: ({ bucket = 'bucket' } = {}) =>
          new RedisAdapter(bucket, { client: make(server.port) }),
        leaseEnd: async (session) => Number((await server.call('ZSCORE', `${P}:s`, session))[0]),
        endQuarantine: ({ bucket }) => endQuarantine(bucket),
        expire,
        left,
        remove,
        window: 4,
        port: () => server.port,
        through: (port) => ({ port }),
        lastWords: { 'that there are too many': TOO_MANY },
        stride: 47,
      };
      contractOfClients(engine);
      if (make === any) {
        contract(engine);
        tellStories((lane) => storiesOf(`stories ${lane}`, engine));
        const ofShards = { ...engine, hasNoGroups: true, countsApart: true, window: 1 };
        tellStories((lane) => storiesOf(`stories of shards ${lane}`, ofShards, 3), 0.4);
      }

      test('nothing of it keeps a process alive', async () => {
        const { execFile } = require('node:child_process');
        const program = `
          const { clients } = require('./test/cluster/redis-clients.js');
          const { RedisAdapter } = require('./lib/cluster/engines/redis/adapter.js');
          const client = clients['${kind}'](${server.port});
          const opening = setInterval(() => {}, 1000);
          new RedisAdapter('idle', { client }).open({ clientId: 'a' }, 5000, { life: '', token: 0n }).then(() => {
            process.stdout.write('open');
            clearInterval(opening);
          });`;
        const output = await new Promise((resolve, reject) => {
          execFile(process.execPath, ['-e', program], { timeout: 300_000 }, (error, stdout) =>
            error ? reject(error) : resolve(stdout),
          );
        });
        assert.equal(output, 'open');
      });

      for (const isSecure of [false, true]) {
        const how = isSecure ? ', by TLS' : '';
        test(`nor does a connection that the server says nothing to${how}`, async (t) => {
          assert.deepEqual(await endOfConnecting(t, kind, isSecure, 'stay'), [0, null]);
        });
      }

      test('nor what is left of such a connection that was dropped', async (t) => {
        assert.deepEqual(await endOfConnecting(t, kind, false, 'drop'), [0, null]);
      });

      // An ioredis has not begun to connect yet; a node-redis has, and then cannot be stopped.
      if (kind.startsWith('node-redis')) {
        test('a connection that was dropped before it was there is ended when it is', async (t) => {
          const silent = net.createServer();
          t.after(() => silent.close());
          await once(silent.listen(0, '127.0.0.1'), 'listening');
          const adapter = new RedisAdapter('b', { client: clients[kind](silent.address().port) });
          const opened = adapter.open({ clientId: 'a' }, TTL, { life: '', token: 0n });
          const got = firstOfEach(t, silent, 2);
          adapter.dispose();
          await assert.rejects(opened);
          assert.deepEqual(await got, ['end', 'end']);
        });
      }

      test('other options of the client do not come in the way', async () => {
        const a = await clientBy(make)({ login: oddOptionsOf(kind) }, 5_000);
        await a.renew();
        // Longer than any of them would have it.
        await sleep(300);
        const op = request(fresh());
        const asked = [a.renew(), a.answers(op), a.adapter.query(), a.adapter.marked(op.name)];
        assert.deepEqual((await Promise.all(asked))[1], ['granted']);
        assert.deepEqual(a.told, []);
      });

      test('keys and channels begin with the prefix, by default that of the client', async () => {
        const [name, rights] = [fresh(), ['~dev:*', '&dev:*', '+@all', '-@dangerous', '+info']];
        await server.call('ACL', 'SETUSER', 'dev', 'reset', 'on', '>dev', ...rights);
        const login = { username: 'dev', password: 'dev', keyPrefix: 'dev:' };
        // A node-redis 5 has no keyPrefix.
        const prefix = kind === 'node-redis 5' ? 'dev:' : undefined;
        const bucket = `prefix ${kind}`;
        const a = await clientBy(make)({ bucket, login, prefix });
        const held = request(name);
        assert.deepEqual(await a.answers(held, request(name)), ['granted', 'queued']);
        await a.answers(end(held));
        assert.ok('granted' in (await a.next()));
        await a.renew();
        const other = { keyPrefix: 'dev:' };
        const b = await clientBy(make)({ bucket, login: other, prefix: 'prod:' });
        const c = await clientBy(make)({ bucket, login: other, prefix: '' });
        for (const one of [b, c]) assert.deepEqual(await one.answers(request(name)), ['granted']);
        assert.equal(new Set([a, b, c].map(({ adapter }) => adapter.id)).size, 3);
      });

      test('a wrong password is told', async () => {
        await server.call('ACL', 'SETUSER', 'known', 'on', '>secret', '~*', '&*', '+@all');
        const login = { username: 'known', password: 'wrong' };
        await rejectsWith(clientBy(make)({ login }), 'ERR_WEB_LOCKS_RIGHTS');
      });
    });
  }

  test('what an old connection still says changes nothing', async () => {
    const a = await client();
    const script = require('../../lib/cluster/engines/redis/redis.lua.js');
    const op = 'r900000 0 -1\nkey\nx 0\n0 ""\n\n"name"';
    const [run] = await server.call('HGET', `${P}:m`, 'run');
    const common = ['step', a.session, `1 ${TTL} 0`, '0'];
    const late = ['EVAL', script, '1', P, ...common, run, '1', '0', op];
    await a.hello();
    assert.deepEqual(await server.call(...late), ['-5']);
    assert.equal((await a.renew()).mine.size, 0);
  });

  test('data whose lock an older version has stolen is gone with the next renewal', async () => {
    const [a, b] = [await client(), await client()];
    const held = request(fresh());
    await a.answers(held);
    await a.answers({ kind: 'publish', ref: held.ref, name: held.name, data: '1' });
    const info = `${P}:i:${a.session}`;
    await b.answers(request(held.name, { kind: 'steal' }));
    // An older thief leaves it.
    await server.call('HSET', info, `d${held.ref}`, '1', 'd1', '2');
    assert.equal((await b.adapter.query(held.name))[0].data, '');
    await a.renew();
    assert.deepEqual(await server.call('HMGET', info, `d${held.ref}`, 'd1'), ['', '']);
  });

  test('an end removes the data of its lock, and a lock without data costs no more', async () => {
    const a = await client();
    const [held, plain] = [request(fresh()), request(fresh())];
    await a.answers(held, plain);
    await a.answers({ kind: 'publish', ref: held.ref, name: held.name, data: '1' });
    await a.answers(end(plain));
    await a.answers(end(held));
    const fields = await server.call('HKEYS', `${P}:i:${a.session}`);
    assert.deepEqual(
      fields.filter((field) => /^[dr]\d/.test(field)),
      [],
    );
  });

  test('a bucket that was closed leaves one key', async () => {
    const a = await client({ bucket: 'closed' });
    const ops = [request('a'), request('a'), shared('b'), request('c', { kind: 'steal' })];
    await a.answers(...ops);
    await a.adapter.close(a.session);
    assert.deepEqual(await server.call('KEYS', '{wl:closed}*'), ['{wl:closed}:m']);
  });

  test('a session whose connection ends meanwhile is closed by another one', async () => {
    const proxy = await FaultyProxy.open(server.port);
    const a = await client({ port: proxy.port });
    proxy.cutAfter(1, 'up');
    await a.adapter.close(a.session);
    assert.equal(await left(a.session), 0);
    await proxy.close();
  });

  test('a script that the server has forgotten is sent again', async () => {
    const a = await client();
    await server.call('SCRIPT', 'FLUSH');
    assert.deepEqual(await a.answers(request(fresh())), ['granted']);
  });

  test('a hundred dead before it do not make a request wait', async () => {
    const [dead, a] = [await client(), await client()];
    const name = fresh();
    for (let i = 0; i < 3; i++) {
      await dead.answers(...Array.from({ length: 60 }, () => request(name)));
    }
    const op = request(name);
    await a.answers(op);
    await expire(dead.session);
    await a.adapter.sweep();
    assert.equal((await a.next()).granted, op.ref);
  });

  describe('shards', () => {
    test('names are in several slots', async () => {
      const a = await client({ bucket: 'shards', shards: 4 });
      await a.answers(...Array.from({ length: 40 }, () => request(fresh())));
      assert.equal((await server.call('KEYS', '{wl:shards*:n:*')).length, 40);
      assert.equal((await server.call('KEYS', '{wl:shards*:s')).length, 4);
    });

    test('renew tells of the lease that runs out first, in whichever', async () => {
      const options = { bucket: 'first', shards: 3 };
      for (let shard = 0; shard < 3; shard++) {
        const [a, b] = [await client(options, 60_000), await client(options, 60_000)];
        const prefix = `{wl:first${shard > 0 ? `#${shard}` : ''}}`;
        const [seconds] = await server.call('TIME');
        const soon = String((Number(seconds) + 10) * 1_000);
        await server.call('ZADD', `${prefix}:s`, soon, b.session);
        const { nextExpiryIn } = await a.renew();
        assert.ok(nextExpiryIn <= 10_000, String(nextExpiryIn));
        await Promise.all([a, b].map(({ adapter, session }) => adapter.close(session)));
      }
    });

    test('R5: each has a life, and tokens, of its own', async () => {
      const options = { bucket: 'lives', shards: 3 };
      const a = await client(options);
      const names = Array.from({ length: 12 }, () => fresh());
      const answers = await a.step(names.map((name) => request(name)));
      // One of them counts far ahead of the others.
      await server.call('HINCRBY', '{wl:lives#1}:m', 'tok', '900000000');
      const [ahead] = (await a.step(names.map((name) => request(name, { kind: 'steal' }))))
        .map(({ token }) => token)
        .sort((one, two) => (one > two ? -1 : 1));
      assert.ok(ahead > answers[0].token + 800_000_000n);
      const { grantsIn, life } = await a.renew();
      assert.equal(grantsIn, 0);
      const seen = { life, token: ahead };
      const next = await a.adapter.renew(seen);
      assert.deepEqual([next.grantsIn, next.life], [0, life], 'no shard is behind');
      const b = await client(options, TTL, seen);
      assert.equal((await b.renew()).grantsIn, 0);
      // One of them comes back as it was.
      await server.call('HINCRBY', '{wl:lives#1}:m', 'tok', '-900000000');
      const reborn = await a.adapter.renew(seen);
      assert.ok(reborn.grantsIn > 0);
      const changed = reborn.life.split(' ').map((one, i) => one !== life.split(' ')[i]);
      assert.deepEqual(changed, [false, true, false]);
      assert.equal((await a.adapter.renew({ ...seen, life: reborn.life })).life, reborn.life);
    });

    test('another number of them is refused', async () => {
      await client({ bucket: 'other number', shards: 2 });
      await assert.rejects(client({ bucket: 'other number' }), {
        code: 'ERR_WEB_LOCKS_BUCKET',
        message: /2 shards/,
      });
    });

    test('they have no groups', () => {
      const given = { client: any(server.port), shards: 2 };
      assert.equal(new RedisAdapter('', given).can.groups, false);
    });
  });

  describe('what is left of processes that were killed', () => {
    /** All that has a life, after somebody held locks and waited, by name of key. */
    const use = async (bucket) => {
      const a = await client({ bucket });
      const marked = request('marked');
      await a.answers(request('held'), request('held'), request('free'), marked);
      await a.answers(done(marked, 3_600_000));
      return a;
    };

    test('goes by itself: all but the counter', async () => {
      const bucket = 'killed';
      const { session } = await use(bucket);
      const lives = await livesOf(bucket);
      assert.equal(lives.get('m'), -1);
      lives.delete('m');
      assert.deepEqual(
        [...lives.keys()].sort(),
        ['k', 'w', 's', `i:${session}`]
          // A lock that is alone on its name has no queue.
          .concat(['q:held', 'r:held', 'n:held', 'n:free'])
          .sort(),
      );
      for (const [key, life] of lives) {
        const most = /^[kw]$/.test(key) ? 3_602_000 : WEEK;
        assert.ok(life > most / 2 && life <= most, `${key}: ${life}`);
      }
    });

    test('is kept by who renews, once in a while', async () => {
      const bucket = 'kept';
      const { renew, session } = await use(bucket);
      const shorten = async () => {
        for (const key of (await livesOf(bucket)).keys()) {
          if (key !== 'm') await server.call('PEXPIRE', `{wl:${bucket}}:${key}`, '60000');
        }
      };
      await shorten();
      await renew();
      for (const life of (await livesOf(bucket)).values()) assert.ok(life <= 60_000);
      await server.call('HINCRBY', `{wl:${bucket}}:i:${session}`, 'kept', String(-WEEK / 7));
      await renew();
      for (const [key, life] of await livesOf(bucket)) {
        if (!/^[mkw]$/.test(key)) assert.ok(life > WEEK / 2, key);
      }
    });

    test('is kept by who comes, as a whole', async () => {
      const bucket = 'kept by others';
      await use(bucket);
      for (const what of 'nqr')
        await server.call('PEXPIRE', `{wl:${bucket}}:${what}:held`, '60000');
      const b = await client({ bucket });
      assert.deepEqual(await b.answers(request('held')), ['queued']);
      const lives = await livesOf(bucket);
      for (const what of 'nqr') assert.ok(lives.get(`${what}:held`) > WEEK / 2, what);
    });

    test('stays where the server evicts what would go', async () => {
      const bucket = 'evicting';
      const before = await use(bucket);
      await server.call('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru');
      const a = await use('evicting from the first');
      for (const [key, life] of await livesOf('evicting from the first')) {
        assert.equal(life, -1, key);
      }
      await before.hello();
      await before.renew();
      const marked = request('marked');
      await before.answers(marked, done(marked));
      for (const [key, life] of await livesOf(bucket)) assert.equal(life, -1, key);
      await server.call('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
      await a.hello();
      await a.renew();
      assert.ok((await livesOf('evicting from the first')).get('s') > 0);
    });

    test('that has gone with a jump of the clock is missed', async () => {
      const bucket = 'gone';
      const a = await use(bucket);
      const keys = [...(await livesOf(bucket)).keys()].filter((key) => key !== 'm');
      await server.call('DEL', ...keys.map((key) => `{wl:${bucket}}:${key}`));
      const b = await client({ bucket });
      assert.ok(b.grantsIn > TTL / 2 && b.grantsIn <= TTL, String(b.grantsIn));
      assert.ok((await b.renew()).grantsIn > 0);
      assert.deepEqual(await b.answers(request('held', { kind: 'ifAvailable' })), ['unavailable']);
      await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_SESSION_DEAD');
      for (const { adapter, session } of [a, b]) await adapter.close(session);
      // Who closes leaves nothing to miss.
      await server.call('DEL', `{wl:${bucket}}:s`);
      await setUp(bucket, 'from', '0');
      const c = await client({ bucket });
      assert.equal(c.grantsIn, 0);
      assert.equal((await c.renew()).grantsIn, 0);
    });

    describe('that has gone in part', () => {
      /** As when only the keys of sessions have expired, which are older than those of names. */
      const expireSessions = async (bucket, ...sessions) => {
        const keys = ['s', ...sessions.map((session) => `i:${session}`)];
        await server.call('DEL', ...keys.map((key) => `{wl:${bucket}}:${key}`));
      };
      /** What waited meanwhile is granted when it is over. */
      const isGrantedThen = async (bucket, { adapter, renew }) => {
        await endQuarantine(bucket);
        await adapter.sweep();
        for (const token of (await renew()).mine.values()) assert.ok(token > 0n);
      };

      test('keeps nobody waiting', async () => {
        const bucket = 'gone in part';
        const dead = await client({ bucket });
        await dead.answers(request('alone'), request('queue'), request('queue'));
        await expireSessions(bucket, dead.session);
        const b = await client({ bucket });
        const ops = [request('alone'), request('queue')];
        assert.deepEqual(await b.answers(...ops), ['queued', 'queued']);
        await isGrantedThen(bucket, b);
      });

      test('also if somebody else has kept the list of sessions', async () => {
        const bucket = 'kept list';
        const [dead, b] = [await client({ bucket }), await client({ bucket })];
        await dead.answers(request('name'));
        await server.call('DEL', `{wl:${bucket}}:i:${dead.session}`);
        await server.call('ZADD', `{wl:${bucket}}:s`, '1', dead.session);
        await b.adapter.sweep();
        assert.ok((await b.renew()).grantsIn > 0, 'what it had is not known');
        assert.deepEqual(await b.answers(request('name')), ['queued']);
        await isGrantedThen(bucket, b);
      });

      test("is nobody else's before a lease is over, if the clock has jumped so far", async () => {
        const bucket = 'almost a week';
        const [a, b] = [await client({ bucket }), await client({ bucket })];
        await a.answers(request('name'));
        await server.call('DEL', `{wl:${bucket}}:i:${a.session}`, `{wl:${bucket}}:n:name`);
        const [renewed] = await server.call('HGET', `{wl:${bucket}}:m`, 'renewed');
        const ahead = WEEK - 600_000;
        await setUp(bucket, 'renewed', String(Number(renewed) - ahead));
        for (const session of [a.session, b.session]) {
          await server.call('ZINCRBY', `{wl:${bucket}}:s`, String(-ahead), session);
        }
        await server.call('HINCRBY', `{wl:${bucket}}:i:${b.session}`, 'till', String(-ahead));
        assert.deepEqual(await b.answers(request('name')), ['queued']);
        assert.ok((await b.renew()).grantsIn > 0);
      });

      test('does not make who comes after a week wait, if all was closed', async () => {
        const bucket = 'closed for a week';
        const a = await client({ bucket });
        await a.answers(request('name'));
        await a.adapter.close(a.session);
        const [renewed] = await server.call('HGET', `{wl:${bucket}}:m`, 'renewed');
        await setUp(bucket, 'renewed', String(Number(renewed) - WEEK), 'from', '0');
        const b = await client({ bucket });
        assert.deepEqual(await b.answers(request('name')), ['granted']);
      });
    });
  });

  describe('keys of a name that somebody writes to', () => {
    const spoil = (bucket, name) => server.call('SET', `{wl:${bucket}}:n:${name}`, 'something');

    test('take nothing else from who has part in it', async () => {
      const bucket = 'spoiled';
      const a = await client({ bucket });
      const [spoiled, other] = [request('spoiled'), request('other')];
      await a.answers(spoiled, other);
      await spoil(bucket, 'spoiled');
      const { alive, mine } = await a.renew();
      assert.equal(alive, true);
      assert.deepEqual([...mine.keys()], [other.ref]);
      assert.deepEqual(valuesOf(await a.adapter.query(), 'name'), ['other']);
    });

    test('keep nobody waiting for what else the dead had', async () => {
      const bucket = 'spoiled by the dead';
      const [dead, b] = [await client({ bucket }), await client({ bucket })];
      const names = ['one', 'spoiled', 'two', 'three'];
      await dead.answers(...names.map((name) => request(name)));
      await setUp(bucket, 'from', '0');
      const waiting = names.filter((name) => name !== 'spoiled').map((name) => request(name));
      await b.answers(...waiting);
      await spoil(bucket, 'spoiled');
      await expire(dead.session, `{wl:${bucket}}`);
      await b.adapter.sweep();
      for (const { ref } of waiting) assert.ok((await b.renew()).mine.get(ref) > 0n);
    });

    test('and that are called like what servers say are not that', async () => {
      const a = await client({ bucket: 'called so' });
      await spoil('called so', 'ACL');
      const [error] = await Promise.allSettled([a.step([request('ACL')])]);
      assert.equal(error.reason.code, 'ERR_WEB_LOCKS_REDIS');
    });
  });

  test('who only looks at data that are lost begins no life: who comes next waits', async () => {
    const bucket = 'lost and looked at';
    const own = await startRedis({ clock: null }); // so it is younger than the lease
    const at = { bucket, port: own.port };
    const a = await client(at, LONG);
    await a.answers(request('name'));
    await own.call('FLUSHALL');
    const looking = new RedisAdapter(bucket, { client: any(own.port) });
    assert.deepEqual(await looking.query('name'), []);
    await looking.dispose();
    const b = await client(at, LONG);
    assert.ok((await b.renew()).grantsIn > 0);
  });

  test('the news of a second session are heard', async () => {
    const a = await client({ bucket: 'second session' });
    await a.renew();
    const info = { clientId: 'second', host: '', pid: 1, threadId: 0, threadName: '', version: '' };
    await a.adapter.open(info, TTL, { life: '', token: 0n });
    // That late an echo has to have arrived.
    await sleep(3_000);
    assert.equal((await a.renew()).alive, true);
  });

  test('first come, first served also where tickets get one digit more', async () => {
    const bucket = 'digits';
    const a = await client({ bucket });
    await setUp(bucket, 'tok', String(10 ** 15 - 3));
    const name = fresh();
    const ops = [1, 2, 3, 4, 5].map(() => request(name));
    await a.answers(...ops);
    assert.deepEqual(
      valuesOf(await a.adapter.query(name), 'ref'),
      ops.map(({ ref }) => ref),
    );
  });

  describe('keys that somebody deletes', () => {
    const now = async () => Number((await server.call('TIME'))[0]) * 1_000;

    for (const what of [
      'm',
      's',
      'i',
      's i',
      'n',
      'q',
      'r',
      'm s',
      's n',
      'i n',
      's i q',
      's i r',
      'm s i',
    ]) {
      test(`keep no lock of who is killed then, if others close in order: ${what}`, async () => {
        const bucket = `without ${what}`;
        const prefix = `{wl:${bucket}}`;
        const [dead, b] = [await client({ bucket }), await client({ bucket })];
        await dead.answers(request('held'), request('held'), request('alone'));
        const keyOf = (letter) => (letter === 'i' ? `i:${dead.session}` : `${letter}:held`);
        for (const letter of what.split(' ')) {
          await server.call('DEL', `${prefix}:${/[ms]/.test(letter) ? letter : keyOf(letter)}`);
        }
        await b.adapter.close(b.session);
        const c = await client({ bucket });
        const ops = [request('held'), request('alone')];
        await c.answers(...ops);
        const [score] = await server.call('ZSCORE', `${prefix}:s`, dead.session);
        if (score !== '') await expire(dead.session, prefix);
        for (let i = 0; i < 2; i++) {
          await setUp(bucket, 'from', String(await now()));
          await c.adapter.sweep();
        }
        const { mine } = await c.renew();
        for (const { ref } of ops) assert.ok(mine.get(ref) > 0n, String(mine.get(ref)));
      });
    }

    test('who a session is: it is dead, by any connection', async () => {
      const bucket = 'without an identity';
      const a = await client({ bucket });
      await a.answers(request('name'));
      await server.call('DEL', `{wl:${bucket}}:i:${a.session}`);
      await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_SESSION_DEAD');
      await rejectsWith(a.answers(request('other')), 'ERR_WEB_LOCKS_SESSION_DEAD');
      await rejectsWith(a.adapter.hello({ life: '', token: 0n }), 'ERR_WEB_LOCKS_SESSION_DEAD');
    });

    test('all of the bucket and of the session that is closed', async () => {
      const bucket = 'without a life';
      const [a, b] = [await client({ bucket }), await client({ bucket })];
      await a.answers(request('name'));
      await server.call('DEL', `{wl:${bucket}}:m`);
      await server.call('HDEL', `{wl:${bucket}}:i:${a.session}`, 'ttl');
      await a.adapter.close(a.session);
      assert.ok((await b.renew()).grantsIn > 0, 'what it had is not known');
    });

    test('what says that there is a queue: nothing of it stays', async () => {
      const bucket = 'without its queue';
      const a = await client({ bucket });
      const ops = [1, 2].map(() => request('name'));
      await a.answers(...ops);
      await server.call('DEL', `{wl:${bucket}}:n:name`);
      assert.deepEqual(await a.answers(...ops.map((op) => end(op))), ['ended', 'ended']);
      assert.deepEqual([...(await livesOf(bucket)).keys()].sort(), [`i:${a.session}`, 'm', 's']);
    });

    test('the rows of a name', async () => {
      const [a, b] = [await client(), await client()];
      const name = fresh();
      const [one, two] = [request(name), request(name)];
      await a.answers(one, two);
      await server.call('DEL', `${P}:n:${name}`);
      assert.deepEqual(await b.answers(request(name)), ['granted']);
      assert.equal((await a.renew()).mine.size, 0);
      assert.deepEqual(await a.answers(end(one), end(two)), ['ended', 'ended']);
    });
  });

  describe('a lock that is alone on its name', () => {
    /** What there is of a name. */
    const keysOf = async (name) =>
      (await server.call('KEYS', `${P}:[nqr]:${name}`)).filter((key) => key).sort();

    test('has no queue before somebody waits, and leaves nothing', async () => {
      const [a, b] = [await client(), await client()];
      const name = fresh();
      const [first, second] = [request(name), request(name)];
      await a.answers(first);
      assert.deepEqual(await keysOf(name), [`${P}:n:${name}`]);
      assert.deepEqual(await b.answers(second), ['queued']);
      assert.deepEqual(await keysOf(name), [`${P}:n:${name}`, `${P}:q:${name}`, `${P}:r:${name}`]);
      await a.answers(end(first));
      assert.equal((await b.next()).granted, second.ref);
      await b.answers(end(second));
      assert.deepEqual(await keysOf(name), []);
    });

    test('ends as long as nobody else has the name, also when the lease is over', async () => {
      const [a, b] = [await client(), await client()];
      const [held, lost] = [request(fresh()), request(fresh())];
      await a.answers(held, lost);
      await expire(a.session);
      assert.deepEqual(await a.answers(end(held)), ['ended']);
      assert.deepEqual(await keysOf(held.name), []);
      assert.deepEqual(await b.answers(request(lost.name)), ['granted']);
      await rejectsWith(a.step([end(lost)]), 'ERR_WEB_LOCKS_SESSION_DEAD');
      assert.equal((await b.adapter.query(lost.name)).length, 1);
    });

    test('is asked for and ended in one step, and leaves nothing', async () => {
      const bucket = 'at once';
      const a = await client({ bucket });
      const [op, other] = [request('name'), request('other')];
      const answers = await a.answers(op, end(op), other, end(other));
      assert.deepEqual(answers, ['granted', 'ended', 'granted', 'ended']);
      assert.deepEqual([...(await livesOf(bucket)).keys()].sort(), [`i:${a.session}`, 'm', 's']);
      const fields = await server.call('HKEYS', `{wl:${bucket}}:i:${a.session}`);
      assert.deepEqual(
        fields.filter((field) => /^r\d/.test(field)),
        [],
      );
    });

    test('is first in the queue that it gets, whatever was left of an old one', async () => {
      const [a, b] = [await client(), await client()];
      const name = fresh();
      const held = request(name);
      await a.answers(held);
      await server.call('ZADD', `${P}:q:${name}`, '-1', `${'0'.repeat(15)}1|999|${b.session}`);
      assert.deepEqual(await b.answers(request(name)), ['queued']);
      await b.answers(request(name, { kind: 'steal' }));
      assert.equal((await a.renew()).mine.size, 0);
    });

    test('is not there if its session cannot have it', async () => {
      const bucket = 'written to';
      const [a, b] = [await client({ bucket }), await client({ bucket })];
      const [name, other] = [fresh(), fresh()];
      await server.call('SET', `{wl:${bucket}}:i:${a.session}`, 'something else');
      await assert.rejects(a.step([request(name)]));
      await b.answers(request(other));
      await assert.rejects(a.step([request(other)]));
      assert.deepEqual(await b.adapter.query(name), []);
      assert.equal((await b.adapter.query(other)).length, 1);
    });
  });

  test('data of another server, under the same connection, are noticed by the next step', async () => {
    const bucket = 'replaced';
    const a = await client({ bucket });
    const name = fresh();
    await a.answers(request(name));
    await server.call('HSET', `{wl:${bucket}}:m`, 'run', 'of another one');
    assert.deepEqual(await a.answers(request(fresh(), { kind: 'ifAvailable' })), ['unavailable']);
  });

  describe('the clock of the server', () => {
    /** As if it had been set ahead by so much. */
    const jump = async (bucket, milliseconds) => {
      const [renewed] = await server.call('HGET', `{wl:${bucket}}:m`, 'renewed');
      await setUp(bucket, 'renewed', String(Number(renewed) - milliseconds));
      for (const session of await sessionsOf(bucket)) {
        await server.call('ZINCRBY', `{wl:${bucket}}:s`, String(-milliseconds), session);
      }
    };
    const HOUR = 3_600_000;

    test('a second jump does not keep the dead alive', async () => {
      const bucket = 'twice';
      const [a, b] = [await client({ bucket }), await client({ bucket })];
      const name = fresh();
      await a.answers(request(name));
      await jump(bucket, HOUR);
      await b.renew();
      await jump(bucket, HOUR);
      await b.renew();
      assert.deepEqual(await b.answers(request(name, { kind: 'ifAvailable' })), ['granted']);
    });

    test('a jump back does not bring back who was buried', async () => {
      const bucket = 'buried';
      const [dead, a] = [await client({ bucket }), await client({ bucket })];
      const name = fresh();
      await dead.answers(request(name));
      await expire(dead.session, `{wl:${bucket}}`);
      assert.deepEqual(await a.answers(request(name)), ['granted']);
      await jump(bucket, -10_000);
      await server.call('HINCRBY', `{wl:${bucket}}:i:${dead.session}`, 'till', '10000');
      await rejectsWith(dead.step([request(fresh())]), 'ERR_WEB_LOCKS_SESSION_DEAD');
      await rejectsWith(dead.renew(), 'ERR_WEB_LOCKS_SESSION_DEAD');
    });
  });

  describe('quarantine', () => {
    const over = (bucket) => setUp(bucket, 'from', '0');

    test('begins with another life of the server, and lasts for one ttl', async () => {
      const bucket = 'another life';
      await client({ bucket });
      await setUp(bucket, 'run', 'another');
      const b = await client({ bucket });
      const { grantsIn } = await b.renew();
      assert.ok(grantsIn > TTL / 2 && grantsIn <= TTL, String(grantsIn));
      assert.deepEqual(await b.answers(request('free')), ['queued']);
    });

    describe('is as long as the longest lease that may last', () => {
      const isLong = (milliseconds) => milliseconds > LONG / 2;
      const replace = (bucket) => setUp(bucket, 'run', fresh('another'));
      const start = async (bucket) => [await client({ bucket }, LONG), await client({ bucket })];

      test('and no longer, once that session is closed, or its lease is over twice', async () => {
        const bucket = 'one long lease';
        const [long, a] = await start(bucket);
        await replace(bucket);
        assert.ok(isLong((await a.renew()).grantsIn));
        await over(bucket);
        await long.adapter.close(long.session);
        await replace(bucket);
        assert.ok((await a.renew()).grantsIn <= TTL);
        await over(bucket);
        const dead = await client({ bucket }, LONG);
        await expire(dead.session, `{wl:${bucket}}`);
        await a.adapter.sweep();
        // It may have been renewed at another server.
        await replace(bucket);
        assert.ok(isLong((await a.renew()).grantsIn));
        const [lapsed] = await server.call('HGET', `{wl:${bucket}}:m`, 'lapsed');
        const [needed, till] = lapsed.split(' ').map(Number);
        assert.equal(needed, LONG);
        await setUp(bucket, 'from', '0', 'lapsed', `${needed} ${till - LONG}`);
        await replace(bucket);
        assert.ok((await a.renew()).grantsIn <= TTL);
      });

      test('also if that session is missing', async () => {
        const bucket = 'a long lease is missing';
        const [long] = await start(bucket);
        await server.call('DEL', `{wl:${bucket}}:i:${long.session}`);
        await server.call('ZREM', `{wl:${bucket}}:s`, long.session);
        assert.ok(isLong((await client({ bucket })).grantsIn));
      });

      test('and does not end before, if that session is closed in it, or another one begins', async () => {
        const bucket = 'a long lease in quarantine';
        const [long, a] = await start(bucket);
        await replace(bucket);
        await a.renew();
        await long.adapter.close(long.session);
        assert.ok(isLong((await client({ bucket })).grantsIn));
        await replace(bucket);
        assert.ok(isLong((await a.renew()).grantsIn));
        // Nobody needs another one of that length.
        await over(bucket);
        await client({ bucket });
        await replace(bucket);
        assert.ok((await a.renew()).grantsIn <= TTL);
      });
    });

    test('data that are lost while somebody is there are noticed by him', async () => {
      const bucket = 'flushed';
      const a = await client({ bucket });
      await a.answers(request('name'));
      await server.call('DEL', ...(await server.call('KEYS', '{wl:flushed}*')));
      await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_SESSION_DEAD');
      const b = await client({ bucket });
      assert.ok((await b.renew()).grantsIn > 0);
    });

    for (const [appendonly, what] of [
      ['no', 'without its data'],
      ['yes', 'with its data'],
    ]) {
      test(`a server that starts again ${what} grants nothing at first`, async () => {
        const own = await startRedis({
          settings: ['--appendonly', appendonly, '--appendfsync', 'always'],
        });
        const { port } = own;
        const a = await client({ port }, 30_000);
        await over('bucket');
        await own.call('HSET', `${P}:m`, 'from', '0');
        const op = request('name');
        const [{ token }] = await a.step([op]);
        assert.ok(token);
        await own.crash();
        await a.next();
        await own.start();
        if (appendonly === 'yes') {
          await a.hello();
          assert.deepEqual([...(await a.renew()).mine], [[op.ref, token]]);
        } else {
          await rejectsWith(a.hello(), 'ERR_WEB_LOCKS_SESSION_DEAD');
        }
        const b = await client({ port });
        const again = request('free');
        assert.deepEqual(await b.answers(again), ['queued']);
        await own.call('HSET', `${P}:m`, 'from', '0', 'pause', '9000000000000');
        await b.adapter.sweep();
        assert.ok((await b.next()).token > token);
        await own.stop();
      });
    }

    test('a replica is refused, and grants nothing at first when it is promoted', async () => {
      const primary = await startRedis();
      const replica = await startRedis({ primary });
      // So long that its age is no reason for a quarantine.
      await replica.until(/uptime_in_seconds:([4-9]|\d\d)/);
      const a = await client({ port: primary.port }, SHORT);
      await a.answers(request('name'));
      await rejectsWith(client({ port: replica.port }, SHORT), 'ERR_WEB_LOCKS_STANDBY');
      await primary.crash();
      await replica.promote();
      const b = await client({ port: replica.port }, SHORT);
      assert.ok((await b.renew()).grantsIn > 0);
      // Of a bucket that it never heard of it may have missed everything.
      const c = await client({ port: replica.port, bucket: 'unheard of' }, SHORT);
      assert.ok((await c.renew()).grantsIn > 0);
      // Not of one that is opened later: it was a primary by then.
      const ago = () => replica.call('HINCRBY', '{wl:}server', 'since', String(-SHORT));
      await ago();
      assert.equal((await client({ port: replica.port, bucket: 'later' }, SHORT)).grantsIn, 0);
      await replica.call('REPLICAOF', '127.0.0.1', String(primary.port));
      await replica.promote();
      assert.ok(
        (await client({ port: replica.port, bucket: 'promoted again' }, SHORT)).grantsIn > 0,
      );
      await replica.call('HDEL', '{wl:}server', 'since');
      assert.ok((await client({ port: replica.port, bucket: 'since when' }, SHORT)).grantsIn > 0);
      // A user who may not write that down waits each time.
      await ago();
      const login = { username: 'one', password: 'one' };
      const rights = ['on', '>one', '~{wl:own}*', '&{wl:own}*', '+@all'];
      await replica.call('ACL', 'SETUSER', 'one', ...rights);
      const one = await client({ port: replica.port, bucket: 'own', login }, SHORT);
      assert.ok(one.grantsIn > 0);
      await replica.stop();
    });
  });

  describe('strict', () => {
    test('is refused where a primary that is split off would go on', async () => {
      const primary = await startRedis();
      const { port } = primary;
      const strict = { port, strict: true };
      await rejectsWith(client(strict), 'ERR_WEB_LOCKS_STRICT');
      await primary.call('CONFIG', 'SET', 'min-replicas-to-write', '1');
      await rejectsWith(client(strict), 'ERR_WEB_LOCKS_NOT_REPLICATED');
      const first = await startRedis({ primary });
      await primary.until(/min_slaves_good_slaves:1/);
      const a = await client(strict);
      assert.deepEqual((await a.renew()).mine.size, 0);
      const [pause] = await primary.call('HGET', `${P}:m`, 'pause');
      assert.equal(Number(pause), TTL + 11_000);
      const second = await startRedis({ primary });
      await primary.until(/connected_slaves:2/);
      await assert.rejects(client(strict), {
        code: 'ERR_WEB_LOCKS_STRICT',
        message: /set it to 2/,
      });
      for (const one of [second, first, primary]) await one.stop();
    });

    test('a primary whose replica is gone renews no lease', async () => {
      const settings = ['--min-replicas-to-write', '1', '--min-replicas-max-lag', '1'];
      const primary = await startRedis({ settings });
      const replica = await startRedis({ primary });
      await primary.until(/min_slaves_good_slaves:1/);
      const a = await client({ port: primary.port, strict: true });
      await replica.stop();
      await primary.until(/min_slaves_good_slaves:0/);
      await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_NOT_REPLICATED');
      // Also if somebody takes the setting back.
      await primary.call('CONFIG', 'SET', 'min-replicas-to-write', '0');
      await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_NOT_REPLICATED');
      await primary.stop();
    });
  });

  describe('being told', () => {
    test('a wake connection that is cut is told, and replaced', async () => {
      const a = await client();
      await server.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
      assert.ok('down' in (await a.next()));
      const [b, name] = [await client(), fresh()];
      const [one, two] = [request(name), request(name)];
      await b.answers(one);
      await a.hello();
      await a.answers(two);
      await b.answers(end(one));
      assert.equal((await a.next()).granted, two.ref);
    });

    test('a wake connection that drops everything is noticed, however long the lease is', async () => {
      const [ttl, pause] = [3_600_000, 3_000];
      const proxies = [await FaultyProxy.open(server.port), await FaultyProxy.open(server.port)];
      // The first connection that is made is for commands, the second one hears.
      const made = { duplicate: (options) => any(proxies[ears++ % 2].port, options), call() {} };
      let ears = 0;
      const a = await clientOf(new RedisAdapter('bucket', { client: made }), ttl);
      for (let i = 0; i < 3; i++) {
        await a.renew();
        await sleep(pause);
      }
      proxies[1].stall();
      await assert.rejects(
        async () => {
          for (;;) {
            await a.renew();
            await sleep(pause);
          }
        },
        { code: 'ERR_WEB_LOCKS_NO_NEWS' },
      );
      proxies[1].heal();
      await a.hello();
      await a.renew();
      for (const proxy of proxies) await proxy.close();
    });

    test('one shard whose news do not arrive is noticed, while those of another do', async () => {
      let isDeaf = false;
      const made = {
        duplicate(options) {
          const client = any(server.port, options);
          const { on } = client;
          client.on = (event, hear) => {
            const hearSome = (channel, ...message) => {
              if (!isDeaf || !channel.includes('#1}')) hear(channel, ...message);
            };
            return on.call(client, event, event === 'message' ? hearSome : hear);
          };
          return client;
        },
        call() {},
      };
      const adapter = new RedisAdapter('one deaf shard', { client: made, shards: 2 });
      const a = await clientOf(adapter, TTL);
      await a.renew();
      isDeaf = true;
      await rejectsWith(
        (async () => {
          for (let i = 0; i < 10; i++) {
            await a.renew();
            await sleep(3_000);
          }
        })(),
        'ERR_WEB_LOCKS_NO_NEWS',
      );
    });
  });

  for (const [kind, make] of Object.entries(clients)) {
    test(`${kind}: a bucket outlives a login that is refused`, async () => {
      const { port } = await startRedis();
      const admin = clients.ioredis(port);
      await admin.call('PING');
      const refuse = async () => {
        await admin.call('CONFIG', 'SET', 'requirepass', 'other');
        for (const type of ['normal', 'pubsub']) {
          await admin.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes');
        }
      };
      const serve = () => admin.call('CONFIG', 'SET', 'requirepass', '');
      const bucket = openBucket(`login ${kind}`, { client: make(port), ttl: refusal.TTL });
      await refusal.outlivesRefusal(bucket, 'ERR_WEB_LOCKS_RIGHTS', refuse, serve);
      admin.disconnect();
    });
  }

  describe('a release that the server refuses, as one right was withdrawn', () => {
    /** `own` has the lock, as a user whose rights can be changed. */
    async function setUp(t, user) {
      const login = { username: user, password: user };
      const setUser = (...rights) => server.call('ACL', 'SETUSER', user, ...rights);
      await setUser('reset', 'on', `>${user}`, '~*', '&*', '+@all');
      const open = (options) =>
        openBucket(user, { client: clients.ioredis(server.port, options), ttl: refusal.TTL });
      const [own, other] = [open(login), open()];
      t.after(() => Promise.all([own.close(), other.close()]));
      return { own, other, handle: await own.locks.acquire('a'), setUser };
    }

    test('and given back: the lock ends, as the session ends it again', async (t) => {
      const { other, handle, setUser } = await setUp(t, 'again');
      const waiter = other.locks.acquire('a');
      while ((await other.locks.query()).pending.length === 0);
      await setUser('-zrem');
      await handle.release();
      await setUser('+zrem');
      await (await waiter).release();
    });

    // A lock that somebody waits for has a queue; the key of another one is deleted.
    const CASES = [
      ['zrem', true],
      ['hdel', true],
      ['del', false],
    ];
    for (const [right, hasWaiter] of CASES) {
      test(`${right}: the lock ends with the session, which is refused`, async (t) => {
        const { own, other, handle, setUser } = await setUp(t, `no-${right}`);
        const before = hasWaiter && other.locks.acquire('a');
        while (before && (await other.locks.query()).pending.length === 0);
        await setUser(`-${right}`);
        await handle.release();
        await (await (before || other.locks.acquire('a'))).release();
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
    before(async () => {
      cluster = await startingCluster;
    });

    /** A client of the cluster, which is young, without the quarantine that it begins with. */
    const clientIn = async (make, options) => {
      const made = await clientBy(make)({ port: cluster.port, ...options });
      for (const node of cluster.nodes) {
        for (const key of await node.call('KEYS', '*:m')) {
          if (key) await node.call('HSET', key, 'from', '0');
        }
      }
      return made;
    };

    test('a client of one server is refused', async () => {
      const { owner } = await cluster.find(P);
      const { port } = cluster.nodes.find((node) => node !== owner);
      for (const make of Object.values(clients)) {
        await rejectsWith(clientBy(make)({ port }), 'ERR_WEB_LOCKS_CLUSTER');
      }
    });

    for (const [kind, make] of Object.entries(clusterClients)) {
      describe(`by ${kind}`, () => {
        let owner;
        before(async () => {
          ({ owner } = await cluster.find(P));
        });
        endsWhileOpening({
          client: ({ port }) => {
            const nodes = { [`127.0.0.1:${owner.port}`]: { host: '127.0.0.1', port } };
            return clientBy(() => make(port, undefined, nodes))();
          },
          port: () => owner.port,
          through: (port) => ({ port }),
          lastWords: { 'that there are too many': TOO_MANY },
          stride: 97,
        });
      });

      test(`${kind}: locks in slots of several nodes, and their news`, async () => {
        const options = { bucket: `cluster ${kind}`, shards: 8 };
        const [a, b] = [await clientIn(make, options), await clientIn(make, options)];
        for (const node of cluster.nodes) assert.notDeepEqual(await node.call('KEYS', '*:m'), ['']);
        const names = Array.from({ length: 24 }, () => fresh());
        const [one, two] = [names.map((name) => request(name)), names.map((name) => request(name))];
        assert.deepEqual(new Set(await a.answers(...one)), new Set(['granted']));
        assert.deepEqual(new Set(await b.answers(...two)), new Set(['queued']));
        await a.answers(...one.map(end));
        const told = new Set();
        while (told.size < 24) told.add((await b.next()).granted);
        assert.deepEqual(told, new Set(two.map(({ ref }) => ref)));
        assert.equal((await b.adapter.query()).length, 24);
        await b.hello();
        await b.answers(...two.map(end));
        await a.adapter.close(a.session);
        await b.adapter.close(b.session);
      });

      test(`${kind}: keys in slots of several nodes begin with a prefix`, async () => {
        const options = { bucket: `prefix ${kind}`, shards: 4, prefix: 'dev:' };
        const a = await clientIn(make, options);
        const ops = Array.from({ length: 12 }, () => request(fresh()));
        assert.deepEqual(new Set(await a.answers(...ops)), new Set(['granted']));
        const keys = [];
        for (const node of cluster.nodes)
          keys.push(...(await node.call('KEYS', `dev:{wl:prefix ${kind}*m`)));
        assert.equal(keys.filter((key) => key).length, 4);
        await a.adapter.close(a.session);
      });

      test(`${kind}: other options of the client do not come in the way`, async () => {
        const { readonly: _, ...login } = oddOptionsOf(kind);
        const { port } = cluster;
        const a = await clientBy(make)({ bucket: `odd ${kind}`, port, login }, 5_000);
        await a.renew();
        await sleep(300);
        const op = request(fresh());
        const asked = [a.renew(), a.answers(op), a.adapter.query(), a.adapter.marked(op.name)];
        await Promise.all(asked);
        assert.deepEqual(a.told, []);
        await a.adapter.close(a.session);
      });

      test(`${kind}: a slot that is moved to another node keeps its locks`, async () => {
        const [bucket, { port }] = [`moved ${kind}`, cluster];
        const a = await clientBy(make)({ bucket, port }, 30_000);
        const held = request('name');
        const [{ token }] = await a.step([held]);
        // While its keys are on the way, neither of the nodes knows all.
        await cluster.move(`{wl:${bucket}}`, () =>
          rejectsWith(clientBy(make)({ bucket, port }), 'ERR_WEB_LOCKS_UNREACHABLE'),
        );
        const b = await clientBy(make)({ bucket, port });
        assert.deepEqual(await b.answers(request('name', { kind: 'ifAvailable' })), [
          'unavailable',
        ]);
        await a.hello();
        const { grantsIn, mine } = await a.renew();
        assert.deepEqual([...mine], [[held.ref, token]]);
        assert.ok(grantsIn > 0, 'it is another server');
      });
    }
  });

  test('a bucket of a cluster whose node is gone keeps no process alive when it is closed', async () => {
    const cluster = await startingCluster;
    const { fork } = require('node:child_process');
    const program = path.join(__dirname, 'cluster-user.js');
    const { owner } = await cluster.find(P);
    const users = Object.keys(clusterClients).map((kind) =>
      fork(program, [kind, String(cluster.port), 'bucket'], { timeout: 300_000 }),
    );
    // A user that loses its session because the machine is slow may end before the others are open.
    const ends = Promise.all(users.map((user) => once(user, 'exit')));
    await Promise.all(users.map(saysSomething));
    await owner.crash();
    for (const [code] of await ends) assert.equal(code, 0);
  });

  test('a process that closes while the server hangs ends', async () => {
    const { fork } = require('node:child_process');
    const own = await startRedis();
    const program = path.join(__dirname, 'redis-user.js');
    const kinds = Object.keys(clients);
    const users = kinds.map((kind) =>
      fork(program, [kind, String(own.port), kind], { timeout: 300_000 }),
    );
    await Promise.all(users.map(saysSomething));
    const ends = Promise.all(users.map((user) => once(user, 'exit')));
    own.signal('SIGSTOP');
    for (const user of users) user.send('close');
    const codes = (await ends).map(([code], i) => [kinds[i], code]);
    own.signal('SIGCONT');
    await own.stop();
    assert.deepEqual(
      codes,
      kinds.map((kind) => [kind, 0]),
    );
  });

  describe('what can be wrong', () => {
    test('what is no client, or no option, is a TypeError', () => {
      const client = any(server.port);
      for (const options of [
        { client: undefined },
        { client: {} },
        { client: { duplicate() {} } },
        { client, shards: 0 },
        { client, shards: 1.5 },
        { client, strict: 'yes' },
        { client, failover: 'often' },
        { client: clusterClients.ioredis(server.port), strict: true },
        { client, prefix: 'a{b' },
        { client, prefix: 1 },
        { client: any(server.port, { keyPrefix: '{app}:' }) },
        { client: clusterClients.ioredis(server.port, { keyPrefix: '{app}:' }) },
      ]) {
        assert.throws(() => new RedisAdapter('', options), { name: 'TypeError' });
      }
      assert.doesNotThrow(
        () => new RedisAdapter('', { client: any(1, { keyPrefix: '{app}:' }), prefix: 'app:' }),
      );
    });

    test('what is given for a client is named', () => {
      const method = () => {};
      const { createClientPool, createSentinel } = require('redis');
      const four = require('redis4');
      const nodes = [{ host: '127.0.0.1', port: 1 }];
      // The members by which the two classes of glide 2.0 to 2.5 differ from other clients.
      const glide = { customCommand: method, invokeScript: method };
      const glideCluster = { ...glide, invokeScriptWithRoute: method };
      const cases = [
        [undefined, /'client' is undefined; expected a client of redis 5 or 6/],
        ['redis://host', /is 'redis:\/\/host'.*Pass createClient\(/],
        [new Map(), /is an object of the class Map/],
        [four.createClient(), /a client of redis 4 \(createClient\).*npm install redis@latest/],
        [four.createCluster({ rootNodes: nodes }), /redis 4 \(createCluster\).*createCluster\(/],
        [{ duplicate: method, send_command: method }, /is a client of redis 3/],
        [
          createSentinel({ name: 'main', sentinelRootNodes: nodes }),
          /Sentinel.*sentinels.*ioredis/,
        ],
        [createClientPool(), /is a pool.*createClient\(options\)/],
        [glide, /glide \(GlideClient\), which does not say .* Pass new Valkey\(.*iovalkey/],
        [glideCluster, /glide \(GlideClusterClient\), with which .* Pass new Cluster\(.*iovalkey/],
        [{ evalsha: method, pipeline: method }, /HTTP.*rediss:/],
      ];
      for (const [client, message] of cases) {
        assert.throws(() => new RedisAdapter('', { client }), { name: 'TypeError', message });
      }
    });

    test('a server that would evict locks is refused', async () => {
      await server.call('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
      await assert.rejects(client(), { code: 'ERR_WEB_LOCKS_EVICTION', message: /noeviction/ });
      await server.call('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru');
      await client();
      await server.call('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    });

    test('a bucket of another version is refused', async () => {
      await client({ bucket: 'version' });
      await setUp('version', 'version', '99');
      await assert.rejects(client({ bucket: 'version' }), {
        code: 'ERR_WEB_LOCKS_BUCKET',
        message: /99/,
      });
    });

    test('a user without rights is told what to do, and needs only those', async () => {
      const login = { username: 'app', password: 'app' };
      await server.call('ACL', 'SETUSER', 'app', 'on', '>app', '~mine:*', '+@all', 'resetchannels');
      await assert.rejects(client({ login }), {
        code: 'ERR_WEB_LOCKS_RIGHTS',
        message: /docs\/CLUSTER\.md/,
      });
      const rights = ['resetkeys', '~{wl:*', '&{wl:*', '-@all', '+@read', '+@write', '+@pubsub'];
      const more = ['+@connection', '+evalsha', '+eval', '+info', '+time'];
      await server.call('ACL', 'SETUSER', 'app', ...rights, ...more);
      const a = await client({ login });
      const op = request(fresh());
      assert.deepEqual(await a.answers(op), ['granted']);
      assert.deepEqual(await a.answers(end(op)), ['ended']);
    });

    test('a server that cannot be reached is another attempt', async () => {
      for (const make of Object.values(clients)) {
        const adapter = new RedisAdapter('', { client: make(1) });
        await assert.rejects(
          adapter.open({ clientId: 'a' }, TTL, { life: '', token: 0n }),
          (error) => {
            assert.equal(error.code, 'ERR_WEB_LOCKS_UNREACHABLE');
            assert.equal(adapter.classify(error), 'retry');
            return true;
          },
        );
      }
    });

    test('what Redis 6, or another one, answers with tells whether it goes well another time', () => {
      const errors = {
        retry: [
          "READONLY You can't write against a read only replica.",
          'CLUSTERDOWN The cluster is down',
          'ERR Error running script (call to f_1): @user_script:1: -MISCONF Redis is configured to',
          'ERR Error running script (call to f_1): @user_script: 1: -OOM command not allowed',
          'ERR max number of clients reached',
          'ERR Error running script (call to f_1): Script killed by user with SCRIPT KILL...',
        ],
        fatal: ['NOAUTH Authentication required.', 'DENIED Redis is running in protected mode.'],
        refused: [
          'ERR user_script:7: Script attempted to access nonexistent global variable',
          'WRONGTYPE Operation against a key holding the wrong kind of value',
        ],
      };
      const { classify } = new RedisAdapter('', { client: any(1) });
      for (const [meaning, texts] of Object.entries(errors)) {
        for (const text of texts) assert.equal(classify(explain(new Error(text))), meaning, text);
      }
      for (const error of [
        new RangeError('Maximum call stack size exceeded'),
        new TypeError('x'),
      ]) {
        assert.equal(classify(explain(error)), 'local');
      }
      const cut = Object.assign(new Error('write EPIPE'), { syscall: 'write' });
      assert.equal(classify(explain(cut)), 'retry');
    });

    describe('what the server refuses for now is asked again, also if a script says it:', () => {
      const SET = "redis.call('SET', KEYS[1]..':z', '')";
      /** A command, and scripts that pass its error on as each version of Redis would. */
      const FORMS = {
        reply: ['SET', '{wl:r}:z', ''],
        script: ['EVAL', `return ${SET}`, '1', '{wl:r}'],
        'raised again': [
          'EVAL',
          `local _, e = pcall(function() ${SET} end) error(e, 0)`,
          '1',
          '{wl:r}',
        ],
        'raised as text': [
          'EVAL',
          `local e = ${SET.replace('call', 'pcall')} error(e.err, 0)`,
          '1',
          '{wl:r}',
        ],
      };
      /** Checks what each form is explained as at a server that refuses to write. */
      async function refusesAs(at, code, meaning = 'retry', login = {}) {
        const one = any(at.port, { keyPrefix: '', enableReadyCheck: false, ...login });
        const { classify } = new RedisAdapter('', { client: one });
        for (const [form, [command, ...args]] of Object.entries(FORMS)) {
          await assert.rejects(one.call(command, args), (error) => {
            const explained = explain(error);
            const seen = [explained.code, classify(explained)];
            assert.deepEqual(seen, [code, meaning], `${form}: ${error.message}`);
            return true;
          });
        }
        one.disconnect();
      }

      /** By class: the code, and what makes a server, whose locks are in use, refuse so. */
      const WRITES = {
        OOM: ['OUT_OF_MEMORY', (own) => own.call('CONFIG', 'SET', 'maxmemory', '1')],
        MISCONF: ['BUSY', failToSave],
        NOREPLICAS: [
          'NOT_REPLICATED',
          (own) => own.call('CONFIG', 'SET', 'min-replicas-to-write', '1'),
        ],
        READONLY: ['STANDBY', (own) => own.call('REPLICAOF', '127.0.0.1', '1')],
      };
      async function failToSave(own) {
        fs.mkdirSync(path.join(own.folder, 'dump.rdb'));
        await own.call('CONFIG', 'SET', 'save', '3600 1');
        await own.call('BGSAVE');
        await own.until(/rdb_last_bgsave_status:err/);
      }
      for (const [name, [suffix, arrange]] of Object.entries(WRITES)) {
        test(name, async () => {
          const own = await startRedis();
          const [a, code] = [await client({ port: own.port }), `ERR_WEB_LOCKS_${suffix}`];
          const [held, other] = [request('held'), request('other')];
          await a.answers(held, other);
          await arrange(own);
          await refusesAs(own, code);
          // The first operation writes nothing, so the second one is refused.
          const fails = request('held', { kind: 'ifAvailable' });
          const ops = [request('free'), request('free', { kind: 'steal' })];
          // What only deletes needs no memory.
          if (name !== 'OOM') ops.push(end(other));
          for (const op of ops) {
            await rejectsWith(a.step([fails, op]), code);
          }
          await rejectsWith(a.renew(), code);
          await rejectsWith(client({ port: own.port }), code);
          await own.crash();
        });
      }

      test('BUSY', async () => {
        const own = await startRedis({ settings: ['--lua-time-limit', '1'] });
        const one = any(own.port, { enableReadyCheck: false });
        const loops = one.call('EVAL', ['while true do end', '0']).catch((error) => explain(error));
        while (!/BUSY/.test(await own.call('PING')));
        await refusesAs(own, 'ERR_WEB_LOCKS_BUSY');
        await own.call('SCRIPT', 'KILL');
        assert.equal((await loops).code, 'ERR_WEB_LOCKS_BUSY');
        one.disconnect();
        await own.crash();
      });

      test('MASTERDOWN', async () => {
        const own = await startRedis({ settings: ['--replica-serve-stale-data', 'no'] });
        await own.call('CONFIG', 'SET', 'replica-read-only', 'no');
        await own.call('REPLICAOF', '127.0.0.1', '1');
        await refusesAs(own, 'ERR_WEB_LOCKS_STANDBY');
        await own.crash();
      });

      test('LOADING', async () => {
        const own = await startRedis({ settings: ['--enable-debug-command', 'yes'] });
        await own.call('DEBUG', 'POPULATE', '100000');
        // It answers between keys. It is killed long before it has them all.
        const slow = [
          '--key-load-delay',
          '1000',
          '--loading-process-events-interval-bytes',
          '1024',
        ];
        const copy = await startRedis({ settings: [...slow, '--replica-read-only', 'no'] });
        await copy.call('REPLICAOF', '127.0.0.1', String(own.port));
        while (!/LOADING/.test(await copy.call('GET', 'a')));
        await refusesAs(copy, 'ERR_WEB_LOCKS_UNREACHABLE');
        for (const one of [copy, own]) await one.crash();
      });

      test('CLUSTERDOWN (TRYAGAIN: see the slot that is moved)', async () => {
        const bus = String(await freePort());
        const alone = await startRedis({
          settings: ['--cluster-enabled', 'yes', '--cluster-port', bus],
        });
        await refusesAs(alone, 'ERR_WEB_LOCKS_UNREACHABLE');
        await alone.crash();
      });

      test('but not NOPERM, which the user has to change', async () => {
        const login = { username: 'some', password: 'some' };
        for (const rights of [['~*', '-set'], ['~{wl:r}']]) {
          await server.call('ACL', 'SETUSER', 'some', 'reset', 'on', '>some', '+@all', ...rights);
          await refusesAs(server, 'ERR_WEB_LOCKS_RIGHTS', 'fatal', login);
        }
      });
    });

    describe('a server that can never serve is told as such, and what it lacks:', () => {
      /** @type {[string, string, RegExp, () => Promise<number>][]} */
      const CASES = ['EVALSHA', 'EVAL', 'SUBSCRIBE', 'TIME', 'PUBLISH'].map((command) => [
        `no ${command}`,
        'ERR_WEB_LOCKS_SERVER',
        new RegExp(`unknown (command '${command}'|(Redis )?command called)`, 'i'),
        async () => (await startRedis({ settings: ['--rename-command', command, ''] })).port,
      ]);
      const sentinel = async () => (await startSentinel(await startRedis(), /\+monitor /)).port;
      CASES.push(['a Sentinel', 'ERR_WEB_LOCKS_SERVER', /not to a Sentinel.*EVALSHA/, sentinel]);
      for (const [what, code, message, start] of CASES) {
        test(what, async () => {
          const port = await start();
          for (const make of Object.values(clients)) await isTold(make(port), code, message);
        });
      }
      async function isTold(one, code, message, meaning = 'fatal') {
        const adapter = new RedisAdapter('never', { client: one });
        const opened = adapter.open({ clientId: 'a' }, TTL, { life: '', token: 0n });
        await assert.rejects(opened, (error) => {
          const { classify } = adapter;
          assert.deepEqual([error.code, classify(error)], [code, meaning], error.message);
          assert.match(error.message, message);
          return true;
        });
        await adapter.dispose();
      }

      for (const [kind, make] of Object.entries(clusterClients)) {
        test(`one server, and a Sentinel, by a client of a cluster: ${kind}`, async () => {
          await isTold(
            make(server.port),
            'ERR_WEB_LOCKS_CLUSTER',
            /not part of a cluster/,
            'misuse',
          );
          await isTold(make(await sentinel()), 'ERR_WEB_LOCKS_SERVER', /Sentinel/);
        });
      }
    });

    for (const [kind, make] of Object.entries(clients)) {
      test(`a step that the server refuses leaves the connection working: ${kind}`, async () => {
        const bucket = `refused ${kind}`;
        const a = await clientBy(make)({ bucket });
        const [bad, good] = [request('bad'), request('good')];
        await server.call('SET', `{wl:${bucket}}:n:bad`, 'something else');
        await assert.rejects(a.step([bad]), (error) => {
          assert.equal(a.adapter.classify(error), 'refused');
          return true;
        });
        assert.deepEqual(await a.answers(good), ['granted']);
        // Not so if something is done already.
        const [next, other] = [request(fresh()), request(fresh())];
        assert.deepEqual(await a.answers(next, bad, other), ['granted', 'failed', 'granted']);
        assert.deepEqual(valuesOf(await a.again([next, bad, other]), 'code'), [
          'granted',
          'failed',
          'granted',
        ]);
        assert.equal((await a.renew()).mine.size, 3);
        assert.deepEqual(a.told, []);
      });

      test(`what is behind a step that the server refuses is not done, and then is: ${kind}`, async () => {
        const bucket = `behind ${kind}`;
        const a = await clientBy(make)({ bucket });
        const [bad, good] = [request('bad'), request('good')];
        await server.call('SET', `{wl:${bucket}}:n:bad`, 'something else');
        const sent = await Promise.allSettled([a.step([bad], 1, 0), a.step([good], 2, 1)]);
        const classes = sent.map(({ reason }) => reason && a.adapter.classify(reason));
        assert.deepEqual(classes, ['refused', 'retry']);
        assert.equal((await a.renew()).mine.size, 0);
        assert.equal((await a.step([good], 3, 0))[0].code, 'granted');
      });

      test(`the session goes on beside a step that the server refuses: ${kind}`, async () => {
        const bucket = `beside ${kind}`;
        const states = [];
        const note = ({ state }) => states.push(state);
        subscribe('locks.session', note);
        const opened = openBucket(bucket, { client: make(server.port) });
        const { locks } = opened;
        await opened.ready;
        await server.call('SET', `{wl:${bucket}}:n:bad`, 'something else');
        const bad = assert.rejects(
          locks.request('bad', () => {}),
          { code: 'ERR_WEB_LOCKS_REDIS' },
        );
        await setImmediate();
        const others = [];
        for (let i = 0; i < 6; i++) {
          others.push(locks.request(`good ${i}`, () => i));
          await setImmediate();
        }
        assert.deepEqual(await Promise.all(others), [0, 1, 2, 3, 4, 5]);
        await bad;
        await opened.close();
        unsubscribe('locks.session', note);
        assert.deepEqual(
          states.filter((state) => state === 'suspect'),
          [],
        );
      });

      test(`as many names as a group may have are granted: ${kind}`, async () => {
        const a = await clientBy(make)({ bucket: `many ${kind}` });
        const group = Array.from({ length: a.adapter.can.most }, () =>
          request(fresh(), { group: 1 }),
        );
        assert.deepEqual(new Set(await a.answers(...group)), new Set(['granted']));
        await a.adapter.close(a.session);
      });
    }

    test('what one shard has done is not done again if another one refuses', async () => {
      const [bucket, shards] = ['refusing shard', 2];
      const a = await client({ bucket, shards });
      const names = Array.from({ length: 8 }, () => fresh());
      const ops = names.map((name) => request(name));
      const first = `{wl:${bucket}}`;
      // Whatever is in the first shard.
      for (const name of names) await server.call('SET', `${first}:n:${name}`, 'something else');
      await assert.rejects(a.step(ops), (error) => a.adapter.classify(error) === 'refused');
      const answers = [];
      for (const op of ops) {
        const [code] = await a.answers(op).catch(() => ['refused']);
        answers.push(code);
      }
      assert.deepEqual(new Set(answers), new Set(['granted', 'refused']));
      const { mine } = await a.renew();
      assert.equal(mine.size, answers.filter((code) => code === 'granted').length);
      for (const token of mine.values()) assert.ok(token > 0n);
    });

    test('R3: what one shard never does is told as not done, and what others did is done once', async () => {
      const bucket = 'silent shard';
      let isSilent = false;
      const made = {
        duplicate(options) {
          const one = any(server.port, options);
          const { call } = one;
          one.call = (command, args) => {
            if (!isSilent || !args.includes('step')) return call.apply(one, [command, args]);
            // One of them does its part, and its answer gets lost; the other one does nothing.
            if (!args[2].includes('#1}')) call.apply(one, [command, args]);
            return new Promise(() => {});
          };
          return one;
        },
        call() {},
      };
      await settle(bucket, '', 2);
      const a = await clientOf(new RedisAdapter(bucket, { client: made, shards: 2 }));
      const b = await client({ bucket, shards: 2 });
      await a.step([request(fresh())]);
      const ops = Array.from({ length: 8 }, () => request(fresh(), { kind: 'steal' }));
      isSilent = true;
      const lost = assert.rejects(a.step(ops));
      let first;
      do first = (await a.renew()).mine;
      while (first.size < 2);
      isSilent = false;
      const robbed = ops.filter(({ ref }) => first.has(ref));
      const thefts = robbed.map(({ name }) => request(name, { kind: 'steal' }));
      await b.step(thefts);
      await a.hello();
      await lost;
      assert.equal((await a.renew()).step, 1);
      const half = ops.slice(0, 4);
      const rest = ops.slice(4);
      // It goes well at the second attempt.
      isSilent = true;
      const again = assert.rejects(a.step(half));
      await a.renew();
      isSilent = false;
      await a.hello();
      await again;
      assert.equal((await a.renew()).step, 1);
      const answers = [...(await a.step(half)), ...(await a.step(rest))];
      assert.equal((await a.renew()).step, 5);
      for (const [i, { code, token }] of answers.entries()) {
        assert.equal(code, 'granted');
        const known = first.get(ops[i].ref);
        if (known) assert.equal(token, known);
      }
      const { mine } = await b.renew();
      for (const { ref } of thefts) assert.ok(mine.get(ref) > 0n, 'it was not robbed again');
    });

    test('a session that is dead in one shard is not told as one that has done nothing', async () => {
      const [bucket, shards] = ['half dead', 2];
      const a = await client({ bucket, shards });
      await expire(a.session, `{wl:${bucket}#1}`);
      const ops = Array.from({ length: 8 }, () => request(fresh()));
      await assert.rejects(a.step(ops), (error) => a.adapter.classify(error) === 'retry');
      await rejectsWith(a.hello(), 'ERR_WEB_LOCKS_SESSION_DEAD');
    });

    test('a server whose memory is full refuses steps as a whole', async () => {
      const a = await client();
      const op = request(fresh());
      await server.call('CONFIG', 'SET', 'maxmemory', '1');
      await rejectsWith(a.step([op]), 'ERR_WEB_LOCKS_OUT_OF_MEMORY');
      await server.call('CONFIG', 'SET', 'maxmemory', '0');
      assert.equal((await a.renew()).mine.size, 0);
      assert.deepEqual(await a.answers(op), ['granted']);
    });
  });
});
