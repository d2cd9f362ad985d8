/**
 * Compares locks in Redis with the alternatives: `npm run bench -- --only redis`. It starts a
 * server in a temporary folder (test/cluster/servers.js).
 *
 * - web-locks: a bucket, request and release
 * - bare: SET NX PX and a script that deletes, by bare ioredis, one after another: the minimal lock
 * - redlock, redis-semaphore: the unchanged packages; both poll
 */

const { randomUUID } = require('node:crypto');

const { Missing, need } = require('./missing.js');
const { duration, size } = require('./size.js');
const { ms, rank, row, wait } = require('./tools.js');

const DELETE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end`;
const LEASE = 10_000;
const BUCKET = `bench ${randomUUID()}`;

/** @returns functions that lock a name, run a function and unlock it, by subject */
const subjects = {
  async 'web-locks'(client) {
    const { openBucket } = require('../lib/redis.js');
    const bucket = openBucket(BUCKET, { client });
    await bucket.ready;
    return {
      locks: bucket.locks,
      run: (name, use) => bucket.locks.request(name, use),
      close: () => bucket.close(),
    };
  },

  async bare(client) {
    return {
      async run(name, use) {
        const value = randomUUID();
        while (!(await client.set(`bare ${name}`, value, 'PX', LEASE, 'NX'))) await wait(1);
        await use();
        await client.eval(DELETE, 1, `bare ${name}`, value);
      },
      close() {},
    };
  },

  async redlock(client) {
    const Redlock = need('redlock');
    const redlock = new Redlock([client], { retryCount: -1 });
    return {
      async run(name, use) {
        const lock = await redlock.lock(`redlock ${name}`, LEASE);
        await use();
        await lock.unlock();
      },
      close() {},
    };
  },

  async 'redis-semaphore'(client) {
    const { Mutex } = need('redis-semaphore');
    return {
      async run(name, use) {
        const mutex = new Mutex(client, name, { lockTimeout: LEASE });
        await mutex.acquire();
        await use();
        await mutex.release();
      },
      close() {},
    };
  },
};

/** Opens all subjects twice each, except those whose packages are missing. */
async function opened(port) {
  const Redis = require('ioredis');
  const all = [];
  for (const [name, open] of Object.entries(subjects)) {
    const clients = [new Redis(port), new Redis(port)];
    try {
      const locks = [await open(clients[0]), await open(clients[1])];
      await locks[0].run('warm', () => {});
      all.push({ name, locks, clients });
    } catch (error) {
      if (!(error instanceof Missing)) throw error;
      row(name, error.message);
      for (const client of clients) client.disconnect();
    }
  }
  return all;
}

async function uncontended(all) {
  console.log('\nuncontended request and release, one after the other (ms)');
  const times = all.map(() => []);
  for (let round = 0; round < 8; round++) {
    for (const [i, { locks }] of all.entries()) {
      for (let n = 0; n < size(150); n++) {
        const from = ms();
        await locks[0].run(`name ${i}`, () => {});
        if (round > 0) times[i].push(ms() - from);
      }
    }
  }
  for (const [i, { name }] of all.entries()) {
    row(name, `p50 ${rank(times[i], 0.5).toFixed(2)}  p99 ${rank(times[i], 0.99).toFixed(2)}`);
  }
}

async function atOnce(all) {
  console.log('\n32 at once, each its own name, pairs a second');
  for (const { name, locks } of all) {
    let count = 0;
    const from = ms();
    const one = async (i) => {
      while (ms() - from < duration(2_000)) {
        await locks[0].run(`own ${i}`, () => {});
        count++;
      }
    };
    await Promise.all(Array.from({ length: 32 }, (_, i) => one(i)));
    row(name, (count / ((ms() - from) / 1e3)).toFixed(0));
  }
}

async function contended(all) {
  console.log('\none name by two clients, held for 5 ms: from one to the next (ms)');
  for (const { name, locks } of all) {
    const uses = [];
    const from = ms();
    const one = async ({ run }, who) => {
      while (ms() - from < duration(3_000)) {
        await run('one', async () => {
          const at = ms();
          await wait(5);
          uses.push({ who, at, until: ms() });
        });
      }
    };
    await Promise.all(locks.map(one));
    uses.sort((a, b) => a.at - b.at);
    const gaps = uses
      .slice(1)
      .flatMap(({ at, who }, i) => (who === uses[i].who ? [] : [at - uses[i].until]));
    const text = gaps.length > 0 ? `p50 ${rank(gaps, 0.5).toFixed(2)}` : 'never';
    row(name, `${text}  (${gaps.length} times of ${uses.length})`);
  }
}

async function runRedis() {
  const { lacks, startRedis, stopAll } = require('../test/cluster/servers.js');
  if (lacks.redis) throw new Missing(lacks.redis);
  const server = await startRedis({ clock: null });
  // A new bucket then grants at once.
  await server.until(/uptime_in_seconds:(1[2-9]|[2-9]\d)/);
  const all = await opened(server.port);
  await uncontended(all);
  await atOnce(all);
  await contended(all);
  for (const { clients, locks } of all) {
    for (const one of locks) await one.close();
    for (const client of clients) client.disconnect();
  }
  await stopAll();
}

module.exports = { runRedis, subjects };
