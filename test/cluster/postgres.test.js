// slow: 120; long; waits; needs: postgres

'use strict';

/** Several processes with locks in PostgreSQL, under the faults of faults.js. */

const assert = require('node:assert/strict');
const { inspect } = require('node:util');
const { describe, test } = require('node:test');

const pg = require('pg');

const {
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
  wait,
} = require('./faults.js');
const { valuesOf } = require('../helpers/locks.js');
const { FaultyProxy } = require('./proxy.js');
const { ServerClock, lacks, newDisk, startPostgres, startStandby } = require('./servers.js');

/**
 * Counts the rows of locks that are left at a server.
 * @param {{ config: any }} server
 * @param {object} [options]
 * @param {boolean} [options.isVisited] whether another client sweeps first, because some clients
 *   could not reach the server to close
 */
const rowsLeft = ({ config }, { isVisited = false } = {}) =>
  withClient(config, (query) =>
    leftInTheEnd(async () => {
      if (isVisited) await query(`SELECT web_locks.sweep(0, '')`);
      const [left] = await query(`SELECT
        (SELECT count(*)::int FROM web_locks.session) AS sessions,
        (SELECT count(*)::int FROM web_locks.request) AS requests,
        (SELECT count(*)::int FROM pg_stat_activity WHERE query LIKE '%web_locks%'
          AND pid <> pg_backend_pid() AND backend_type = 'client backend') AS connections`);
      return left;
    }),
  );

/**
 * Lends a client of pg, which ends afterwards.
 * @template T
 * @param {any} config
 * @param {(query: (text: string) => Promise<any[]>) => Promise<T>} use
 */
async function withClient(config, use) {
  const client = new pg.Client(config);
  client.on('error', () => {});
  await client.connect();
  const result = await use(async (text) => (await client.query(text)).rows);
  await client.end();
  return result;
}

const engine = {
  name: 'postgres',
  start: () => startPostgres(),
  configOf: (port) => ({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' }),
  left: rowsLeft,
};

describe('PostgreSQL, by several processes', { skip: lacks.postgres }, () => {
  faults(engine);

  test('a crash loses unlogged locks, and nothing is granted too early', async () => {
    const own = await startPostgres();
    await losesLocks(engine, own, { durability: 'unlogged' });
  });

  describe('a power cut, whatever the server syncs by itself', { skip: lacks.gcc }, () => {
    const start = () => {
      const settings = ['synchronous_commit=off', 'wal_writer_delay=10s'];
      return startPostgres({ settings, disk: newDisk() });
    };
    test('costs no mark, and a release happens again', async () => {
      const own = await start();
      await losesRelease(engine, own, true);
      await own.stop();
    });
    test('costs no grant', async () => {
      const own = await start();
      // Without its tables, the server would notice that it has lost locks.
      await losesGrants(engine, own, () => withClient(own.config, (query) => query('CHECKPOINT')));
      await own.stop();
    });
  });

  test('a clock that is set ends no lease, and prolongs none', {
    skip: lacks.faketime,
  }, async () => {
    const clock = new ServerClock();
    await clockJumps(engine, await startPostgres({ clock }), clock);
  });

  for (const loseMissing of [false, true]) {
    const what = loseMissing ? 'that missed the last grant' : 'that has all';
    test(`a standby ${what} is promoted: one holder, tokens grow`, async () => {
      const primary = await startPostgres();
      const replication = await FaultyProxy.open(primary.port);
      const standby = await startStandby(replication);
      const proxy = await FaultyProxy.open(primary.port);
      // The lease outlasts the promotion, even on a loaded machine.
      const stage = stageOf(engine, proxy.port, { ttl: 5 * TTL });
      const [holder, waiter] = await Promise.all([stage.actor(), stage.actor()]);
      const early = holder.request('early', {}, 0);
      await early.settled();
      // The test goes on when the standby has the schema and the sessions.
      await withClient(standby.config, async (query) => {
        const behind = 'SELECT FROM web_locks.session HAVING count(*) < 2';
        while ((await query(behind).catch(() => [1])).length > 0);
      });
      stage.fault();
      if (loseMissing) replication.stall();
      const held = holder.request('name');
      await held.granted();
      const next = waiter.request('name', {}, TTL);
      await next.asked();
      proxy.refuse();
      await primary.stop('SIGQUIT');
      await standby.promote();
      proxy.retarget(standby.port);
      proxy.heal();
      stage.fault();
      if (loseMissing) {
        await held.settled();
        const { reason } = stage.events.find(({ type }) => type === 'told');
        // On a slow machine, the lease may end before the promotion.
        assert.match(reason, /^(failover|unreachable)$/, inspect(holder.states));
      } else {
        await wait(TTL);
        held.release();
      }
      await Promise.all([held.settled(), next.settled()]);
      await stage.close();
      judge(stage, { left: await rowsLeft(standby) });
      await proxy.close();
      await replication.close();
      await standby.stop();
    });
  }

  test('R5: an old primary that comes back grants nothing that its successor granted', async () => {
    const old = await startPostgres();
    const standby = await startStandby(old);
    const replace = async () => {
      await standby.promote();
      return standby.port;
    };
    const stage = await failsBack(engine, old.port, replace, async () => old.port);
    judge(stage, { left: await rowsLeft(old, { isVisited: true }) });
    for (const server of [standby, old]) await server.stop();
  });

  for (const isPromoted of [false, true]) {
    const what = isPromoted
      ? 'is promoted, while an administrator cancels the waits for it'
      : 'comes back';
    test(`a synchronous standby is split off, and ${what}: one holder, tokens grow`, async () => {
      const primary = await startPostgres({ settings: ['synchronous_standby_names=*'] });
      const replication = await FaultyProxy.open(primary.port);
      const standby = await startStandby(replication);
      await withClient(primary.config, async (query) => {
        const isSync = `SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`;
        while ((await query(isSync)).length === 0);
      });
      const proxy = await FaultyProxy.open(primary.port);
      const stage = stageOf(engine, proxy.port, { ttl: 2 * TTL });
      const [holder, waiter] = await Promise.all([stage.actor(), stage.actor()]);
      const held = holder.request('name');
      await held.granted();
      const next = waiter.request('name', {}, 10);
      await next.asked();
      stage.fault();
      replication.stall();
      const unheard = holder.request('unheard', {}, 10);
      await withClient(primary.config, async (query) => {
        while (!held.known.settled && !unheard.known.granted) {
          if (isPromoted)
            await query(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity
              WHERE wait_event = 'SyncRep'`);
          await wait(20);
        }
      });
      assert.equal(unheard.known.granted, undefined);
      if (isPromoted) {
        proxy.refuse();
        await primary.stop('SIGQUIT');
        await standby.promote();
        proxy.retarget(standby.port);
        proxy.heal();
      } else {
        replication.heal();
      }
      stage.fault();
      await Promise.all([next.settled(), unheard.settled()]);
      const told = stage.events.filter(({ type }) => type === 'told');
      assert.deepEqual(valuesOf(told, 'reason'), ['unreachable'], inspect(holder.states));
      await stage.close();
      judge(stage, { left: await rowsLeft(isPromoted ? standby : primary) });
      for (const one of [proxy, replication]) await one.close();
      for (const one of [standby, primary]) await one.stop('SIGQUIT');
    });
  }
});
