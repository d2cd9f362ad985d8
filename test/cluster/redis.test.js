// slow: 160; long; waits; needs: redis

'use strict';

/** Tests several processes that share locks in Redis, under the faults of faults.js. */

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');

const { now } = require('./actors.js');
const { check } = require('../world/check.js');
const {
  LONG,
  TTL,
  clockJumps,
  failsBack,
  faults,
  judge,
  leftInTheEnd,
  losesGrants,
  losesLocks,
  losesRelease,
  stageOf,
  timeOf,
  wait,
} = require('./faults.js');
const { FaultyProxy } = require('./proxy.js');
const { clients, sentinelClients } = require('./redis-clients.js');
const { ServerClock, detectFailures, lacks, newDisk } = require('./servers.js');
const { startRedis, startSentinel } = require('./servers.js');

/** Counts what is left at a server. A bucket that was used leaves only its hash, and marks. */
const left = (server, stage) =>
  leftInTheEnd(async () => {
    const all = await server.call('KEYS', `{wl:${stage.options.bucket}}*`);
    const keys = all.filter((key) => key && !/:[mkw]$/.test(key));
    const others = (await server.call('CLIENT', 'LIST')).filter(
      (line) => /cmd=(eval|subscribe)/.test(line) && !/replica|name=sentinel/.test(line),
    );
    return { keys: keys.length, connections: others.length };
  });

let turns = 0;
const kinds = Object.keys(clients);
/** @param {string} sync when its file is synced */
const syncing = (sync) => ['--appendonly', 'yes', '--appendfsync', sync];
const durable = syncing('always');

const engine = {
  name: 'redis',
  forgets: true,
  start: ({ isDurable = false } = {}) => startRedis(isDurable ? { settings: durable } : {}),
  // Each configuration is for another kind of client.
  configOf: (port) => ({ kind: kinds[turns++ % kinds.length], port }),
  left,
};

const reasonsOf = (stage) =>
  stage.events.filter(({ type }) => type === 'told').map(({ reason }) => reason);

describe('Redis, by several processes', { skip: lacks.redis }, () => {
  faults(engine);

  test('a server that loses its data loses locks, and nothing is granted too early', async () =>
    losesLocks(engine, await engine.start()));

  describe('a power cut gives no lock to a second holder', { skip: lacks.gcc }, () => {
    const start = (sync) => startRedis({ settings: syncing(sync), disk: newDisk() });
    test('if the server syncs always', async () => {
      const own = await start('always');
      await losesRelease(engine, own, false);
      await losesGrants(engine, own);
      await own.stop();
    });
    test('if the server has synced only the bucket, as a sync every second may', async () => {
      const own = await start('always');
      await losesGrants(engine, own, () => own.call('CONFIG', 'SET', 'appendfsync', 'no'));
      await own.stop();
    });
    test('if the server syncs nothing', async () => {
      const own = await start('no');
      await losesGrants(engine, own);
      await own.stop();
    });
  });

  test('a clock that is set ends no lease, and makes none longer', {
    skip: lacks.faketime,
  }, async () => {
    const clock = new ServerClock();
    await clockJumps(engine, await startRedis({ clock }), clock);
  });

  test('Sentinel promotes a replica that missed a grant: its holder knows in time', async () => {
    const primary = await engine.start();
    const replication = await FaultyProxy.open(primary.port);
    const replica = await startRedis({ primary: replication });
    const sentinel = await startSentinel(primary);
    const { port } = sentinel;
    const stage = stageOf(engine, port, { ttl: 2 * TTL });
    const [of6, of5] = Object.keys(sentinelClients);
    const holder = await stage.actor({ config: { kind: of6, port } });
    const waiter = await stage.actor({ config: { kind: of5, port } });
    await primary.call('WAIT', '1', '5000');
    replication.stall();
    const held = holder.request('name');
    await held.granted();
    const next = waiter.request('name', {}, 10);
    await next.asked();
    stage.fault();
    await primary.crash();
    await detectFailures(sentinel);
    await held.settled();
    await replica.until(/role:master/);
    const from = now();
    await next.settled();
    await stage.close();
    assert.match(reasonsOf(stage).join(), /^(failover|unreachable)$/);
    assert.ok(timeOf(stage, 'granted', waiter) - from > TTL, 'a quarantine');
    judge(stage, { left: await left(replica, stage) });
    await replication.close();
    await replica.stop();
  });

  test('R5: an old primary that is asked again grants nothing of its successor', async () => {
    const old = await engine.start();
    const replica = await startRedis({ primary: old });
    const replace = async () => {
      await replica.promote();
      return replica.port;
    };
    const stage = await failsBack(engine, old.port, replace, async () => old.port);
    judge(stage, { left: await left(old, stage) });
    for (const server of [replica, old]) await server.stop();
  });

  for (const kind of ['ioredis', 'node-redis']) {
    test(`a grant that falls into a cut of the wake connection is found: ${kind}`, async () => {
      const own = await engine.start();
      const stage = stageOf(engine, own.port, { config: { kind, port: own.port }, ttl: LONG });
      const [holder, waiter] = await Promise.all([stage.actor(), stage.actor()]);
      for (let round = 0; round < 5; round++) {
        const held = holder.request('name');
        await held.granted();
        const next = waiter.request('name', {}, 10);
        await next.asked();
        stage.fault();
        await own.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
        held.release();
        await Promise.all([held.settled(), next.settled()]);
        stage.fault();
      }
      await stage.close();
      assert.deepEqual(reasonsOf(stage), []);
      // This is before a renewal would find the grant.
      judge(stage, { within: LONG / 4, left: await left(own, stage) });
      await own.stop();
    });
  }

  /** Promotes a replica while its primary goes on. */
  async function split({ isStrict }) {
    const settings = ['--min-replicas-max-lag', '1'];
    const primary = await startRedis({ settings });
    const replication = await FaultyProxy.open(primary.port);
    const start = () => startRedis({ primary: replication, settings });
    const [promoted, other] = [await start(), await start()];
    await primary.until(/connected_slaves:2/);
    await primary.call('CONFIG', 'SET', 'min-replicas-to-write', isStrict ? '2' : '0');
    if (isStrict) await primary.until(/min_slaves_good_slaves:2/);
    const proxy = await FaultyProxy.open(primary.port);
    const stage = stageOf(engine, primary.port, { strict: isStrict });
    const holder = await stage.actor();
    const waiter = await stage.actor({ config: { kind: 'ioredis', port: proxy.port } });
    const held = holder.request('name');
    await held.granted();
    const next = waiter.request('name', {}, TTL);
    await next.asked();
    stage.fault();
    replication.refuse();
    await promoted.promote();
    await other.call('REPLICAOF', '127.0.0.1', String(promoted.port));
    await promoted.until(/connected_slaves:1/);
    if (isStrict) await promoted.call('CONFIG', 'SET', 'min-replicas-to-write', '1');
    proxy.retarget(promoted.port);
    proxy.cut();
    await next.granted();
    await wait(TTL / 2);
    held.release();
    await next.settled();
    stage.fault();
    await Promise.race([stage.close(), wait(TTL)]);
    stage.kill();
    for (const one of [proxy, replication]) await one.close();
    for (const one of [promoted, other, primary]) await one.crash();
    return stage;
  }

  test('strict: the holder at a primary that is split off knows before the next one', async () => {
    const stage = await split({ isStrict: true });
    assert.deepEqual(reasonsOf(stage), ['unreachable']);
    judge(stage);
  });

  test('without strict a primary that is split off goes on, as the docs say', async () => {
    const stage = await split({ isStrict: false });
    assert.match(check(stage.events).join(), /is held when/);
  });
});
