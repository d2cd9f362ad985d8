// slow: 60; long; waits; needs: postgres

'use strict';

/** Tests the adapter of PostgreSQL against the contract, at a real server. */

const assert = require('node:assert/strict');
const { EventEmitter, once } = require('node:events');
const { readFileSync } = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { after, before, beforeEach, describe, test } = require('node:test');

const { PostgresAdapter, scriptOf } = require('../../lib/cluster/engines/postgres/adapter.js');
const { explain } = require('../../lib/cluster/engines/postgres/errors.js');
const { SqlSource } = require('../../lib/cluster/engines/postgres/postgres-js.js');
const { openBucket } = require('../../lib/postgres.js');
const refusal = require('./refusal.js');
const {
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
  fresh,
  rejectsWith,
  request,
  shared,
  units,
} = require('./contract.js');
const { tellStories } = require('./stories.js');
const { lacks, startPgbouncer, startPostgres, startStandby, stopAll } = require('./servers.js');

const pg = require('pg');
const postgres = require('postgres');

/** @type {Awaited<ReturnType<typeof startPostgres>>} */
let server;
/** @type {InstanceType<typeof pg.Pool>} */
let pool;
const pools = new Set();

const poolOf = (options = {}) => {
  const made = new pg.Pool({ ...server.config, ...options });
  made.on('error', () => {});
  // A client that is taken from the pool reports its end itself.
  made.on('connect', (one) => one.on('error', () => {}));
  pools.add(made);
  return made;
};

/** Makes a `sql` of postgres.js whose options an adapter must not adopt. */
const sqlOf = (options = {}) => {
  const { port, ...config } = { ...server.config, ...options };
  const odd = { transform: postgres.camel, prepare: false, fetch_types: true, max: 1 };
  const types = { bigint: postgres.BigInt };
  return postgres({ ...config, ...odd, types, port, onnotice() {} });
};

/** The options of an adapter that connects by a library, with settings for the library. */
const LIBRARIES = {
  pg: (settings) => ({ pool: poolOf(settings) }),
  'postgres.js': (settings) => ({ sql: sqlOf(settings) }),
};

/** @param {string} settings of a server process, as words */
const optionsOf = (settings) => settings.trim().replace(/(^|\s+)(?=\S)/g, ' -c ');

/** These settings change what SQL means, or how long a statement may take. */
const INVERTED = optionsOf(`array_nulls=off bytea_output=escape client_min_messages=debug1
  datestyle=German default_transaction_deferrable=on default_transaction_isolation=serializable
  default_transaction_read_only=on extra_float_digits=-15 idle_in_transaction_session_timeout=2000
  idle_session_timeout=5000 intervalstyle=sql_standard lock_timeout=1 quote_all_identifiers=on
  search_path= standard_conforming_strings=off statement_timeout=1000 synchronous_commit=off
  timezone=Asia/Kathmandu transform_null_equals=on`);

/** A server process sends this when its postmaster is gone. */
const FATAL = Buffer.from('E\0\0\0\0SFATAL\0VFATAL\0C57P02\0Munexpected exit\0\0');
FATAL.writeUInt32BE(FATAL.length - 1, 1);

const documented = readFileSync(path.join(__dirname, '../../docs/CLUSTER.md'), 'utf8');
/** The rights that the document gives to the role `app`. */
const grantsOf = (schema) =>
  documented
    .match(/^GRANT .*;$/gm)
    .join('')
    .replaceAll('web_locks', schema);

/** A lease that is short enough to wait for its end. */
const SHORT = 2_000;

const sql = async (text, values) => (await pool.query(text, values)).rows;
/** Reads the only value of the only row. */
const scalar = async (text, values) => Object.values((await sql(text, values))[0])[0];

/** Ends a lease, as time would. With `graced`, no sweep extends it, whoever has renewed. */
const expire = (session, schema = 'web_locks') =>
  sql(
    `UPDATE ${schema}.session SET expires = now() - interval '1 s', graced = true WHERE id = $1`,
    [session],
  );

const endQuarantine = ({ schema = 'web_locks' }) =>
  sql(`UPDATE ${schema}.epoch SET grants_from = clock_timestamp()`);

const lose = (schema) => sql(`UPDATE ${schema}.epoch SET identity = 'another server'`);

/** Lets milliseconds pass by moving all times back. A mark that is over stays over. */
const shift = (schema, milliseconds) =>
  sql(`WITH by AS (SELECT ${milliseconds} * interval '1 millisecond' AS ago),
    a AS (UPDATE ${schema}.session SET renewed = renewed - ago, expires = expires - ago
      FROM by WHERE expires > 'epoch'),
    b AS (UPDATE ${schema}.epoch SET grants_from = grants_from - ago FROM by),
    c AS (UPDATE ${schema}.lapsed SET until = until - ago FROM by)
    UPDATE ${schema}.mark SET until = until - ago FROM by WHERE until > clock_timestamp()`);

/**
 * Rejects if rows of ended sessions are left, if a lock is behind a request that waits, or if the
 * rows of a name have several limits.
 */
async function verify(schema) {
  const rows = ['request', 'theft'].map(
    (table) =>
      `SELECT FROM ${schema}.${table} WHERE session NOT IN (SELECT id FROM ${schema}.session)`,
  );
  rows.push(`SELECT FROM ${schema}.session WHERE expires = 'epoch'
    AND id NOT IN (SELECT session FROM ${schema}.request)`);
  rows.push(`SELECT FROM ${schema}.request lock JOIN ${schema}.request other USING (key)
    WHERE lock.token IS NOT NULL AND other.token IS NULL
      AND (lock.rank, lock.ticket) > (other.rank, other.ticket)`);
  rows.push(`SELECT FROM (SELECT FROM ${schema}.request
    GROUP BY key HAVING count(DISTINCT coalesce(lim, -1)) > 1) name`);
  assert.deepEqual(await sql(rows.join(' UNION ALL ')), []);
}

const client = ({ bucket = 'bucket', ...options } = {}, ttl = TTL, seen = undefined) =>
  clientOf(new PostgresAdapter(bucket, { pool, ...options }), ttl, seen);
/** @param {number} count @param {any} [options] @param {number} [ttl] */
const clients = (count, options, ttl) =>
  Promise.all(Array.from({ length: count }, () => client(options, ttl)));

const requests = (count, options) => Array.from({ length: count }, () => request(fresh(), options));
const publish = ({ ref, name }, text) => ({ kind: 'publish', ref, name, data: text });
const steal = (name) => request(name, { kind: 'steal' });
const available = (name) => request(name, { kind: 'ifAvailable' });

/** Executes a statement in a new transaction of pg, which `commit` ends. */
async function inTransaction(text, values) {
  const own = await pool.connect();
  await own.query('BEGIN');
  await own.query(text, values);
  const commit = async () => {
    await own.query('COMMIT');
    own.release();
  };
  return { own, commit };
}

/**
 * Begins calls one after the other while a transaction blocks them, and then commits it.
 * @param {{ commit: () => Promise<unknown> }} blocker
 * @param {...(() => Promise<any>)} calls
 * @returns what they resolve to
 */
async function whileBlocked({ commit }, ...calls) {
  const blocked = 'SELECT FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0';
  const begun = [];
  for (const call of calls) {
    begun.push(call());
    while ((await sql(blocked)).length < begun.length);
  }
  await commit();
  return Promise.all(begun);
}

const ofName = (schema) => `FROM ${schema}.request WHERE name = $1`;
const bytes = (name) => Buffer.from(name, 'utf16le');

/** Begins a transaction that has the advisory lock of a name in use. */
const lockName = (name, schema = 'web_locks') =>
  inTransaction(
    `SELECT pg_advisory_xact_lock(22349, ('x' || encode(key, 'hex'))::bit(32)::int)
      ${ofName(schema)}`,
    [bytes(name)],
  );

/** Begins a transaction that blocks any step which marks this name; the name is in use. */
async function deleteMark(name) {
  await sql(
    `INSERT INTO web_locks.mark SELECT key, now() - interval '1 s', 1, 1 ${ofName('web_locks')}`,
    [bytes(name)],
  );
  const keys = `SELECT key ${ofName('web_locks')}`;
  return inTransaction(`DELETE FROM web_locks.mark WHERE key IN (${keys})`, [bytes(name)]);
}

/** @returns how many rows there are of a session */
const left = async (session, schema = 'web_locks') => {
  const rows = `SELECT (SELECT count(*) FROM ${schema}.request WHERE session = $1)
    + (SELECT count(*) FROM ${schema}.theft WHERE session = $1)
    + (SELECT count(*) FROM ${schema}.session WHERE id = $1)`;
  return Number(await scalar(rows, [session]));
};

const remove = ({ session }, { ref }) =>
  sql('DELETE FROM web_locks.request WHERE session = $1 AND ref = $2', [session, ref]);

/** Cancels the next wait for a standby. */
async function cancelWait(own) {
  const cancel = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`;
  while ((await own.query(cancel)).rows.length === 0);
}

describe('PostgreSQL', { skip: lacks.postgres }, () => {
  // The answers of an open session do not keep a process alive, but this does.
  const alive = setInterval(() => {}, 60_000);

  before(async () => {
    // The server must not end connections that the adapter should end itself.
    server = await startPostgres({ settings: ['authentication_timeout=10min'] });
    pool = poolOf({ max: 40 });
    await sql('CREATE ROLE app LOGIN');
  });

  disposeAfterEach();

  after(async () => {
    clearInterval(alive);
    for (const made of pools) await made.end();
    await stopAll();
  });

  const engine = {
    client,
    alone: { schema: 'alone' },
    keeper: ({ bucket = 'bucket', ...options } = {}) =>
      new PostgresAdapter(bucket, { pool, ...options }),
    endQuarantine,
    expire: (session, { schema } = {}) => expire(session, schema),
    left,
    remove,
    port: () => server.port,
    through: (port) => ({ pool: poolOf({ port }) }),
    lastWords: { 'that the postmaster is gone': FATAL },
  };

  /** Makes an engine for stories, with a schema of its own whose clock is the test's. */
  const storiesOf = (schema, { client: open }) => ({
    ...engine,
    client: ({ bucket } = {}, ttl) => open({ schema, bucket }, ttl),
    keeper: () => engine.keeper({ schema }),
    endQuarantine: () => sql(`UPDATE ${schema}.epoch SET grants_from = 'epoch'`),
    expire: (session) => expire(session, schema),
    left: (session) => left(session, schema),
    replace: () => lose(schema),
    shift: (milliseconds) => shift(schema, milliseconds),
    verify: () => verify(schema),
  });

  contractOfClients(engine);
  contract(engine);
  tellStories((lane) => storiesOf(`stories_${lane}`, engine));

  /** Makes an engine whose clients have other options, and a bucket of their own. */
  const engineBy = (its, optionsOfClients, optionsOfPort) => ({
    ...engine,
    client: ({ bucket = its, ...options } = {}, ttl = TTL, seen = undefined) =>
      client({ bucket, pool: undefined, ...optionsOfClients(), ...options }, ttl, seen),
    through: optionsOfPort,
  });

  describe('by clients with other settings and parsers', () => {
    const types = { getTypeParser: () => () => 'odd' };
    const odd = { options: INVERTED, types };
    let others;

    before(() => {
      // Each client is used once: the pool may end an idle one just as a test takes it.
      others = poolOf({ max: 40, maxUses: 1, ...odd });
    });

    const engineOfOthers = engineBy(
      'others',
      () => ({ pool: others }),
      (port) => ({ pool: poolOf({ port, ...odd }) }),
    );
    contractOfClients(engineOfOthers);
    tellStories((lane) => storiesOf(`stories_of_others_${lane}`, engineOfOthers), 0.2);
  });

  describe('by postgres.js', () => {
    let bySql;
    const engineBySql = engineBy(
      'by sql',
      () => ({ sql: bySql }),
      (port) => ({ sql: sqlOf({ port }) }),
    );
    const clientBySql = engineBySql.client;

    before(() => {
      bySql = sqlOf();
    });

    contractOfClients(engineBySql);
    tellStories((lane) => storiesOf(`stories_by_sql_${lane}`, engineBySql), 0.2);

    test("a bucket leaves the user's listeners alone, and outlives the user's sql", async () => {
      const own = sqlOf();
      const heard = [];
      const first = await own.listen('channel', (payload) => heard.push(payload));
      const [a, b] = [await clientBySql({ sql: own }), await clientBySql({ sql: own })];
      const { state } = await own.listen('channel', (payload) => heard.push(payload));
      assert.equal(state.pid, first.state.pid);
      await sql(`NOTIFY channel, 'hello'`);
      while (heard.length < 2) await own`SELECT`;
      await own.end();
      const name = fresh();
      const [held, waiting] = [request(name), request(name)];
      assert.deepEqual(await a.answers(held), ['granted']);
      assert.deepEqual(await b.answers(waiting), ['queued']);
      await a.answers(end(held));
      assert.equal((await b.next()).granted, waiting.ref);
    });

    test('a host that answers is asked before a host that does not', async (t) => {
      let count = 0;
      const deaf = net.createServer((socket) => socket.destroy(void count++));
      t.after(() => deaf.close());
      deaf.listen(0, '127.0.0.1');
      await once(deaf, 'listening');
      const at = (...port) => sqlOf({ host: port.map(() => '127.0.0.1'), port });
      const a = await clientBySql({ sql: at(1, server.port) });
      for (let i = 0; i < 2; i++) await a.hello();
      assert.deepEqual(await a.answers(request(fresh())), ['granted']);
      const source = new SqlSource(at(server.port, deaf.address().port));
      for (let i = 0; i < 3; i++) await source.query('SELECT 1');
      assert.equal(count, 0);
    });

    test('a socket that the user makes is used', async () => {
      let count = 0;
      const own = postgres({
        ...server.config,
        socket: async ({ host: [host], port: [port] }) => {
          count++;
          const socket = net.connect({ host, port });
          await once(socket, 'connect');
          return socket;
        },
      });
      const a = await clientBySql({ sql: own });
      assert.deepEqual(await a.answers(request(fresh())), ['granted']);
      assert.equal(count, 1);
    });
  });

  describe('a schema of an older version', () => {
    const dataOf = async ({ adapter }, name) => (await adapter.query(name)).map(({ data }) => data);

    /** Derives the script of that version from the current one. */
    function olderScript(schema) {
      const without = (text, pattern) => {
        assert.match(text, pattern);
        return text.replace(pattern, '');
      };
      const parts = [
        /^ {2}data bytea,\n/m,
        /^ {4}ELSIF kinds\[i\] = 6 THEN\n.*publish_one.*\n/m,
        /^CREATE OR REPLACE FUNCTION \w+\.publish_one[\s\S]*?\$\$;\n/m,
        /^BEGIN ISOLATION LEVEL[\s\S]*/m,
        /(^CREATE OR REPLACE PROCEDURE[\s\S]*?^END \$\$;\n+)+/m,
      ];
      return parts.reduce(without, scriptOf(schema, 'logged'));
    }

    test('gets what it lacks when a lock publishes, also after an old client', async () => {
      const schema = 'older';
      await sql(olderScript(schema));
      const a = await client({ schema });
      const [held, gone] = requests(2);
      await a.answers(held, gone);
      assert.deepEqual(await dataOf(a, held.name), ['']);
      assert.deepEqual(await a.answers(publish(held, '1')), ['published']);
      await sql(olderScript(schema));
      assert.deepEqual(await a.answers(end(gone)), ['ended']);
      const publications = [publish(held, '2'), publish(gone, '2')];
      assert.deepEqual(await a.answers(...publications), ['busy', 'busy']);
      assert.deepEqual(await dataOf(a, held.name), ['1']);
      assert.deepEqual(await a.answers(...publications), ['published', 'notHeld']);
    });

    test('hands locks over before and after clients add its procedures', async () => {
      const schema = 'oldest';
      await sql(olderScript(schema));
      const has = `SELECT to_regproc('${schema}.step_then_notify') IS NOT NULL`;
      const [a, b] = await clients(2, { schema });
      let held = request('name');
      await a.answers(held);
      for (const isThere of [false, true, true]) {
        assert.equal(await scalar(has), isThere);
        await Promise.all([a.hello(), b.hello()]);
        const next = request('name');
        assert.deepEqual(await b.answers(next), ['queued']);
        const last = request('name');
        assert.deepEqual(await a.answers(end(held), last), ['ended', 'queued']);
        assert.equal((await b.next()).granted, next.ref);
        assert.deepEqual(await b.answers(end(next)), ['ended']);
        assert.equal((await a.next()).granted, last.ref);
        held = last;
        if (isThere) await sql(olderScript(schema));
        else await a.answers(publish(held, '1'));
      }
    });
  });

  test('expired marks are deleted by later marks and by sweeps', async () => {
    const schema = 'over';
    const a = await client({ schema });
    const count = () => scalar(`SELECT count(*)::int FROM ${schema}.mark`);
    const mark = async (keep) => {
      const held = request(fresh());
      await a.answers(held, done(held, keep));
    };
    for (let i = 0; i < 50; i++) await mark(1e-3);
    assert.ok((await count()) <= 2);
    for (let i = 0; i < 10; i++) await mark(1e9);
    assert.equal(await count(), 10);
    await sql(`UPDATE ${schema}.mark SET until = now()`);
    await a.adapter.sweep();
    assert.equal(await count(), 0);
  });

  test('many clients create a schema once, even while another one is created', async (t) => {
    const maker = await pool.connect();
    t.after(() => maker.release(true));
    await maker.query(scriptOf('made_slowly', 'logged').replace(/^COMMIT;[\s\S]*/m, ''));
    const [first, second] = await clients(8, { schema: 'made_by_many' });
    const name = fresh();
    assert.deepEqual(await first.answers(request(name)), ['granted']);
    assert.deepEqual(await second.answers(request(name)), ['queued']);
  });

  test('a renewal tells what the second transaction of a step did not', async (t) => {
    const schema = 'untold';
    const [a, b] = await clients(2, { schema });
    // This lock makes it seem that another session hands locks over all the time.
    const other = await pool.connect();
    t.after(() => other.release(true));
    await other.query('SELECT pg_advisory_lock(22351, 0)');
    const names = [fresh(), fresh()];
    const [held, waiting] = [
      names.map((name) => request(name)),
      names.map((name) => request(name)),
    ];
    const before = names.map((name) => request(name));
    await b.answers(...before);
    await a.answers(...held);
    await b.answers(...before.map(end));
    for (const { ref } of held) assert.equal((await a.next()).granted, ref);
    await b.answers(...waiting);
    await sql(`CREATE OR REPLACE PROCEDURE ${schema}.commit_and_notify(news text)
      LANGUAGE plpgsql AS 'BEGIN COMMIT; PERFORM pg_terminate_backend(pg_backend_pid()); END'`);
    const steps = [[end(held[0])], [end(held[1]), request(names[0])]];
    for (const [i, step] of steps.entries()) {
      await assert.rejects(a.step(step, i + 10));
      await a.hello();
      const answers = await a.step(step, i + 10);
      assert.deepEqual(
        answers.map(({ code }) => code),
        ['ended', 'queued'].slice(0, i + 1),
      );
      assert.ok((await b.renew()).mine.get(waiting[i].ref) > 0n);
    }
    assert.equal((await a.renew()).mine.size, 1);
  });

  test('a call over a replaced connection changes nothing', async () => {
    const a = await client();
    const op = request(fresh());
    await a.answers(op);
    await a.hello();
    const state = () => sql('SELECT * FROM web_locks.session WHERE id = $1', [a.session]);
    const unchanged = await state();
    const [row] = await sql(
      `SELECT web_locks.step($1, 1, 2, '{0}', '{900000}', '{abc0}', '{a}', '{f}', '{0}', '{0}',
          '{-1}', '{0}', '{a}', '{0}', '{0}') AS step,
        web_locks.request_alone($1, 1, 3, true, 900001, 'abc1', 'a') AS request,
        web_locks.end_alone($1, 1, 4, $2, 'abc1') AS end,
        (web_locks.renew($1, 1, '', 0, '{}')).alive AS alive`,
      [a.session, op.ref],
    );
    assert.deepEqual(row, { step: ['-5'], request: '-5', end: '-5', alive: false });
    assert.deepEqual(await state(), unchanged);
    assert.deepEqual([...(await a.renew()).mine.keys()], [op.ref]);
  });

  describe('quarantine', () => {
    test('shortens no lease that is renewed while it begins', async () => {
      const schema = 'meanwhile';
      const [a, b] = await clients(2, { schema }, LONG);
      const expires = () =>
        scalar(`SELECT expires FROM ${schema}.session WHERE id = $1`, [a.session]);
      const blocker = await inTransaction(`SELECT FROM ${schema}.lasting FOR UPDATE`);
      let promised;
      const commit = async () => {
        // The new epoch has read the clock, and waits to be written.
        assert.ok((await a.renew()).alive);
        promised = await expires();
        await blocker.commit();
      };
      const begin = () => b.adapter.renew({ life: 'another server', token: 0n });
      const [{ grantsIn }] = await whileBlocked({ commit }, begin);
      assert.ok(grantsIn > 0);
      assert.ok((await expires()) >= promised);
    });

    describe('that begins while a call waits', () => {
      let lives = 0;
      const otherServer = () => `another server ${++lives}`;
      const over = () => sql(`UPDATE web_locks.epoch SET grants_from = 'epoch'`);

      for (const count of [1, 2]) {
        test(`keeps a step of ${count} from granting`, async (t) => {
          t.after(over);
          const a = await client({}, LONG);
          const blocker = await inTransaction('SELECT web_locks.reborn($1, 0)', [otherServer()]);
          const [answers] = await whileBlocked(blocker, () => a.answers(...requests(count)));
          assert.deepEqual(answers, Array(count).fill('queued'));
        });
      }

      for (const what of ['close', 'sweep']) {
        test(`keeps a ${what} from granting`, async (t) => {
          t.after(over);
          const [a, waiting, other] = await clients(3, {}, LONG);
          const op = request(fresh());
          const isQuarantine = what === 'sweep';
          if (isQuarantine)
            await sql(
              `UPDATE web_locks.epoch SET grants_from = clock_timestamp() + interval '1 s'`,
            );
          else await a.answers({ ...op });
          await waiting.answers(op);
          if (isQuarantine) await endQuarantine({});
          const blocker = await lockName(op.name);
          const commit = async () => {
            const { grantsIn } = await other.adapter.renew({ life: otherServer(), token: 0n });
            assert.ok(grantsIn > 0);
            await blocker.commit();
          };
          await whileBlocked({ commit }, () =>
            isQuarantine ? waiting.adapter.sweep() : a.adapter.close(a.session),
          );
          assert.deepEqual([...(await waiting.renew()).mine], [[op.ref, 0n]]);
          assert.deepEqual(waiting.told, []);
        });
      }
    });

    test('begins when another client closes a session, and grants nothing', async () => {
      const schema = 'closes';
      const [a, waiting] = await clients(2, { schema }, LONG);
      const op = request(fresh());
      await a.answers({ ...op });
      await waiting.answers(op);
      await lose(schema);
      await new PostgresAdapter('bucket', { pool, schema }).close(a.session);
      const { grantsIn, mine } = await waiting.renew();
      assert.ok(grantsIn > 0);
      assert.deepEqual([...mine], [[op.ref, 0n]]);
    });
  });

  test('an unlogged schema keeps its marks and the length of leases after a crash', async () => {
    const schema = 'unlogged';
    await closeAll(await client({ schema, durability: 'unlogged' }));
    const logged = await sql(`SELECT relname FROM pg_class WHERE relkind = 'r'
      AND relnamespace = '${schema}'::regnamespace AND relpersistence = 'p' ORDER BY relname`);
    assert.deepEqual(logged, [{ relname: 'lasting' }, { relname: 'mark' }]);
  });

  describe('a primary with a synchronous standby', () => {
    let primary;
    let standby;
    let own;

    before(async () => {
      primary = await startPostgres({ settings: ['synchronous_standby_names=*'] });
      standby = await startStandby(primary);
      own = poolOf(primary.config);
      await own.query('ALTER ROLE postgres SET client_min_messages TO error');
    });

    beforeEach(() => standby.signal('SIGCONT'));

    /** Makes all commits wait for the standby. */
    const standStill = () => standby.signal('SIGSTOP');

    test('has a refused standby, so that the next attempt goes to the primary', async () => {
      const port = [standby.port, primary.port];
      const sql = sqlOf({ host: port.map(() => '127.0.0.1'), port });
      const adapter = new PostgresAdapter('bucket', { sql });
      await rejectsWith(clientOf(adapter), 'ERR_WEB_LOCKS_STANDBY');
      const a = await clientOf(adapter);
      assert.deepEqual(await a.answers(request(fresh())), ['granted']);
    });

    test('lets an end wait for the standby only if it grants something', async () => {
      const [a, b] = await clients(2, { pool: own });
      const [held, last] = requests(2);
      await a.answers(held, last);
      await b.answers(request(held.name));
      await standStill();
      assert.deepEqual(await a.answers(end(last)), ['ended']);
      const refused = rejectsWith(a.step([end(held)]), 'ERR_WEB_LOCKS_NOT_REPLICATED');
      await cancelWait(own);
      await refused;
    });

    test('lets the hand-overs of several names wait for the standby together', async () => {
      const names = [fresh(), fresh(), fresh()];
      const holders = await clients(3, { pool: own });
      const waiters = await clients(3, { pool: own });
      const held = names.map((name) => request(name));
      const waiting = names.map((name) => request(name));
      const first = await client({ pool: own });
      const before = names.map((name) => request(name));
      await first.answers(...before);
      await Promise.all(holders.map((a, i) => a.answers(held[i], request(fresh()))));
      await first.answers(...before.map(end));
      for (const [i, a] of holders.entries()) assert.equal((await a.next()).granted, held[i].ref);
      await Promise.all(waiters.map((a, i) => a.answers(waiting[i])));
      await standStill();
      const ends = holders.map((a, i) =>
        a.answers(...(i === 0 ? [end(held[0]), request(fresh())] : [end(held[i])])),
      );
      // If one hand-over waited for another, this loop would not end.
      const isWaiting = `SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'`;
      while ((await own.query(isWaiting)).rows.length < 3);
      await standby.signal('SIGCONT');
      for (const [i, a] of waiters.entries())
        assert.equal((await a.next()).granted, waiting[i].ref);
      await Promise.all(ends);
      assert.deepEqual(
        waiters.map(({ told }) => told.length),
        [0, 0, 0],
      );
    });

    test('lets a close wait for the standby even if its role waits for none', async () => {
      const hasty = poolOf({ ...primary.config, options: '-c synchronous_commit=off' });
      const [a, b] = await clients(2, { pool: own });
      const [held, waiting] = [request('name'), request('name')];
      await a.answers(held);
      await b.answers(waiting);
      await standStill();
      const closed = new PostgresAdapter('bucket', { pool: hasty }).close(a.session);
      // If the close did not wait, there would be nothing to cancel, and the test would time out.
      await Promise.all([cancelWait(own), closed.catch(() => {})]);
      assert.equal((await b.next()).granted, waiting.ref);
    });

    for (const [library, optionsFor] of Object.entries(LIBRARIES)) {
      test(`answers nothing if a wait for the standby is cancelled: by ${library}`, async () => {
        const a = await client({ pool: undefined, ...optionsFor(primary.config) });
        await standStill();
        const refused = rejectsWith(a.step(requests(1)), 'ERR_WEB_LOCKS_NOT_REPLICATED');
        await cancelWait(own);
        await refused;
        assert.equal((await a.next()).down, 'ERR_WEB_LOCKS_NOT_REPLICATED');
      });
    }
  });

  describe('frequent statements are done', () => {
    async function areDone(a) {
      for (let i = 0; i < 3; i++) {
        const op = request(fresh());
        assert.deepEqual(await a.answers(op), ['granted']);
        assert.deepEqual([...(await a.renew()).mine.keys()], [op.ref]);
        assert.deepEqual(await a.answers(end(op)), ['ended']);
      }
      assert.deepEqual(a.told, []);
    }

    test('over a connection that has got errors and warnings', async () => {
      const schema = 'refusing';
      const a = await client({ schema });
      await sql(`ALTER TABLE ${schema}.request ADD CONSTRAINT none CHECK (false);
        CREATE FUNCTION ${schema}.warn() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE WARNING 'disk is nearly full'; RETURN NEW; END $$;
        CREATE TRIGGER warn BEFORE INSERT ON ${schema}.request FOR EACH ROW
        EXECUTE FUNCTION ${schema}.warn()`);
      for (const [ops, meaning] of [
        [requests(1), 'refused'],
        [requests(1), 'refused'],
        [requests(2), 'refused'],
        [[request(Symbol('no name'))], 'local'],
      ]) {
        const error = await a.step(ops).catch((reason) => reason);
        assert.equal(a.adapter.classify(error), meaning, error.message);
      }
      await sql(`ALTER TABLE ${schema}.request DROP CONSTRAINT none`);
      await areDone(a);
    });

    test('over clients that send statements in a pipeline', async () =>
      areDone(await client({ pool: poolOf({ pipeline: true }) })));

    test('one at a time over each client, also if a tracing tool copies them', async () => {
      const own = poolOf();
      let most = 0;
      own.on('connect', (one) => {
        const { query } = one;
        let count = 0;
        one.query = function (asked, ...rest) {
          most = Math.max(most, ++count);
          const copy = typeof asked?.text === 'string' ? { ...asked } : Object.create(asked);
          const answer = query.call(this, typeof asked === 'object' ? copy : asked, ...rest);
          const subtract = () => count--;
          answer?.then?.(subtract, subtract);
          const { callback } = answer ?? {};
          if (callback) {
            answer.callback = (...results) => {
              subtract();
              callback(...results);
            };
          }
          return answer;
        };
      });
      const a = await client({ pool: own });
      await Promise.all([areDone(a), a.adapter.query(), a.adapter.sweep()]);
      assert.equal(most, 1);
    });
  });

  describe('a transaction that guards a lock', () => {
    /** Makes a lock of `a`, and a transaction that guards it. */
    async function guarded(t, a, options = {}) {
      const op = request(fresh(), { label: 'guarded', ...options });
      const [{ token }] = await a.step([op]);
      const own = await poolOf({ application_name: 'shop "1"' }).connect();
      t.after(() => own.release());
      await own.query('BEGIN');
      assert.equal(await a.adapter.guard(own, { ...op, token }), true);
      return { op, own };
    }

    test('is named to a thief, and to the holder that ends its lock', async (t) => {
      const [a, b] = await clients(2);
      const { op, own } = await guarded(t, a);
      const [{ pid }] = (await own.query('SELECT pg_backend_pid() AS pid')).rows;
      const start = `Lock "${op.name}" is guarded by a transaction that has been open for `;
      const where = `in server process ${pid} ("shop \\"1\\"").`;
      for (const [asker, blocked] of [
        [b, steal(op.name)],
        [a, end(op)],
        [a, { ...end(op), name: undefined }],
        [a, done(op)],
      ]) {
        const [{ code, error }] = await asker.step([blocked]);
        assert.deepEqual([code, error.code], ['busy', 'ERR_WEB_LOCKS_BUSY']);
        assert.ok(error.message.startsWith(start), error.message);
        assert.ok(error.message.includes(where), error.message);
      }
      assert.equal(await a.adapter.marked(op.name), false);
      await own.query('COMMIT');
      assert.deepEqual(await a.answers(done(op)), ['ended']);
      assert.equal(await a.adapter.marked(op.name), true);
    });

    test('blocks nothing else, and keeps its lock held after the lease', async (t) => {
      const [a, b] = await clients(2);
      const { op, own } = await guarded(t, a);
      const [mine, waits] = [request(fresh()), request(op.name)];
      const more = request(op.name, { priority: 1 });
      const limited = shared(op.name, { limit: 2 });
      assert.deepEqual(
        await b.answers(mine, steal(op.name), waits, available(op.name), limited, more, end(mine)),
        ['granted', 'busy', 'queued', 'unavailable', 'queued', 'queued', 'ended'],
      );
      assert.deepEqual([...(await b.renew()).mine.values()], [0n, 0n, 0n]);
      assert.deepEqual(await a.answers(publish(op, '1')), ['published']);
      assert.equal((await a.renew()).mine.size, 1);
      await expire(a.session);
      await b.adapter.sweep();
      await b.adapter.close(a.session);
      assert.deepEqual(await b.answers(end(waits), waits), ['ended', 'queued']);
      const labels = async () => (await b.adapter.query(op.name)).map(({ label }) => label);
      assert.deepEqual(await labels(), ['guarded', '', '', '']);
      await own.query('COMMIT');
      assert.deepEqual(await labels(), ['', '', '']);
      await b.adapter.sweep();
      assert.equal((await b.next()).granted, more.ref);
      assert.equal(await left(a.session), 0);
    });

    test('keeps its lock from a thief that other sharers would not stop', async (t) => {
      const [a, b] = await clients(2);
      const { op } = await guarded(t, a, { mode: 'shared' });
      assert.deepEqual(await b.answers(shared(op.name), steal(op.name)), ['granted', 'busy']);
      assert.equal((await b.adapter.query(op.name)).length, 2);
    });

    test('stops no close that has more names than a page', async () => {
      const a = await client();
      const ops = requests(250);
      const tokens = await a.step(ops);
      const own = await poolOf().connect();
      await own.query('BEGIN');
      for (const i of ops.keys())
        if (i !== 7) await a.adapter.guard(own, { ...ops[i], ...tokens[i] });
      await a.adapter.close(a.session);
      assert.equal(await left(a.session), 250);
      await own.query('COMMIT');
      own.release();
      await a.adapter.close(a.session);
      assert.equal(await left(a.session), 0);
    });

    for (const level of ['REPEATABLE READ', 'SERIALIZABLE']) {
      test(`gets an error if it is ${level} and began before the grant`, async () => {
        const [a, b] = await clients(2);
        const [held, waiting] = requests(2);
        const ahead = request(waiting.name);
        await b.answers(ahead);
        await a.answers(waiting);
        const own = await pool.connect();
        await own.query(`BEGIN ISOLATION LEVEL ${level}`);
        await own.query('SELECT');
        const [{ token }] = await a.step([held]);
        await b.answers(end(ahead));
        const granted = await a.next();
        const old = { code: 'ERR_WEB_LOCKS_ISOLATION', message: /older than the lock/ };
        await assert.rejects(a.adapter.guard(own, { ...held, token }), old);
        await assert.rejects(a.adapter.guard(own, { ...waiting, token: granted.token }), old);
        assert.equal(await a.adapter.guard(own, { ...held, token: token + 1n }), false);
        await own.query(`ROLLBACK; BEGIN ISOLATION LEVEL ${level}`);
        assert.equal(await a.adapter.guard(own, { ...held, token }), true);
        await own.query('ROLLBACK');
        own.release();
      });
    }

    test('is one of pg or of postgres.js, and no pool, idle client or other object', async () => {
      const a = await client();
      const [held, other] = requests(2);
      const [{ token }] = await a.step([held]);
      const guard = (own, { ref } = held) => a.adapter.guard(own, { ref, token });
      const bySql = sqlOf({ max: 2 });
      await bySql.begin(async (own) => {
        assert.equal(await guard(own), true);
        assert.equal(await guard(own, other), false);
        const [answer] = await a.answers(end(held));
        assert.equal(answer, 'busy');
      });
      const [idle, idleOfSql] = [await pool.connect(), await bySql.reserve()];
      for (const [wrong, message] of [
        [bySql, /sql\.begin/],
        [pool, /was given a Pool.*pool\.connect\(\)/],
        [idle, /in a transaction: run BEGIN first/],
        [idleOfSql, /in a transaction: run BEGIN first/],
        [undefined, /lock\.guard\(client\)/],
        [{}, /lock\.guard\(client\)/],
      ])
        await assert.rejects(guard(wrong), { name: 'TypeError', message });
      for (const one of [idle, idleOfSql]) one.release();
    });
  });

  test('nothing is granted while the server knows no epoch', async () => {
    const schema = 'no_epoch';
    const [a, b] = await clients(2, { schema });
    const name = fresh();
    await b.answers(shared(name));
    await sql(`DELETE FROM ${schema}.epoch`);
    for (const op of [request(fresh()), shared(name)])
      assert.deepEqual(await a.answers(op), ['queued']);
  });

  test('no call reads a long queue', async () => {
    const schema = 'queue';
    const own = poolOf({ application_name: 'queue' });
    const a = await client({ schema, pool: own }, LONG);
    const [b, dead] = await clients(2, { schema }, LONG);
    const names = {
      exclusive: {},
      shared: { mode: 'shared' },
      units: { mode: 'shared', limit: 3, weight: 2 },
    };
    for (const [name, its] of Object.entries(names))
      await b.answers(request(name, its), request(name));
    const useAll = async () => {
      for (const [name, its] of Object.entries(names)) {
        const small = { ...its, mode: 'shared', weight: its.limit ? 1 : 0 };
        for (const options of [
          {},
          { maxPending: 100 },
          { kind: 'ifAvailable' },
          small,
          { ...small, priority: 1 },
          { priority: 2 },
        ]) {
          const [op, other] = [request(name, options), request(name, options)];
          await a.answers(op);
          await a.answers(end(op));
          await a.answers(other, request('another'));
          await a.answers(end(other));
        }
      }
      const theft = steal('exclusive');
      await a.answers(theft);
      await a.answers(end(theft));
      await a.renew();
      await a.adapter.sweep();
      await a.adapter.query('another');
    };
    // The server makes and keeps its plans while the tables are almost empty, and only the calls
    // read the table.
    await sql(`ALTER TABLE ${schema}.request SET (autovacuum_enabled = false)`);
    await sql(`ANALYZE ${schema}.request`);
    for (let i = 0; i < 6; i++) await useAll();
    // These are far more than the entries of ended requests, which scans meet while an old snapshot
    // exists.
    const LENGTH = 100_000;
    await sql(
      `INSERT INTO ${schema}.request SELECT key, 0, ticket + n, session, ref * 1000000 + n,
      NULL, false, 0, lim, 0, name, label, asked, NULL
      FROM ${schema}.request, generate_series(1, ${LENGTH}) n WHERE token IS NULL AND session = $1`,
      [b.session],
    );
    await dead.answers(...Object.keys(names).map((name) => request(name, { priority: 1 })));
    await expire(dead.session, schema);
    await useAll();
    await a.adapter.close(a.session);
    await a.adapter.dispose();
    // The server has counted all rows once the connection has ended.
    const isOpen = `SELECT FROM pg_stat_activity WHERE application_name = 'queue'`;
    while ((await sql(isOpen)).length > 0);
    const ofTable = `WHERE schemaname = '${schema}' AND relname = 'request'`;
    const reads = `SELECT (SELECT seq_tup_read FROM pg_stat_user_tables ${ofTable})
      + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes ${ofTable})`;
    const count = Number(await scalar(reads));
    assert.ok(count > 0 && count < LENGTH, `${count} rows`);
  });

  test('a step that outlives the lease of its session does not remove the session', async () => {
    const [a, waiting] = await clients(2, {}, LONG);
    const [marked, name] = [request(fresh()), fresh()];
    await a.answers(marked);
    await a.answers(units(name, 1, 1));
    await waiting.answers(units(name, 1, 1, { priority: -1 }));
    const blocker = await deleteMark(marked.name);
    await sql(
      `UPDATE web_locks.session SET graced = true,
        expires = clock_timestamp() + interval '2 seconds' WHERE id = $1`,
      [a.session],
    );
    const commit = async () => {
      const isOver = 'SELECT FROM web_locks.session WHERE id = $1 AND expires < clock_timestamp()';
      while ((await sql(isOver, [a.session])).length === 0);
      await waiting.renew();
      await blocker.commit();
    };
    const step = [done(marked), units(name, 1, 1, { kind: 'ifAvailable' })];
    const [answers] = await whileBlocked({ commit }, () => a.answers(...step));
    assert.deepEqual(answers, ['ended', 'unavailable']);
    await waiting.adapter.sweep();
    assert.ok((await waiting.next()).granted);
    assert.equal(await left(a.session), 0);
  });

  test('a close ends the requests of a step that is under way', async () => {
    const [a, other] = await clients(2, {}, LONG);
    const marked = request(fresh());
    await a.answers(marked);
    const [answers] = await whileBlocked(
      await deleteMark(marked.name),
      () => a.answers(done(marked), request(fresh())),
      () => other.adapter.close(a.session),
    );
    assert.deepEqual(answers, ['ended', 'granted']);
    assert.equal(await left(a.session), 0);
  });

  describe('there is no deadlock', () => {
    test('between a step and a sweep that extends leases', async () => {
      const [a, b, dead] = await clients(3, {}, LONG);
      const name = fresh();
      await dead.answers(request(name));
      await expire(dead.session);
      // No session seems to have renewed for more than half a lease.
      await sql(
        `UPDATE web_locks.session SET renewed = now() - interval '1 hour', graced = id = $1`,
        [dead.session],
      );
      const step = () => b.answers(request(name));
      const [answers] = await whileBlocked(await lockName(name), step, () => a.adapter.sweep());
      assert.equal(answers.length, 1);
    });

    test('between a step and a close that begins an epoch', async () => {
      const schema = 'circle';
      const [a, b] = await clients(2, { schema }, LONG);
      const name = fresh();
      await a.answers(request(name));
      await sql(`DELETE FROM ${schema}.epoch`);
      const [answers] = await whileBlocked(
        await lockName(name, schema),
        () => b.answers(request(name)),
        () => new PostgresAdapter('bucket', { pool, schema }).close(a.session),
      );
      assert.deepEqual(answers, ['queued']);
    });
  });

  describe('tables', () => {
    for (const [loss, code] of Object.entries({
      dropped: 'ERR_WEB_LOCKS_NO_TABLES',
      emptied: 'ERR_WEB_LOCKS_SESSION_DEAD',
    })) {
      test(`that are ${loss} while they are used begin again, with a quarantine`, async () => {
        const schema = loss;
        const a = await client({ schema });
        const [{ token }] = await a.step([request('name')]);
        const { life } = await a.renew();
        await sql(
          loss === 'dropped'
            ? `DROP SCHEMA ${schema} CASCADE`
            : `TRUNCATE ${schema}.lasting, ${schema}.epoch, ${schema}.session, ${schema}.request;
              ALTER SEQUENCE ${schema}.token RESTART`,
        );
        const gone = await a.step([request('other')]).catch((error) => error);
        assert.deepEqual([gone.code, a.adapter.classify(gone)], [code, 'dead']);
        await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_NO_TABLES');
        const b = await client({ schema });
        assert.ok((await b.answers(...requests(150))).every((answer) => answer === 'queued'));
        await a.adapter.dispose();
        await endQuarantine({ schema });
        await b.adapter.sweep();
        const { mine } = await b.renew();
        assert.ok([...mine.values()].every((granted) => granted > token));
        const c = await client({ schema }, TTL, { life, token });
        assert.ok(c.grantsIn > 0);
      });
    }

    test('that are dropped while unused are created again, without a quarantine', async () => {
      const schema = 'dropped_later';
      const a = await client({ schema });
      await a.adapter.close(a.session);
      await a.adapter.dispose();
      const users = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 22347
        AND objid = (hashtext('${schema}')::bigint & 4294967295)::oid`;
      while ((await sql(users)).length > 0);
      await sql(`DROP SCHEMA ${schema} CASCADE`);
      const b = await client({ schema });
      assert.deepEqual(await b.answers(request('name')), ['granted']);
    });

    for (const [table, isLost] of Object.entries({
      session: true,
      request: true,
      epoch: true,
      lapsed: true,
      theft: false,
      mark: false,
      lasting: false,
    })) {
      test(`of which only "${table}" is dropped are created again`, async () => {
        const schema = `without_${table}`;
        const lifeOf = () => scalar(`SELECT life FROM ${schema}.epoch`);
        const a = await client({ schema });
        const life = await lifeOf();
        await a.adapter.dispose();
        await sql(`DROP TABLE ${schema}.${table}`);
        const b = await client({ schema });
        assert.equal((await lifeOf()) !== life, isLost, 'another epoch');
        await endQuarantine({ schema });
        assert.deepEqual(await b.answers(request('name')), ['granted']);
      });
    }
  });

  for (const encoding of ['LATIN1', 'SQL_ASCII']) {
    test(`a database of ${encoding} keeps all texts as they are`, async () => {
      const database = `of_${encoding.toLowerCase()}`;
      await sql(`CREATE DATABASE ${database} ENCODING '${encoding}' TEMPLATE template0`);
      const a = await client({ bucket: 'b\u00fccket', pool: poolOf({ database }) });
      const [name, label] = ['\u65e5\u672c \0', '\ud800'];
      await a.answers(request(name, { label }));
      const [entry] = await a.adapter.query();
      assert.deepEqual({ ...entry, ...WHO, name, label }, entry);
    });
  }

  describe('errors', () => {
    test('have a meaning for the session', () => {
      const { classify } = new PostgresAdapter('', { pool });
      const meaningOf = (code, text = 'x') =>
        classify(explain(Object.assign(new Error(text), { severity: 'ERROR', code })));
      const codes = {
        refused: '0A000 53200 54000 22003 XX000 23505',
        retry: '08006 57P01 57014 55P03 40001 40P01 25006 53300 53100',
        fatal: '42501',
        dead: '42P01',
      };
      for (const [meaning, all] of Object.entries(codes))
        for (const code of all.split(' ')) assert.equal(meaningOf(code), meaning, code);
      // The next connection prepares another plan.
      assert.equal(meaningOf('0A000', 'cached plan must not change result type'), 'retry');
      assert.equal(classify(explain(new Error('the connection ended'))), 'retry');
      assert.equal(classify(explain(new TypeError('a defect'))), 'local');
      for (const odd of [undefined, null, 1, new Error('odd')])
        assert.equal(classify(odd), 'retry');
      for (const code of ['DEPTH_ZERO_SELF_SIGNED_CERT', 'CERT_HAS_EXPIRED']) {
        const error = explain(Object.assign(new Error('TLS'), { code }));
        assert.deepEqual([error.code, classify(error)], ['ERR_WEB_LOCKS_SERVER', 'fatal']);
      }
    });

    test('keep a transaction of another isolation level from changing locks', async () => {
      const own = await pool.connect();
      await own.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await assert.rejects(own.query(`SELECT web_locks.sweep(1, '')`), { code: 'WL001' });
      await own.query('ROLLBACK');
      own.release();
    });

    for (const [library, optionsFor] of Object.entries(LIBRARIES)) {
      const by = ({ listen, ...settings }) =>
        client({ pool: undefined, listen, ...optionsFor(settings) });

      test(`say that a pooler lets no notification through: ${library}`, {
        skip: lacks.pgbouncer,
      }, async () => {
        const inMode = async (mode) => ({ port: (await startPgbouncer(server, mode)).port });
        const code = 'ERR_WEB_LOCKS_NO_NOTIFY';
        await rejectsWith(by(await inMode('statement')), code);
        const through = await inMode('transaction');
        await assert.rejects(by(through), { code, message: /pgbouncer.*`listen`/ });
        // The shortest lease leaves time for the probe; otherwise, the bucket would never say why.
        const bucket = openBucket('bucket', { ...optionsFor(through), ttl: SHORT });
        const whyNot = () => bucket.ready.catch((error) => error.code);
        let why = await whyNot();
        while (why === 'ERR_WEB_LOCKS_UNREACHABLE') why = await whyNot();
        assert.equal(why, code);
        await bucket.close();
        for (const served of [
          await by(await inMode('session')),
          await by({ ...through, listen: sqlOf() }),
          await by({ ...through, listen: poolOf({ max: 1 }) }),
        ])
          assert.deepEqual(await served.answers(request(fresh())), ['granted']);
      });
    }

    test('of a refused login or a missing database end when the server mends them', async () => {
      const database = 'made_anew';
      await sql('CREATE ROLE rotated LOGIN SUPERUSER');
      await sql(`CREATE DATABASE ${database}`);
      const disconnect = () =>
        sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${database}'`);
      const bucketOf = (user) =>
        openBucket(user, { pool: poolOf({ user, database }), ttl: refusal.TTL });
      const refuse = async () => {
        await sql('ALTER ROLE rotated NOLOGIN');
        await disconnect();
      };
      const serve = () => sql('ALTER ROLE rotated LOGIN');
      await refusal.outlivesRefusal(bucketOf('rotated'), 'ERR_WEB_LOCKS_RIGHTS', refuse, serve);
      const drop = async () => {
        await sql(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`);
        await disconnect();
        await sql(`DROP DATABASE ${database}`);
      };
      const create = () => sql(`CREATE DATABASE ${database}`);
      await refusal.outlivesRefusal(bucketOf('postgres'), 'ERR_WEB_LOCKS_DATABASE', drop, create);
    });

    const bothLibraries = (what, settings, ...expected) =>
      Object.entries(LIBRARIES).map(([library, optionsFor]) => [
        `${what}, by ${library}`,
        () => optionsFor(settings),
        ...expected,
      ]);
    const unknown = { severity: 'ERROR', code: '42883', message: 'unknown function' };
    const foreign = Object.assign(new EventEmitter(), {
      query: () => Promise.reject(Object.assign(new Error(), unknown)),
      release() {},
    });
    const lacksPassword = () =>
      Promise.reject(
        new Error('SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string'),
      );
    const connectingBy = (connect) => ({ pool: { connect, query() {}, options: {} } });
    const otherVersion = async () => {
      await sql(scriptOf('other_version', 'logged'));
      await sql('UPDATE other_version.lasting SET version = 99');
      return { pool, schema: 'other_version' };
    };

    for (const [what, optionsFor, code, message = /./] of [
      ...bothLibraries('a missing database', { database: 'none' }, 'DATABASE', /"none"/),
      ...bothLibraries('an unknown role', { user: 'nobody' }, 'RIGHTS'),
      ...bothLibraries('a port without a server', { port: 1 }, 'UNREACHABLE'),
      ['missing TLS', () => LIBRARIES.pg({ ssl: true }), 'SERVER'],
      ['a foreign server', () => connectingBy(async () => foreign), 'SERVER', /not PostgreSQL/],
      ['a missing password', () => connectingBy(lacksPassword), 'RIGHTS', /login.*password/],
      ['another durability', () => ({ pool, durability: 'unlogged' }), 'SCHEMA'],
      ['another version', otherVersion, 'SCHEMA', /99/],
    ])
      test(`name what is wrong: ${what}`, async () => {
        const options = { pool: undefined, ...(await optionsFor()) };
        const error = await client(options).catch((reason) => reason);
        assert.equal(error.code, `ERR_WEB_LOCKS_${code}`, error.stack);
        assert.match(error.message, message);
        const meaning = code === 'UNREACHABLE' ? 'retry' : 'fatal';
        assert.equal(new PostgresAdapter('', { pool }).classify(error), meaning);
      });

    for (const [what, optionsFor, message] of [
      ['no pool', () => ({ pool: undefined }), /'pool' is undefined/],
      ['an object', () => ({ pool: {} }), /'pool' is an object/],
      ['a number to listen with', () => ({ pool, listen: 7 }), /'listen' is 7/],
      ['SQL as schema', () => ({ pool, schema: 'a"; DROP' }), /'schema' is/],
      ['another durability', () => ({ pool, durability: 'often' }), /'durability' is 'often'/],
      ['both libraries', () => ({ pool, sql: sqlOf() }), /Both 'pool' and 'sql'/],
      ['a pool of one', () => ({ pool: poolOf({ max: 1 }) }), /`max`.*less than 2/],
      ['a Client', () => ({ pool: new pg.Client() }), /a Client of pg.*pool: new Pool\(/],
      ['a string', () => ({ pool: 'postgres://localhost' }), /a string.*new Pool\(.*postgres\(/],
      ['settings', () => ({ pool: { host: 'db' } }), /of settings.*new Pool\(settings\)/],
      ['a sql as pool', () => ({ pool: sqlOf() }), /`sql` of postgres\.js.*\{ sql \}/],
      ['a Pool as sql', () => ({ sql: pool }), /'sql' is a Pool of pg.*\{ pool \}/],
      ['Drizzle', () => ({ pool: { $client: pool, transaction() {} } }), /Drizzle.*db\.\$client/],
      ['Knex', () => ({ pool: Object.assign(() => {}, { raw() {}, client: {} }) }), /Knex/],
      ['Prisma', () => ({ sql: { $queryRaw() {} } }), /Prisma.*new Pool\(/],
    ])
      test(`say what to write instead of ${what}`, () => {
        const expected = { name: 'TypeError', message };
        assert.throws(() => new PostgresAdapter('', optionsFor()), expected);
      });

    test('say that a pool has no client left for a bucket, until it has', async () => {
      const busy = poolOf({ max: 2, application_name: 'busy' });
      const taken = [await busy.connect(), await busy.connect()];
      const bucket = openBucket('bucket', { pool: busy, ttl: SHORT });
      const code = 'ERR_WEB_LOCKS_POOL_EXHAUSTED';
      const expected = { code, message: /All 2 clients/ };
      for (const opened of [client({ pool: busy }), bucket.ready])
        await assert.rejects(opened, expected);
      taken[0].release();
      await refusal.isOpen(bucket);
      await bucket.close();
      const a = await client({ pool: busy });
      // Otherwise the place of the lost connection would be free.
      busy.options.max = 1;
      await taken[1].query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'busy' AND pid <> pg_backend_pid()`);
      await a.next();
      await rejectsWith(a.hello(), code);
      taken[1].release();
      await a.hello();
    });

    test('say that a pool was ended, before or after its bucket was opened', async () => {
      const code = 'ERR_WEB_LOCKS_POOL_ENDED';
      const ended = poolOf({ application_name: 'ended' });
      pools.delete(ended);
      const a = await client({ pool: ended }, LONG);
      const bucket = openBucket('bucket', { pool: ended, ttl: LONG });
      await bucket.ready;
      const isEnded = ended.end();
      const suspect = once(bucket, 'suspect');
      await sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'ended'`);
      await suspect;
      await a.next();
      const asked = bucket.locks.request('name', () => {});
      const calls = [asked, bucket.ready, a.adapter.query(), client({ pool: ended })];
      await Promise.all(calls.map((call) => rejectsWith(call, code)));
      await bucket.close();
      await isEnded;
    });

    test('say which rights a role lacks, and end with the rights of the document', async (t) => {
      await sql('ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC');
      t.after(() => sql('ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC'));
      const schema = 'granted_by_hand';
      const app = poolOf({ user: 'app' });
      const isRefused = () =>
        assert.rejects(client({ pool: app, schema }), {
          code: 'ERR_WEB_LOCKS_RIGHTS',
          message: /docs\/CLUSTER\.md/,
        });
      await isRefused();
      await sql(scriptOf(schema, 'logged'));
      await isRefused();
      await sql(grantsOf(schema));
      const a = await client({ pool: app, schema });
      const op = request('name');
      assert.deepEqual(await a.answers(op), ['granted']);
      assert.deepEqual(await a.answers(end(op)), ['ended']);
    });
  });
});
