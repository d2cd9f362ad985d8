// slow: 65; long; waits; needs: postgres

'use strict';

/** The adapter of PostgreSQL against the contract, at a real server. */

const assert = require('node:assert/strict');
const { createHash } = require('node:crypto');
const { EventEmitter, once } = require('node:events');
const { readFileSync } = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');

const { PostgresAdapter, scriptOf } = require('../../lib/cluster/engines/postgres/adapter.js');
const { NO_EVENTS } = require('../../lib/cluster/adapter.js');
const { explain } = require('../../lib/cluster/engines/postgres/errors.js');
const { SqlSource } = require('../../lib/cluster/engines/postgres/postgres-js.js');
const { openBucket } = require('../../lib/postgres.js');
const refusal = require('./refusal.js');
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
  fresh,
  rejectsWith,
  request,
  shared,
  units,
} = require('./contract.js');
const { tellStories } = require('./stories.js');
const { FaultyProxy } = require('./proxy.js');
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
  pools.add(made);
  return made;
};

/** A `sql` of postgres.js, with options that come in the way of who does not set his own. */
const sqlOf = (options = {}) => {
  const { port, ...config } = { ...server.config, ...options };
  const odd = { transform: postgres.camel, prepare: false, fetch_types: true, max: 1 };
  const types = { bigint: postgres.BigInt };
  return postgres({ ...config, ...odd, types, port, onnotice() {} });
};

/** Settings that change what SQL means, or how long something may take, as nobody has them. */
const INVERTED = {
  array_nulls: 'off',
  bytea_output: 'escape',
  client_min_messages: 'debug1',
  datestyle: 'German',
  default_transaction_deferrable: 'on',
  default_transaction_isolation: 'serializable',
  default_transaction_read_only: 'on',
  extra_float_digits: '-15',
  idle_in_transaction_session_timeout: '2000',
  idle_session_timeout: '5000',
  intervalstyle: 'sql_standard',
  lock_timeout: '1',
  quote_all_identifiers: 'on',
  standard_conforming_strings: 'off',
  statement_timeout: '1000',
  synchronous_commit: 'off',
  timezone: 'Asia/Kathmandu',
  transform_null_equals: 'on',
};

/** What a server process says when its postmaster is gone. */
const FATAL = Buffer.from('E\0\0\0\0SFATAL\0VFATAL\0C57P02\0Munexpected exit\0\0');
FATAL.writeUInt32BE(FATAL.length - 1, 1);

const documented = readFileSync(path.join(__dirname, '../../docs/CLUSTER.md'), 'utf8');

/** A lease for which a test waits. */
const SHORT = 2_000;

const sql = async (text, values) => (await pool.query(text, values)).rows;
/** Makes a lease run out, as time would; it is not extended because nobody has renewed for long. */
const expire = (session, schema = 'web_locks') =>
  sql(
    `UPDATE ${schema}.session SET expires = now() - interval '1 s', graced = true WHERE id = $1`,
    [session],
  );

/** Lets milliseconds pass: all times are so much longer ago. A mark that is over stays over. */
const shift = (schema, milliseconds) =>
  sql(`WITH by AS (SELECT ${milliseconds} * interval '1 millisecond' AS ago),
    a AS (UPDATE ${schema}.session SET renewed = renewed - ago, expires = expires - ago
      FROM by WHERE expires > 'epoch'),
    b AS (UPDATE ${schema}.epoch SET grants_from = grants_from - ago FROM by),
    c AS (UPDATE ${schema}.lapsed SET until = until - ago FROM by)
    UPDATE ${schema}.mark SET until = until - ago FROM by WHERE until > clock_timestamp()`);

/** An engine for stories, with a schema of its own whose clock is the test's. */
const storiesOf = (schema, engine) => ({
  ...engine,
  client: (_, ttl) => engine.client({ schema }, ttl),
  endQuarantine: () => sql(`UPDATE ${schema}.epoch SET grants_from = 'epoch'`),
  expire: (session) => expire(session, schema),
  shift: (milliseconds) => shift(schema, milliseconds),
});

const client = ({ bucket = 'bucket', ...options } = {}, ttl = TTL, seen = undefined) =>
  clientOf(new PostgresAdapter(bucket, { pool, ...options }), ttl, seen);

/** @returns {Buffer} the key of a name of the bucket that clients have by default */
function keyOf(name) {
  const hash = (bytes) => createHash('sha256').update(bytes).digest();
  const utf16 = (text) => Buffer.from(text, 'utf16le');
  return hash(Buffer.concat([hash(utf16('bucket')), utf16(name)]));
}

/** A client of pg whose transaction has done something, and the end of that. */
async function inTransaction(text, values) {
  const own = await pool.connect();
  await own.query('BEGIN');
  await own.query(text, values);
  return {
    own,
    async commit() {
      await own.query('COMMIT');
      own.release();
    },
  };
}

/** One that has the advisory lock of a name. */
const lockName = (name) =>
  inTransaction('SELECT pg_advisory_xact_lock(22349, $1)', [keyOf(name).readInt32BE(0)]);

/** One that deletes the mark of a name, which is over: who marks the name waits for it. */
async function deleteMark(name) {
  const key = keyOf(name);
  await sql(`INSERT INTO web_locks.mark VALUES ($1, now() - interval '1 s', 1, 1)`, [key]);
  return inTransaction('DELETE FROM web_locks.mark WHERE key = $1', [key]);
}

/** Resolves when so many statements wait for what a client of pg has. */
async function untilWaiting({ processID }, count = 1) {
  const waits = 'SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))';
  while ((await sql(waits, [processID])).length < count);
}

/** How many rows there are of a session. */
const left = async (session) => {
  const rows = `SELECT count(*)::int AS n FROM web_locks.request WHERE session = $1
    UNION ALL SELECT count(*)::int FROM web_locks.theft WHERE session = $1
    UNION ALL SELECT count(*)::int FROM web_locks.session WHERE id = $1`;
  return (await sql(rows, [session])).reduce((sum, { n }) => sum + n, 0);
};

/** Deletes the row of a request. */
const remove = ({ session }, { ref }) =>
  sql('DELETE FROM web_locks.request WHERE session = $1 AND ref = $2', [session, ref]);

/** The server processes that wait for a standby. */
async function waitingOf(own) {
  const waits = `SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'`;
  return (await own.query(waits)).rows.map(({ pid }) => pid);
}

/** Cancels the wait for a standby of those who do, or will next. */
async function cancelWait(own) {
  let pids = [];
  while (pids.length === 0) pids = await waitingOf(own);
  for (const pid of pids) await own.query('SELECT pg_cancel_backend($1)', [pid]);
}

/**
 * Has commits wait for a standby that there is not; resolves when they do. All processes that serve
 * clients were told to before the one on which that depends.
 */
async function haveCommitsWait(own) {
  await own.query(`ALTER SYSTEM SET synchronous_standby_names TO 'nobody'`);
  await own.query('SELECT pg_reload_conf()');
  for (let i = 0, waits = false; !waits; i++) {
    let isDone = false;
    const written = own.query(`CREATE TABLE written_${i} ()`).then(() => {
      isDone = true;
    });
    while (!isDone && !waits) waits = (await waitingOf(own)).length > 0;
    if (waits) await cancelWait(own);
    await written;
  }
}

describe('PostgreSQL', { skip: lacks.postgres }, () => {
  // Answers of an open session do not keep a process alive, this does.
  const alive = setInterval(() => {}, 60_000);

  before(async () => {
    server = await startPostgres();
    pool = poolOf({ max: 40 });
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
    leaseEnd: async (session) => {
      const [{ expires }] = await sql('SELECT expires FROM web_locks.session WHERE id = $1', [
        session,
      ]);
      return Number(expires);
    },
    endQuarantine: ({ schema }) =>
      sql(`UPDATE ${schema}.epoch SET grants_from = clock_timestamp()`),
    expire,
    left,
    remove,
    port: () => server.port,
    through: (port) => ({ pool: poolOf({ port }) }),
    lastWords: { 'that the postmaster is gone': FATAL },
  };
  contractOfClients(engine);
  contract(engine);
  tellStories((lane) => storiesOf(`stories_${lane}`, engine));

  describe('a schema of a version that publishes nothing', () => {
    const publish = ({ ref, name }, text) => ({ kind: 'publish', ref, name, data: text });
    const dataOf = async ({ adapter }, name) => (await adapter.query(name)).map(({ data }) => data);

    /** The script as it was: what was added since is taken away. */
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
      ];
      return parts.reduce(without, scriptOf(schema, 'logged'));
    }

    test('goes on as it is, and gets what is missing with the first publication', async () => {
      const schema = 'older';
      await sql(olderScript(schema));
      const [a, b] = [await client({ schema }), await client({ schema })];
      const held = request(fresh());
      await a.answers(held);
      assert.deepEqual(await dataOf(b, held.name), ['']);
      const columns = `SELECT FROM information_schema.columns
        WHERE table_schema = '${schema}' AND table_name = 'request' AND column_name = 'data'`;
      assert.equal((await sql(columns)).length, 0);
      assert.deepEqual(await a.answers(publish(held, '1')), ['published']);
      assert.deepEqual(await dataOf(b, held.name), ['1']);
      assert.deepEqual(await b.answers(request(held.name)), ['queued']);
      assert.deepEqual(await a.answers(end(held)), ['ended']);
      assert.equal((await sql(columns)).length, 1);
    });

    test('is waited for by nobody while a transaction of a user is in the way', async () => {
      const schema = 'older_guarded';
      await sql(olderScript(schema));
      const a = await client({ schema });
      const [held, other] = [request(fresh()), request(fresh())];
      const [{ token }] = await a.step([held]);
      const { own, commit } = await inTransaction('SELECT');
      assert.equal(await a.adapter.guard(own, { ref: held.ref, token }), true);
      const answers = await a.step([publish(held, '1'), other]);
      assert.deepEqual(
        answers.map(({ code }) => code),
        ['busy', 'granted'],
      );
      assert.equal(answers[0].error.code, 'ERR_WEB_LOCKS_BUSY');
      assert.deepEqual(await a.answers(publish(held, '1')), ['busy']);
      await a.hello();
      assert.deepEqual(await a.answers(publish(held, '1')), ['busy']);
      await commit();
      await a.hello();
      assert.deepEqual(await a.answers(publish(held, '2')), ['published']);
      assert.deepEqual(await dataOf(a, held.name), ['2']);
    });

    test('R1: has a step done again as it was, though it has been changed meanwhile', async () => {
      const schema = 'older_repeated';
      await sql(olderScript(schema));
      const a = await client({ schema });
      const [held, other] = [request(fresh()), request(fresh())];
      const [{ token }] = await a.step([held]);
      const { own, commit } = await inTransaction('SELECT');
      assert.equal(await a.adapter.guard(own, { ref: held.ref, token }), true);
      const step = [publish(held, '1'), other];
      const codesOf = (answers) => answers.map(({ code }) => code);
      assert.deepEqual(codesOf(await a.step(step)), ['busy', 'granted']);
      await commit();
      await sql(scriptOf(schema, 'logged'));
      await a.hello();
      assert.deepEqual(codesOf(await a.again(step)), ['busy', 'granted']);
      assert.deepEqual(await a.answers(publish(held, '1')), ['published']);
      await a.hello();
      assert.deepEqual(codesOf(await a.again([publish(held, '1')])), ['published']);
    });

    test('that makes its functions anew has them replaced', async () => {
      const schema = 'older_again';
      const a = await client({ schema });
      const [held, gone] = [request(fresh()), request(fresh())];
      await a.answers(held, gone);
      assert.deepEqual(await a.answers(publish(held, '1')), ['published']);
      await sql(olderScript(schema));
      assert.deepEqual(await a.answers(end(gone)), ['ended']);
      assert.deepEqual(await a.answers(publish(held, '2'), publish(gone, '2')), ['busy', 'busy']);
      assert.deepEqual(await dataOf(a, held.name), ['1']);
      assert.deepEqual(await dataOf(a, gone.name), []);
      assert.deepEqual(await a.answers(publish(held, '2'), publish(gone, '2')), [
        'published',
        'notHeld',
      ]);
    });

    test('says so to a role that may not change it, and does everything else', async () => {
      const schema = 'older_of_others';
      await sql(olderScript(schema));
      await sql(`CREATE ROLE publisher LOGIN;
        ${documented
          .match(/^GRANT .*;$/gm)
          .join('')
          .replaceAll('web_locks', schema)
          .replaceAll('app', 'publisher')}`);
      const a = await client({ schema, pool: poolOf({ user: 'publisher' }) });
      const [held, other] = [request(fresh()), request(fresh())];
      await a.answers(held);
      const [refused, { code }] = await a.step([publish(held, '1'), other]);
      assert.deepEqual([refused.code, code], ['failed', 'granted']);
      assert.equal(refused.error.code, 'ERR_WEB_LOCKS_RIGHTS');
      await sql(scriptOf(schema, 'logged'));
      assert.deepEqual(await a.answers(publish(held, '1')), ['published']);
    });
  });

  test('a guard is not in the way of a publication', async () => {
    const a = await client();
    const held = request(fresh());
    const [{ token }] = await a.step([held]);
    const { own, commit } = await inTransaction('SELECT');
    assert.equal(await a.adapter.guard(own, { ref: held.ref, token }), true);
    const publication = { kind: 'publish', ref: held.ref, name: held.name, data: '1' };
    assert.deepEqual(await a.answers(publication), ['published']);
    assert.deepEqual(await a.answers(end(held)), ['busy']);
    assert.equal(await a.adapter.guard(own, { ref: held.ref, token }), true);
    await commit();
    assert.deepEqual(await a.answers(end(held)), ['ended']);
  });

  describe('for a role whose settings are others', () => {
    let others;

    before(() => {
      const settings = Object.entries(INVERTED).map(([name, value]) => `-c ${name}=${value}`);
      // A client that is idle in the pool may be ended just as it is taken from it.
      others = poolOf({ max: 40, maxUses: 1, options: settings.join(' ') });
    });

    const engineOfOthers = {
      ...engine,
      client: ({ bucket = 'others', ...options } = {}, ttl = TTL, seen = undefined) =>
        clientOf(new PostgresAdapter(bucket, { pool: others, ...options }), ttl, seen),
      through: (port) => ({ pool: poolOf({ port, options: others.options.options }) }),
    };
    contractOfClients(engineOfOthers);
    tellStories((lane) => storiesOf(`stories_of_others_${lane}`, engineOfOthers), 0.2);
  });

  describe('by postgres.js', () => {
    let bySql;
    const clientBySql = ({ bucket = 'by sql', ...options } = {}, ttl = TTL, seen = undefined) =>
      clientOf(new PostgresAdapter(bucket, { sql: bySql, ...options }), ttl, seen);
    const engineBySql = {
      ...engine,
      client: clientBySql,
      through: (port) => ({ sql: sqlOf({ port }) }),
    };

    before(() => {
      bySql = sqlOf();
    });

    contractOfClients(engineBySql);
    tellStories((lane) => storiesOf(`stories_by_sql_${lane}`, engineBySql), 0.2);

    test('what the user listens to is not disturbed, and its end ends no bucket', async () => {
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

    test('a transaction guards a lock', async () => {
      const a = await clientBySql();
      const [op, other] = [request(fresh()), request(fresh())];
      const [{ token }] = await a.step([op]);
      const guard = (own, { ref }) => a.adapter.guard(own, { ref, token });
      await bySql.begin(async (own) => {
        assert.equal(await guard(own, op), true);
        assert.equal(await guard(own, other), false);
        const thief = await client({ bucket: 'by sql' });
        assert.deepEqual(await thief.answers(request(op.name, { kind: 'steal' })), ['busy']);
      });
      const outside = { name: 'TypeError', message: /sql\.begin/ };
      await assert.rejects(guard(bySql, op), outside);
      const reserved = await bySql.reserve();
      await assert.rejects(guard(reserved, op), { name: 'TypeError', message: /BEGIN/ });
      reserved.release();
    });

    test('a host that does not answer, or is no primary, is asked last', async () => {
      const own = sqlOf({ host: ['127.0.0.1', server.config.host], port: [1, server.port] });
      const a = await clientBySql({ sql: own });
      await a.hello();
      await a.hello();
      assert.deepEqual(await a.answers(request(fresh())), ['granted']);
    });

    test('a host that answers is asked first for the next single statement', async (t) => {
      let count = 0;
      const other = net.createServer((socket) => socket.destroy(void count++));
      t.after(() => other.close());
      other.listen(0, '127.0.0.1');
      await once(other, 'listening');
      const ports = [server.port, other.address().port];
      const source = new SqlSource(sqlOf({ host: Array(2).fill('127.0.0.1'), port: ports }));
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

    test('a server that does not answer does not keep close', async () => {
      const proxy = await FaultyProxy.open(server.port);
      const bucket = openBucket('bucket', { sql: sqlOf({ port: proxy.port }), ttl: SHORT });
      const lost = once(bucket, 'lost');
      await refusal.isOpen(bucket);
      proxy.stall();
      await lost;
      await bucket.close();
      await proxy.close();
    });

    test('a pooler in transaction mode is refused', { skip: lacks.pgbouncer }, async () => {
      const { port } = await startPgbouncer(server, 'transaction');
      const through = sqlOf({ port });
      await rejectsWith(clientBySql({ sql: through }), 'ERR_WEB_LOCKS_NO_NOTIFY');
      for (const listen of [bySql, pool]) {
        const a = await clientBySql({ sql: through, listen });
        assert.deepEqual(await a.answers(request(fresh())), ['granted']);
      }
    });

    test('a login or a database that is refused is told as that', async () => {
      const refused = (options, code) => rejectsWith(clientBySql({ sql: sqlOf(options) }), code);
      await refused({ database: 'nowhere' }, 'ERR_WEB_LOCKS_DATABASE');
      await refused({ user: 'nobody' }, 'ERR_WEB_LOCKS_RIGHTS');
      await refused({ port: 1 }, 'ERR_WEB_LOCKS_UNREACHABLE');
    });

    test('a cancelled wait for a synchronous standby is no answer', async () => {
      const primary = await startPostgres();
      const ownPool = poolOf(primary.config);
      const a = await clientBySql({ sql: sqlOf(primary.config) });
      await haveCommitsWait(ownPool);
      const refused = rejectsWith(a.step([request('name')]), 'ERR_WEB_LOCKS_NOT_REPLICATED');
      await cancelWait(ownPool);
      await refused;
      assert.equal((await a.next()).down, 'ERR_WEB_LOCKS_NOT_REPLICATED');
    });
  });

  test('marks that are over do not add up', async () => {
    const schema = 'over';
    const a = await client({ schema });
    const count = async () => (await sql(`SELECT count(*)::int AS n FROM ${schema}.mark`))[0].n;
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

  test('the schema is made once when many open at the same time', async () => {
    const schema = 'many_at_once';
    const all = await Promise.all(Array.from({ length: 8 }, () => client({ schema }, 60_000)));
    const [first, second] = all;
    const name = fresh();
    assert.deepEqual(await first.answers(request(name)), ['granted']);
    assert.deepEqual(await second.answers(request(name)), ['queued']);
    for (const { adapter } of all) await adapter.dispose();
  });

  test('what an old connection still says changes nothing', async () => {
    const a = await client();
    const op = request(fresh());
    await a.answers(op);
    await a.hello();
    const [row] = await sql(
      `SELECT web_locks.step($1, 1, 2, '{0}', '{900000}', '{abc0}', '{a}', '{f}', '{0}', '{0}', '{-1}',
          '{0}', '{a}', '{0}', '{0}') AS step,
        web_locks.request_alone($1, 1, 3, true, 900001, 'abc1', 'a') AS request,
        web_locks.end_alone($1, 1, 4, $2, 'abc1') AS end`,
      [a.session, op.ref],
    );
    assert.deepEqual(row, { step: ['-5'], request: '-5', end: '-5' });
    assert.deepEqual([...(await a.renew()).mine.keys()], [op.ref]);
  });

  describe('a session is woken by what is told to others', () => {
    /** A client, and what its connection listens to. */
    async function alone() {
      const own = poolOf({ max: 2 });
      const connected = once(own, 'connect');
      const a = await client({ pool: own });
      const listening = async () => {
        const [one] = await connected;
        const { rows } = await one.query('SELECT pg_listening_channels() AS channel');
        return rows.length > 0;
      };
      return { ...a, listening };
    }

    test('from when it asks for something until it has had and asked for nothing for two renewals', async () => {
      const [a, b] = [await alone(), await client()];
      assert.equal(await a.listening(), false);
      const name = fresh();
      const use = async () => {
        const op = request(name);
        await a.answers(op);
        await a.answers(end(op));
      };
      for (let i = 0; i < 4; i++) {
        await use();
        await a.renew();
      }
      assert.equal(await a.listening(), true);
      await a.renew();
      assert.equal(await a.listening(), false);
      const [held, waiting, available] = [request(name), request(name), request(fresh())];
      await b.answers(held);
      await a.answers(waiting, available);
      assert.equal(await a.listening(), true);
      await b.answers(end(held));
      assert.equal((await a.next()).granted, waiting.ref);
    });

    test('again when it asks while it is about to hear nothing more', async () => {
      const [a, b] = [await alone(), await client()];
      const [first, held] = [request(fresh()), request(fresh())];
      await b.answers(held);
      await a.answers(first);
      await a.answers(end(first));
      await a.renew();
      const waiting = request(held.name);
      const [, answers] = await Promise.all([a.renew(), a.answers(waiting)]);
      assert.deepEqual(answers, ['queued']);
      await b.answers(end(held));
      assert.equal((await a.next()).granted, waiting.ref);
    });
  });

  test('a renewal by an old connection extends nothing', async () => {
    const a = await client();
    await a.hello();
    const expires = () => sql('SELECT expires FROM web_locks.session WHERE id = $1', [a.session]);
    const before = await expires();
    const [{ alive }] = await sql(`SELECT alive FROM web_locks.renew($1, 1, '', 0, '{}')`, [
      a.session,
    ]);
    assert.equal(alive, false);
    assert.deepEqual(await expires(), before);
  });

  describe('the clock of the server', () => {
    const jump = (schema, by) =>
      sql(`UPDATE ${schema}.session SET renewed = renewed - interval '${by}',
        expires = expires - interval '${by}'`);

    test('a second jump does not keep the dead alive', async () => {
      const schema = 'twice';
      const [a, b] = [await client({ schema }), await client({ schema })];
      const name = fresh();
      await a.answers(request(name));
      await jump(schema, '1 hour');
      await b.renew();
      await jump(schema, '1 hour');
      await b.renew();
      assert.deepEqual(await b.answers(request(name, { kind: 'ifAvailable' })), ['granted']);
    });

    test('a jump ahead costs nobody his lease to who has a longer one', async () => {
      const schema = 'mixed';
      const a = await client({ schema });
      const b = await client({ schema }, 3_600_000);
      const name = fresh();
      await a.answers(request(name));
      await jump(schema, '1 minute');
      // The lease of `a` has run out, that of `b`, who looks, has not.
      const longer = `UPDATE ${schema}.session SET renewed = renewed - interval '1 hour'`;
      await sql(longer);
      assert.deepEqual(await b.answers(request(name, { kind: 'ifAvailable' })), ['unavailable']);
      assert.equal((await a.renew()).alive, true);
    });

    test('a step that comes again after a jump ahead is answered as it was', async () => {
      const schema = 'ahead_of_answer';
      const a = await client({ schema });
      const [one, two] = [request(fresh()), request(fresh(), { kind: 'steal' })];
      for (const ops of [[one], [end(one), two]]) {
        const answers = await a.step(ops);
        await jump(schema, '1 hour');
        assert.deepEqual(await a.again(ops), answers);
        await a.renew();
      }
    });
  });

  describe('quarantine', () => {
    const lose = (schema) => sql(`UPDATE ${schema}.epoch SET identity = 'another life'`);

    test('begins with another life of the server, and lasts for one ttl', async () => {
      const schema = 'promoted';
      const a = await client({ schema });
      assert.equal(a.grantsIn, 0);
      await lose(schema);
      const b = await client({ schema });
      for (const { grantsIn } of [b, await b.renew()])
        assert.ok(grantsIn > TTL / 2 && grantsIn <= TTL, String(grantsIn));
      assert.deepEqual(await b.answers(request('free')), ['queued']);
    });

    for (const how of ['a sweep', 'a request']) {
      test(`lasts as long as a lease that ${how} has ended, as a copy may not know that it was renewed`, async () => {
        const schema = `lapsed_${how.replace(' ', '_')}`;
        const [a, long] = [await client({ schema }), await client({ schema }, LONG)];
        const held = request('name');
        await long.answers(held);
        await expire(long.session, schema);
        if (how === 'a sweep') await a.adapter.sweep();
        else assert.deepEqual(await a.answers(request('name')), ['granted']);
        const sessions = await sql(`SELECT id FROM ${schema}.session`);
        assert.deepEqual(sessions, [{ id: a.session }]);
        await lose(schema);
        assert.ok((await client({ schema })).grantsIn > TTL);
        await sql(`UPDATE ${schema}.lapsed SET until = now();
          UPDATE ${schema}.epoch SET grants_from = now(), identity = 'a third life'`);
        assert.ok((await client({ schema })).grantsIn <= TTL);
      });
    }

    test('of a server that knows no session lasts as long as the longest lease that can', async () => {
      const schema = 'forgotten';
      const longest = async () =>
        (await sql(`SELECT extract(epoch FROM ttl)::int * 1000 AS ms FROM ${schema}.lasting`))[0]
          .ms;
      const a = await client({ schema });
      const long = await client({ schema }, LONG);
      await a.renew();
      assert.equal(await longest(), LONG);
      await closeAll(long);
      await a.renew();
      assert.equal(await longest(), TTL);
      const other = await client({ schema }, LONG);
      await lose(schema);
      await a.renew();
      await closeAll(other);
      await a.renew();
      assert.equal(await longest(), LONG, 'there can be others like it');
      for (const what of [
        `UPDATE ${schema}.epoch SET identity = ''`,
        `DELETE FROM ${schema}.epoch`,
      ]) {
        await sql(what);
        assert.ok((await a.renew()).grantsIn > TTL, what);
      }
    });

    test('the lease of who is known lasts as long, so that the sweep at its end removes it', async () => {
      const schema = 'lasting';
      const a = await client({ schema });
      await lose(schema);
      await client({ schema });
      const isOver = `SELECT expires = grants_from AS at_once FROM ${schema}.session, ${schema}.epoch
        WHERE id = $1`;
      assert.deepEqual(await sql(isOver, [a.session]), [{ at_once: true }]);
    });

    test('the lease of who renews while another life begins lasts as long as it was told', async () => {
      const schema = 'meanwhile';
      const [a, b] = [await client({ schema }, LONG), await client({ schema }, LONG)];
      const expires = async () =>
        (await sql(`SELECT expires FROM ${schema}.session WHERE id = $1`, [a.session]))[0].expires;
      const writer = await pool.connect();
      await writer.query(`BEGIN; SELECT FROM ${schema}.lasting FOR UPDATE`);
      // It has looked at the clock, and waits where it tells of the life.
      const begun = b.adapter.renew({ life: 'another life', token: 0n });
      await untilWaiting(writer);
      assert.ok((await a.renew()).alive);
      const told = await expires();
      await writer.query('ROLLBACK');
      writer.release();
      assert.ok((await begun).grantsIn > 0);
      assert.ok((await expires()) >= told);
    });

    test('all that waited meanwhile is set going, however much that is', async () => {
      const schema = 'many';
      const a = await client({ schema }, LONG);
      await sql(`UPDATE ${schema}.epoch SET grants_from = clock_timestamp() + interval '1 minute'`);
      for (let i = 0; i < 3; i++) {
        const ops = Array.from({ length: 900 }, () => request(fresh()));
        const codes = new Set(await a.answers(...ops));
        assert.deepEqual([...codes], ['queued']);
      }
      await sql(`UPDATE ${schema}.epoch SET grants_from = clock_timestamp()`);
      await a.adapter.sweep();
      const tokens = [...(await a.renew()).mine.values()];
      assert.equal(tokens.length, 2_700);
      assert.ok(tokens.every((token) => token > 0n));
    });

    describe('that begins while something waits', () => {
      const begin = 'another life';
      let lives = 0;
      const over = () => sql(`UPDATE web_locks.epoch SET grants_from = 'epoch'`);
      /** It begins by what `other` tells; then goes on what waits, and grants nothing. */
      const grantsNothing = async ({ other, commit, done, waiting }) => {
        const { grantsIn } = await other.adapter.renew({ life: `${begin} ${++lives}`, token: 0n });
        assert.ok(grantsIn > 0);
        await commit();
        await done;
        try {
          assert.ok([...(await waiting.renew()).mine.values()].includes(0n));
          await waiting.adapter.query();
          assert.deepEqual(waiting.told, []);
        } finally {
          await over();
        }
      };

      for (const count of [1, 2]) {
        test(`a step of ${count} that waits for its session`, async () => {
          const a = await client({}, LONG);
          const reborn = 'SELECT web_locks.reborn($1, 0)';
          const { own, commit } = await inTransaction(reborn, [`${begin} ${++lives}`]);
          const asked = a.answers(...Array.from({ length: count }, () => request(fresh())));
          await untilWaiting(own);
          await commit();
          try {
            assert.deepEqual(await asked, Array(count).fill('queued'));
          } finally {
            await over();
          }
        });
      }

      test('a close that waits for a name', async () => {
        const all = [await client({}, LONG), await client({}, LONG), await client({}, LONG)];
        const [a, waiting, other] = all;
        const name = fresh();
        await a.answers(request(name));
        await waiting.answers(request(name));
        const { own, commit } = await lockName(name);
        const closed = a.adapter.close(a.session);
        await untilWaiting(own);
        await grantsNothing({ other, commit, done: closed, waiting });
      });

      test('a sweep that waits for a name', async () => {
        const [waiting, other] = [await client({}, LONG), await client({}, LONG)];
        const name = fresh();
        await sql(`UPDATE web_locks.epoch SET grants_from = clock_timestamp() + interval '1 s'`);
        await waiting.answers(request(name));
        await sql('UPDATE web_locks.epoch SET grants_from = clock_timestamp()');
        const { own, commit } = await lockName(name);
        const swept = waiting.adapter.sweep();
        await untilWaiting(own);
        await grantsNothing({ other, commit, done: swept, waiting });
      });
    });

    test('who closes by another client of the pool begins it, before anybody is granted what it had', async () => {
      const schema = 'closes';
      const [a, waiting] = [await client({ schema }, LONG), await client({ schema }, LONG)];
      const name = fresh();
      await a.answers(request(name));
      const op = request(name);
      await waiting.answers(op);
      await lose(schema);
      await new PostgresAdapter('bucket', { pool, schema }).close(a.session);
      const { grantsIn, mine } = await waiting.renew();
      assert.ok(grantsIn > 0);
      assert.deepEqual([...mine], [[op.ref, 0n]]);
    });

    test('unlogged: a crash loses the locks, and is followed by a quarantine', async () => {
      const schema = 'unlogged';
      const own = await startPostgres();
      const ownPool = poolOf(own.config);
      const a = await client({ schema, pool: ownPool, durability: 'unlogged' });
      const op = request('name');
      const [{ token }] = await a.step([op]);
      const marked = request('marked');
      await a.answers(marked, done(marked));
      await own.crash();
      assert.equal((await a.next()).down, 'ERR_WEB_LOCKS_UNREACHABLE');
      await own.start();
      await rejectsWith(a.hello(), 'ERR_WEB_LOCKS_SESSION_DEAD');
      const b = await client({ schema, pool: ownPool });
      const again = request('name');
      assert.deepEqual(await b.answers(again), ['queued']);
      assert.equal(await b.adapter.marked('marked'), true);
      await ownPool.query('UPDATE unlogged.epoch SET grants_from = clock_timestamp()');
      await b.adapter.sweep();
      assert.ok((await b.next()).token > token);
    });

    test('logged: a crash loses nothing', async () => {
      const own = await startPostgres();
      const ownPool = poolOf(own.config);
      const a = await client({ pool: ownPool }, 30_000);
      const op = request('name');
      const [{ token }] = await a.step([op]);
      await own.crash();
      await a.next();
      await own.start();
      await a.hello();
      assert.deepEqual([...(await a.renew()).mine], [[op.ref, token]]);
    });

    test('an end waits for the disk, and for a standby, if it grants something', async () => {
      const own = await startPostgres();
      const ownPool = poolOf(own.config);
      const [a, b] = [await client({ pool: ownPool }), await client({ pool: ownPool })];
      const [held, last] = [request('name'), request('other')];
      await a.answers(held, last);
      await b.answers(request('name'));
      await haveCommitsWait(ownPool);
      assert.deepEqual(await a.answers(end(last)), ['ended'], 'nobody is granted what it ends');
      const refused = rejectsWith(a.step([end(held)]), 'ERR_WEB_LOCKS_NOT_REPLICATED');
      await cancelWait(ownPool);
      await refused;
    });

    test('what notifies is committed one after the other, also in other databases', async () => {
      const own = await startPostgres();
      const [one, other] = ['postgres', 'other'].map((database) =>
        poolOf({ ...own.config, database }),
      );
      await one.query('CREATE DATABASE other');
      await haveCommitsWait(one);
      const first = one.query('CREATE TABLE a (); NOTIFY a');
      while ((await waitingOf(one)).length === 0);
      const second = other.query('CREATE TABLE b (); NOTIFY b');
      const isBlocked = 'SELECT FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0';
      while ((await one.query(isBlocked)).rows.length === 0);
      for (const commit of [first, second]) {
        await cancelWait(one);
        await commit;
      }
    });

    test('so does a close by another client of the pool, whatever its role has', async () => {
      const own = await startPostgres();
      const [ownPool, hasty] = [{}, { options: '-c synchronous_commit=off' }].map((options) =>
        poolOf({ ...own.config, ...options }),
      );
      const [a, b] = [await client({ pool: ownPool }), await client({ pool: ownPool })];
      const name = fresh();
      await a.answers(request(name));
      await b.answers(request(name));
      await haveCommitsWait(ownPool);
      let isClosed = false;
      const closed = new PostgresAdapter('bucket', { pool: hasty }).close(a.session).then(() => {
        isClosed = true;
      });
      while ((await waitingOf(ownPool)).length === 0) assert.equal(isClosed, false);
      await cancelWait(ownPool);
      await closed;
      assert.ok((await b.next()).granted);
    });

    test('an end that a crash has undone is done when it comes again', async () => {
      const own = await startPostgres();
      const ownPool = poolOf(own.config);
      const [a, b] = [
        await client({ pool: ownPool }, 30_000),
        await client({ pool: ownPool }, 30_000),
      ];
      const op = request('name');
      await a.answers(op);
      await a.answers(end(op));
      await own.crash();
      await Promise.all([a.next(), b.next()]);
      await own.start();
      await Promise.all([a.hello(), b.hello()]);
      const { mine } = await a.renew();
      for (const ref of mine.keys()) {
        assert.deepEqual(await a.answers({ ...end({ ref }), name: undefined }), ['ended']);
      }
      assert.deepEqual(await b.answers(request('name')), ['granted']);
    });

    test('a standby is refused, and grants nothing for one ttl when it is promoted', async () => {
      const primary = await startPostgres();
      const standby = await startStandby(primary);
      const standbyPool = poolOf(standby.config);
      const ownPool = poolOf(primary.config);
      const a = await client({ pool: ownPool });
      const [{ token }] = await a.step([request('name')]);
      await rejectsWith(client({ pool: standbyPool }), 'ERR_WEB_LOCKS_STANDBY');
      await primary.stop('SIGQUIT');
      await standby.promote();
      const b = await client({ pool: standbyPool });
      assert.ok((await b.renew()).grantsIn > 0);
      const op = request('free');
      assert.deepEqual(await b.answers(op), ['queued']);
      await standbyPool.query('UPDATE web_locks.epoch SET grants_from = clock_timestamp()');
      await b.adapter.sweep();
      assert.ok((await b.next()).token > token);
    });
  });

  test('a client of the pool is given one statement at a time', async () => {
    const own = poolOf();
    let most = 0;
    own.on('connect', (one) => {
      const { query } = one;
      let count = 0;
      one.query = function (...args) {
        most = Math.max(most, ++count);
        const answer = query.apply(this, args);
        const done = () => count--;
        answer?.then?.(done, done);
        const { callback } = answer ?? {};
        if (callback) {
          answer.callback = (...results) => {
            done();
            callback(...results);
          };
        }
        return answer;
      };
    });
    const a = await client({ pool: own });
    const ops = [request(fresh()), request(fresh())];
    const step = a.step(ops);
    await Promise.all([step, a.renew(), a.adapter.query(), a.adapter.sweep()]);
    assert.equal(most, 1);
  });

  describe('what is asked often is asked in a short way, and goes well', () => {
    /** What a session does most. */
    async function uses(a) {
      for (let i = 0; i < 3; i++) {
        const op = request(fresh());
        assert.deepEqual(await a.answers(op), ['granted']);
        assert.deepEqual([...(await a.renew()).mine.keys()], [op.ref]);
        assert.deepEqual(await a.answers(end(op)), ['ended']);
      }
    }

    test('after it was refused', async () => {
      const schema = 'refusing';
      const a = await client({ schema });
      await sql(`ALTER TABLE ${schema}.request ADD CONSTRAINT none CHECK (false)`);
      for (let i = 0; i < 2; i++) {
        const error = await a.step([request(fresh())]).catch((reason) => reason);
        assert.equal(a.adapter.classify(error), 'refused', error.message);
      }
      await sql(`ALTER TABLE ${schema}.request DROP CONSTRAINT none`);
      await uses(a);
      assert.deepEqual(a.told, []);
    });

    test('by clients that do not take it', async () => {
      await uses(await client({ pool: poolOf({ pipeline: true }) }));
    });

    test('by clients that somebody watches', async () => {
      const own = poolOf();
      own.on('connect', (one) => {
        const { query } = one;
        // As tools do that trace what is asked.
        one.query = function (asked, ...rest) {
          const copy = typeof asked?.text === 'string' ? { ...asked } : Object.create(asked);
          return query.call(this, typeof asked === 'object' ? copy : asked, ...rest);
        };
      });
      await uses(await client({ pool: own }));
    });
  });

  describe('a transaction that guards a lock', () => {
    /** A lock of `a`, and a transaction that guards it. */
    async function guarded(t, a) {
      const op = request(fresh(), { label: 'guarded' });
      const [{ token }] = await a.step([op]);
      const own = await poolOf({ application_name: 'shop "1"' }).connect();
      await own.query('BEGIN');
      assert.equal(await a.adapter.guard(own, { ...op, token }), true);
      const [{ pid }] = (await own.query('SELECT pg_backend_pid() AS pid')).rows;
      t.after(() => own.release());
      return { op, own, pid };
    }

    test('is named to a thief', async (t) => {
      const [a, b] = [await client(), await client()];
      const { op, own, pid } = await guarded(t, a);
      const [{ code, error }] = await b.step([request(op.name, { kind: 'steal' })]);
      assert.equal(code, 'busy');
      assert.equal(error.code, 'ERR_WEB_LOCKS_BUSY');
      const start = `Lock "${op.name}" is guarded by a transaction that has been open for `;
      assert.ok(error.message.startsWith(start), error.message);
      assert.ok(error.message.includes(`in server process ${pid} ("shop \\"1\\"").`));
      await own.query('COMMIT');
    });

    test('is named to who ends its own lock', async (t) => {
      const a = await client();
      const { op, own, pid } = await guarded(t, a);
      for (const name of [op.name, undefined]) {
        const [{ code, error }] = await a.step([{ ...end(op), name }]);
        assert.equal(code, 'busy');
        assert.ok(error.message.includes(`in server process ${pid} `), error.message);
      }
      assert.deepEqual(await a.answers(done(op)), ['busy']);
      assert.equal(await a.adapter.marked(op.name), false);
      await own.query('COMMIT');
      assert.deepEqual(await a.answers(done(op)), ['ended']);
      assert.equal(await a.adapter.marked(op.name), true);
    });

    test('is in the way of nothing else', async (t) => {
      const [a, b] = [await client(), await client()];
      const { op, own } = await guarded(t, a);
      const [mine, waits] = [request(fresh()), request(op.name)];
      const theft = request(op.name, { kind: 'steal' });
      const available = request(op.name, { kind: 'ifAvailable' });
      assert.deepEqual(
        await b.answers(mine, theft, waits, available, shared(op.name, { limit: 2 }), end(mine)),
        ['granted', 'busy', 'queued', 'unavailable', 'queued', 'ended'],
      );
      assert.deepEqual([...(await b.renew()).mine.values()], [0n, 0n]);
      assert.equal((await a.renew()).mine.size, 1);
      await expire(a.session);
      await b.adapter.sweep();
      await b.adapter.close(a.session);
      assert.deepEqual(await b.answers(end(waits), waits), ['ended', 'queued']);
      assert.equal((await b.adapter.query(op.name))[0].label, 'guarded');
      await own.query('COMMIT');
      await b.adapter.sweep();
      assert.ok((await b.next()).granted);
      assert.equal(await left(a.session), 0);
    });

    test('does not keep who has more priority from the queue', async (t) => {
      const [a, b] = [await client(), await client()];
      const { op, own } = await guarded(t, a);
      const more = request(op.name, { priority: 1 });
      assert.deepEqual(await b.answers(request(op.name), more), ['queued', 'queued']);
      assert.deepEqual(await b.answers(request(op.name, { kind: 'steal' })), ['busy']);
      await own.query('COMMIT');
      await a.answers(end(op));
      assert.equal((await b.next()).granted, more.ref);
    });

    test('lets a bucket whose thief waits for it go on with other names', async () => {
      const [one, two] = [1, 2].map(() => openBucket('guarded', { pool, ttl: LONG }));
      const robbed = await one.locks.acquire('guarded');
      const own = await pool.connect();
      await own.query('BEGIN');
      await robbed.guard(own);
      let isStolen = false;
      const theft = two.locks.request('guarded', { steal: true }, () => {
        isStolen = true;
      });
      for (let i = 0; i < 20; i++) {
        await two.locks.request(`other ${i}`, () => {});
        const available = await two.locks.request('guarded', { ifAvailable: true }, (lock) => lock);
        assert.equal(available, null);
      }
      assert.deepEqual([isStolen, robbed.held, two.state], [false, true, 'open']);
      await own.query('COMMIT');
      own.release();
      await theft;
      assert.equal(isStolen, true);
      await Promise.all([one.close(), two.close()]);
    });

    test('hears at once that its lock is held for too long, and ends then', async () => {
      const bucket = openBucket('held for too long', { pool, ttl: LONG });
      const own = await pool.connect();
      await own.query('BEGIN');
      const ended = bucket.locks.request('a', { holdTimeout: 1_000 }, async (lock) => {
        try {
          await lock.guard(own);
          if (!lock.signal.aborted) await once(lock.signal, 'abort');
        } finally {
          await own.query('ROLLBACK');
          own.release();
        }
      });
      const next = bucket.locks.request('a', () => 'next');
      await assert.rejects(ended, { name: 'TimeoutError' });
      assert.equal(await next, 'next');
      await bucket.close();
    });

    test('ends no close that has more to end than a page', async () => {
      const a = await client();
      const ops = Array.from({ length: 250 }, () => request(fresh()));
      const tokens = [];
      for (let i = 0; i < 250; i += 50) tokens.push(...(await a.step(ops.slice(i, i + 50))));
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

    test('holds its lock after the lease, and query tells so', async (t) => {
      const [a, b] = [await client(), await client()];
      const { op, own } = await guarded(t, a);
      await expire(a.session);
      const labels = async () => (await b.adapter.query(op.name)).map(({ label }) => label);
      assert.deepEqual(await labels(), ['guarded']);
      await own.query('COMMIT');
      assert.deepEqual(await labels(), []);
    });

    for (const level of ['REPEATABLE READ', 'SERIALIZABLE']) {
      test(`that is ${level}, and too old to see the lock, is an error and no loss`, async () => {
        const [a, b] = [await client(), await client()];
        const [held, waiting] = [request(fresh()), request(fresh())];
        await b.answers({ ...request(waiting.name), ref: 9e9 });
        await a.answers(waiting);
        const own = await pool.connect();
        await own.query(`BEGIN ISOLATION LEVEL ${level}`);
        await own.query('SELECT');
        const [{ token }] = await a.step([held]);
        await b.answers({ kind: 'end', ref: 9e9, name: waiting.name, keep: 0 });
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

    test('is that of a client, and no Pool', async () => {
      const { adapter } = await client();
      const lock = { ref: 1, name: 'a', token: 1n };
      const one = await pool.connect();
      const outside = { name: 'TypeError', message: /in a transaction: run BEGIN first/ };
      await assert.rejects(adapter.guard(one, lock), outside);
      one.release();
      for (const [wrong, message] of [
        [pool, /was given a Pool.*pool\.connect\(\)/],
        [undefined, /lock\.guard\(client\)/],
        [{}, /lock\.guard\(client\)/],
      ]) {
        await assert.rejects(adapter.guard(wrong, lock), { name: 'TypeError', message });
      }
    });
  });

  test("any number of dead sessions is in nobody's way", async () => {
    const [holder, ...dead] = await Promise.all(Array.from({ length: 5 }, () => client()));
    const a = await client();
    const [name, other] = [fresh(), fresh()];
    const held = request(other);
    await holder.answers(held);
    for (const { answers } of dead) {
      await answers(...Array.from({ length: 110 }, () => request(name)));
      await answers(...Array.from({ length: 110 }, () => request(other)));
    }
    // Somebody has renewed just now: the clock of the server did not jump.
    await a.renew();
    await Promise.all(dead.map(({ session }) => expire(session)));
    const some = (options) => request(other, { maxPending: 1, ...options });
    assert.deepEqual(await a.answers(some(), some()), ['queued', 'queueFull']);
    assert.deepEqual(await a.answers(request(name, { kind: 'ifAvailable' })), ['granted']);
    await holder.answers(end(held));
    assert.ok((await a.next()).granted);
  });

  test('nothing is granted while the life of the server is not known', async () => {
    const [a, b] = [await client(), await client()];
    const [free, name] = [request(fresh()), fresh()];
    const [held, beside] = [shared(name, { limit: 0 }), shared(name, { limit: 0 })];
    await b.answers(held);
    const [{ epoch }] = await sql('DELETE FROM web_locks.epoch e RETURNING to_json(e) AS epoch');
    const answers = [await a.answers(free), await a.answers(beside)];
    const back =
      'INSERT INTO web_locks.epoch SELECT * FROM json_populate_record(NULL::web_locks.epoch, $1)';
    await sql(back, [JSON.stringify(epoch)]);
    assert.deepEqual(answers, [['queued'], ['queued']]);
  });

  test('nobody reads, or sorts, a long queue', async () => {
    const schema = 'queue';
    const reads = [];
    const settings = {
      session_preload_libraries: 'auto_explain',
      'auto_explain.log_analyze': 'on',
      'auto_explain.log_format': 'json',
      'auto_explain.log_level': 'warning',
      'auto_explain.log_min_duration': '0',
      'auto_explain.log_nested_statements': 'on',
    };
    const look = (text, plan) => {
      const rows = plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0);
      const isAll = plan['Relation Name'] === 'request' && rows * plan['Actual Loops'] > 200;
      if (isAll || /Bitmap/.test(plan['Node Type'])) reads.push([text, plan['Node Type'], rows]);
      // What is sorted is what a session has, never a queue.
      const isOfSession = /DISTINCT|WHERE session|web_locks.session|lapsed/.test(text);
      if (/Sort/.test(plan['Node Type']) && !isOfSession) reads.push([text, plan['Node Type']]);
      for (const one of plan.Plans ?? []) look(text, one);
    };
    const explained = poolOf({
      options: Object.entries(settings)
        .map(([name, value]) => `-c ${name}=${value}`)
        .join(' '),
    });
    explained.on('connect', (one) =>
      one.on('notice', ({ message }) => {
        if (!message.includes('{')) return;
        const { 'Query Text': text, Plan } = JSON.parse(message.slice(message.indexOf('{')));
        look(text.replaceAll(schema, 'web_locks'), Plan);
      }),
    );
    const a = await client({ schema, pool: explained }, LONG);
    const [b, dead] = [await client({ schema }, LONG), await client({ schema }, LONG)];
    const names = ['exclusive', 'units', 'shared'];
    for (const name of names) {
      const its = { exclusive: {}, units: { mode: 'shared', limit: 3, weight: 2 } }[name];
      await b.answers(request(name, its ?? { mode: 'shared' }));
      await b.answers(request(name));
    }
    const all = async () => {
      for (const name of names) {
        const limits = name === 'units' ? { limit: 3, weight: 1 } : {};
        for (const options of [
          {},
          { maxPending: 100 },
          { kind: 'ifAvailable' },
          { mode: 'shared', ...limits },
          { mode: 'shared', priority: 1, ...limits },
          { priority: 2 },
        ]) {
          const [op, other] = [request(name, options), request(name, options)];
          await a.answers(op);
          await a.answers(end(op));
          await a.answers(other, request('another'));
          await a.answers(end(other));
        }
      }
      const theft = request('exclusive', { kind: 'steal' });
      await a.answers(theft);
      await a.answers(end(theft));
      await a.renew();
      await a.adapter.sweep();
    };
    // Plans are made, and kept, by what is known of tables that are almost empty.
    await sql(`ANALYZE ${schema}.request`);
    for (let i = 0; i < 6; i++) await all();
    for (const name of names)
      await sql(
        `INSERT INTO ${schema}.request SELECT key, 0, ticket + n, session, ref * 1000000 + n, NULL,
          false, 0, lim, 0, name, label, asked, NULL
        FROM ${schema}.request, generate_series(1, 10000) n WHERE name = $1 AND token IS NULL`,
        [Buffer.from(name, 'utf16le')],
      );
    await dead.answers(...names.map((name) => request(name, { priority: 1 })));
    await expire(dead.session, schema);
    reads.length = 0;
    await all();
    await a.adapter.query('another');
    await a.adapter.close(a.session);
    assert.deepEqual(reads, []);
  });

  test('who outlives its lease in a step is not buried by it', async () => {
    const [a, waiting] = [await client({}, LONG), await client({}, LONG)];
    const [marked, name] = [request(fresh()), fresh()];
    await a.answers(marked);
    await a.answers(units(name, 1, 1));
    await waiting.answers(units(name, 1, 1, { priority: -1 }));
    const { own, commit } = await deleteMark(marked.name);
    const lease = `UPDATE web_locks.session SET graced = true,
      expires = clock_timestamp() + interval '2 seconds' WHERE id = $1 RETURNING expires`;
    await sql(lease, [a.session]);
    const asked = a.answers(done(marked), units(name, 1, 1, { kind: 'ifAvailable' }));
    await untilWaiting(own);
    const isOver = 'SELECT FROM web_locks.session WHERE id = $1 AND expires < clock_timestamp()';
    while ((await sql(isOver, [a.session])).length === 0);
    await waiting.renew();
    await commit();
    assert.deepEqual(await asked, ['ended', 'unavailable']);
    await waiting.adapter.sweep();
    assert.ok((await waiting.next()).granted);
    assert.equal(await left(a.session), 0);
  });

  test('a close ends what a step asks for that is still under way', async () => {
    const [a, other] = [await client({}, LONG), await client({}, LONG)];
    const marked = request(fresh());
    await a.answers(marked);
    const { own, commit } = await deleteMark(marked.name);
    const asked = a.answers(done(marked), request(fresh()));
    await untilWaiting(own);
    const closed = other.adapter.close(a.session);
    const waits = 'SELECT FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0';
    while ((await sql(waits)).length < 2);
    await commit();
    assert.deepEqual(await asked, ['ended', 'granted']);
    await closed;
    assert.equal(await left(a.session), 0);
  });

  describe('nobody waits in a circle', () => {
    test('with a sweep that extends leases', async () => {
      const [a, b, dead] = await Promise.all([1, 2, 3].map(() => client({}, LONG)));
      const name = fresh();
      await dead.answers(request(name));
      await expire(dead.session);
      // As if everybody stood still for more than half a lease.
      await sql(
        `UPDATE web_locks.session SET renewed = now() - interval '1 hour',
        graced = id = $1`,
        [dead.session],
      );
      const { own, commit } = await lockName(name);
      const asked = b.answers(request(name));
      await untilWaiting(own);
      const swept = a.adapter.sweep();
      await untilWaiting(own, 2);
      await commit();
      await swept;
      assert.equal((await asked).length, 1);
    });

    test('with a close, though a life of the server is to begin', async () => {
      const schema = 'circle';
      const [a, b] = [await client({ schema }, LONG), await client({ schema }, LONG)];
      const name = fresh();
      await a.answers(request(name));
      await sql(`DELETE FROM ${schema}.epoch`);
      const { own, commit } = await lockName(name);
      const asked = b.answers(request(name));
      await untilWaiting(own);
      const closed = new PostgresAdapter('bucket', { pool, schema }).close(a.session);
      await untilWaiting(own, 2);
      await commit();
      await closed;
      assert.deepEqual(await asked, ['queued']);
    });
  });

  test('the dead leave nothing, though nobody comes to sweep', async () => {
    const [a, b, c] = [await client(), await client(), await client()];
    const [held, other, robbed] = [fresh(), fresh(), fresh()].map((name) => request(name));
    await a.answers(held, other, robbed);
    assert.deepEqual(await b.answers(request(robbed.name, { kind: 'steal' })), ['granted']);
    await expire(a.session);
    assert.deepEqual(await b.answers(request(held.name)), ['granted']);
    assert.equal(await left(a.session), 3, 'itself, a lock and a theft');
    assert.deepEqual(await c.answers(request(other.name)), ['granted']);
    assert.equal(await left(a.session), 0);
  });

  test('a step that asks for too much is refused, and the next goes well', async () => {
    const own = await startPostgres({
      settings: ['max_connections=10', 'max_locks_per_transaction=10', 'max_wal_senders=0'],
    });
    const ownPool = poolOf({ port: own.port, max: 3 });
    const a = await client({ pool: ownPool }, 60_000);
    const ops = Array.from({ length: 10_000 }, () => request(fresh(), { group: 1 }));
    for (let attempt = 0; attempt < 2; attempt++) {
      const error = await a.step(ops).catch((reason) => reason);
      assert.match(error.message, /shared memory/);
      assert.equal(a.adapter.classify(error), 'refused');
    }
    assert.deepEqual(await a.answers(request(fresh())), ['granted']);
    assert.deepEqual(a.told, [], 'by the same connection');
    assert.equal((await a.renew()).mine.size, 1);
  });

  test('what cannot be sent is local, and the connection stays', async () => {
    const a = await client();
    const sent = a.step([request(Symbol('no name'))]);
    const error = await sent.catch((reason) => reason);
    assert.equal(a.adapter.classify(error), 'local');
    assert.deepEqual(await a.answers(request(fresh())), ['granted']);
    assert.deepEqual(a.told, []);
  });

  test('errors mean what can be done about them', () => {
    const { classify } = new PostgresAdapter('', { pool });
    const of = (code, text = 'x') =>
      classify(explain(Object.assign(new Error(text), { severity: 'ERROR', code })));
    for (const code of ['53200', '54000', '22003', 'XX000', '23505'])
      assert.equal(of(code), 'refused');
    const passing = [
      '08006',
      '57P01',
      '57014',
      '55P03',
      '40001',
      '40P01',
      '25006',
      '53300',
      '53100',
    ];
    for (const code of passing) assert.equal(of(code), 'retry', code);
    // A feature that the server has not got, and a plan that the next connection makes anew.
    assert.equal(of('0A000'), 'refused');
    assert.equal(of('0A000', 'cached plan must not change result type'), 'retry');
    assert.equal(of('42501'), 'fatal');
    assert.equal(of('42P01'), 'dead');
    assert.equal(classify(explain(new Error('the connection ended'))), 'retry');
    assert.equal(classify(explain(new TypeError('a defect'))), 'local');
    for (const odd of [undefined, null, 1, new Error('odd')]) assert.equal(classify(odd), 'retry');
  });

  describe('tables', () => {
    test('that are dropped while they are used are made anew, with a quarantine', async () => {
      const schema = 'dropped';
      const a = await client({ schema });
      const [{ token }] = await a.step([request('name')]);
      const { life } = await a.renew();
      await sql(`DROP SCHEMA ${schema} CASCADE`);
      const gone = await a.step([request('other')]).catch((error) => error);
      assert.equal(gone.code, 'ERR_WEB_LOCKS_NO_TABLES');
      assert.equal(a.adapter.classify(gone), 'dead');
      const b = await client({ schema });
      assert.ok((await b.renew()).grantsIn > 0, 'who has used them is still connected');
      const waiting = request('name');
      assert.deepEqual(await b.answers(waiting), ['queued']);
      await a.adapter.dispose();
      await sql(`UPDATE ${schema}.epoch SET grants_from = clock_timestamp()`);
      await b.adapter.sweep();
      assert.ok((await b.next()).token > token);
      const c = await client({ schema }, TTL, { life, token });
      assert.ok((await c.renew()).grantsIn > 0);
    });

    test('that are dropped when nobody uses them are made anew, without', async () => {
      const schema = 'dropped_later';
      const a = await client({ schema });
      await a.adapter.close(a.session);
      await a.adapter.dispose();
      const others = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 22347
        AND objid = (hashtext('${schema}')::bigint & 4294967295)::oid`;
      while ((await sql(others)).length > 0);
      await sql(`DROP SCHEMA ${schema} CASCADE`);
      const b = await client({ schema });
      assert.deepEqual(await b.answers(request('name')), ['granted']);
    });

    for (const table of ['session', 'request', 'theft', 'epoch', 'mark', 'lasting', 'lapsed']) {
      test(`of which one is dropped, ${table}, are made anew`, async () => {
        const schema = `without_${table}`;
        const bucket = openBucket('bucket', { pool, schema, ttl: SHORT });
        await refusal.isOpen(bucket);
        const before = (await sql(`SELECT life FROM ${schema}.epoch`))[0].life;
        await sql(`DROP TABLE ${schema}.${table}`);
        await bucket.close();
        const again = openBucket('bucket', { pool, schema, ttl: SHORT });
        assert.equal(await again.locks.request('name', () => 'mine'), 'mine');
        const { life } = (await sql(`SELECT life FROM ${schema}.epoch`))[0];
        const isLost = ['session', 'request', 'epoch', 'lapsed'].includes(table);
        assert.equal(life !== before, isLost, 'what held locks is gone');
        await again.close();
      });
    }

    test('that are empty, as after a restore of the schema alone, begin with a quarantine', async () => {
      const schema = 'emptied';
      const a = await client({ schema });
      const [{ token }] = await a.step([request('name')]);
      await a.adapter.dispose();
      await sql(`TRUNCATE ${schema}.lasting, ${schema}.epoch, ${schema}.session, ${schema}.request;
        ALTER SEQUENCE ${schema}.token RESTART`);
      const b = await client({ schema });
      assert.ok((await b.renew()).grantsIn > 0);
      await b.answers(request('name'));
      await sql(`UPDATE ${schema}.epoch SET grants_from = clock_timestamp()`);
      await b.adapter.sweep();
      assert.ok((await b.next()).token > token);
    });

    test('that are emptied while they are used are told as that', async () => {
      const schema = 'emptied_meanwhile';
      const a = await client({ schema });
      await sql(
        `TRUNCATE ${schema}.lasting, ${schema}.epoch, ${schema}.session, ${schema}.request`,
      );
      await rejectsWith(a.step([request('name')]), 'ERR_WEB_LOCKS_SESSION_DEAD');
      await rejectsWith(a.renew(), 'ERR_WEB_LOCKS_NO_TABLES');
      await rejectsWith(a.hello(), 'ERR_WEB_LOCKS_NO_TABLES');
      assert.deepEqual(await (await client({ schema })).answers(request('name')), ['queued']);
    });
  });

  for (const encoding of ['UTF8', 'LATIN1', 'SQL_ASCII']) {
    test(`who a session is may be told in any characters, in a database of ${encoding}`, async () => {
      const database = `of_${encoding.toLowerCase()}`;
      await sql(`CREATE DATABASE ${database} ENCODING '${encoding}' TEMPLATE template0`);
      const adapter = new PostgresAdapter('b\u00fccket', { pool: poolOf({ database }) });
      adapter.events = NO_EVENTS;
      const info = {
        clientId: 'client',
        host: 'm\u00fcller',
        pid: 1,
        threadId: 2,
        threadName: 'nul \0, \u65e5\u672c, \ud83d\ude00, \ud800, \\, "',
        version: '0',
      };
      await adapter.open(info, TTL, { life: '', token: 0n });
      const op = request('\u65e5\u672c \0', { label: '\ud800' });
      await adapter.step([op], 1);
      const { version, ...who } = info;
      const [entry] = await adapter.query();
      assert.deepEqual({ ...entry, ...who, name: op.name, label: '\ud800' }, entry);
      await adapter.dispose();
    });
  }

  describe('what can be wrong', () => {
    test('a server that does not answer keeps neither close nor the end of the pool', async () => {
      for (const isStalledFirst of [true, false]) {
        const proxy = await FaultyProxy.open(server.port);
        if (isStalledFirst) proxy.stall();
        const stalled = poolOf({ port: proxy.port });
        const bucket = openBucket('bucket', { pool: stalled, ttl: SHORT });
        const lost = once(bucket, 'lost');
        if (isStalledFirst) {
          await rejectsWith(bucket.ready, 'ERR_WEB_LOCKS_UNREACHABLE');
        } else {
          await refusal.isOpen(bucket);
          proxy.stall();
          await lost;
        }
        await bucket.close();
        pools.delete(stalled);
        await stalled.end();
        await proxy.close();
      }
    });

    test('a warning of something else is none about a standby', async () => {
      const schema = 'warns';
      const a = await client({ schema });
      await sql(`CREATE FUNCTION ${schema}.warn() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE WARNING 'disk is nearly full'; RETURN NEW; END $$;
        CREATE TRIGGER warn BEFORE INSERT ON ${schema}.request FOR EACH ROW
        EXECUTE FUNCTION ${schema}.warn()`);
      assert.deepEqual(await a.answers(request('name')), ['granted']);
      assert.equal((await a.renew()).mine.size, 1);
      assert.deepEqual(a.told, []);
    });

    test('a pooler in transaction mode is refused', { skip: lacks.pgbouncer }, async () => {
      const { port } = await startPgbouncer(server, 'transaction');
      const through = poolOf({ port });
      await assert.rejects(client({ pool: through }), {
        code: 'ERR_WEB_LOCKS_NO_NOTIFY',
        message: /pgbouncer.*`listen`/,
      });
      // Within the shortest lease, or nobody would be told.
      const bucket = openBucket('bucket', { pool: through, ttl: SHORT });
      const whyNot = () => bucket.ready.catch(({ code }) => code);
      let code = await whyNot();
      while (code === 'ERR_WEB_LOCKS_UNREACHABLE') code = await whyNot();
      assert.equal(code, 'ERR_WEB_LOCKS_NO_NOTIFY');
      const { port: ofStatements } = await startPgbouncer(server, 'statement');
      await rejectsWith(
        client({ pool: poolOf({ port: ofStatements }) }),
        'ERR_WEB_LOCKS_NO_NOTIFY',
      );
      const a = await client({ pool: through, listen: pool });
      assert.deepEqual(await a.answers(request(fresh())), ['granted']);
    });

    test('a pooler in session mode serves', { skip: lacks.pgbouncer }, async () => {
      const { port } = await startPgbouncer(server, 'session');
      const a = await client({ pool: poolOf({ port }) });
      assert.deepEqual(await a.answers(request(fresh())), ['granted']);
      const nowhere = poolOf({ port, database: 'nowhere' });
      await rejectsWith(client({ pool: nowhere }), 'ERR_WEB_LOCKS_DATABASE');
    });

    test('a database that there is not is told as that', async () => {
      const database = 'nowhere';
      const expected = { code: 'ERR_WEB_LOCKS_DATABASE', message: /no such database.*"nowhere"/ };
      await assert.rejects(client({ pool: poolOf({ database }) }), expected);
      const { adapter } = await client();
      const fatal = await client({ pool: poolOf({ database }) }).catch((error) => error);
      assert.equal(adapter.classify(fatal), 'fatal');
    });

    test('a bucket outlives a login that is refused, and a database that is made anew', async () => {
      const database = 'made_anew';
      await sql('CREATE ROLE rotated LOGIN SUPERUSER');
      await sql(`CREATE DATABASE ${database}`);
      const end = () =>
        sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${database}'`);
      const bucket = (name) => {
        const own = poolOf({ user: 'rotated', database });
        own.on('connect', (one) => one.on('error', () => {}));
        return openBucket(name, { pool: own, ttl: refusal.TTL });
      };
      const refuse = async () => {
        await sql('ALTER ROLE rotated NOLOGIN');
        await end();
      };
      const serve = () => sql('ALTER ROLE rotated LOGIN');
      await refusal.outlivesRefusal(bucket('login'), 'ERR_WEB_LOCKS_RIGHTS', refuse, serve);
      const other = bucket('database');
      while (other.state !== 'open') await other.ready.catch(() => {});
      await sql(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`);
      await end();
      await sql(`DROP DATABASE ${database}`);
      const asked = other.locks.request('asked', () => {});
      await rejectsWith(asked, 'ERR_WEB_LOCKS_DATABASE');
      await sql(`CREATE DATABASE ${database}`);
      while (other.state !== 'open') await other.ready.catch(() => {});
      await other.locks.query();
      await other.close();
    });

    test('a server that is no PostgreSQL, or has no TLS, is told as that', async () => {
      const code = 'ERR_WEB_LOCKS_SERVER';
      const said = { severity: 'ERROR', code: '42883', message: 'unknown function' };
      const foreign = Object.assign(new EventEmitter(), {
        query: () => Promise.reject(Object.assign(new Error(), said)),
        release() {},
      });
      const other = { connect: () => Promise.resolve(foreign), query() {}, options: {} };
      await assert.rejects(client({ pool: other }), { code, message: /not PostgreSQL/ });
      await rejectsWith(client({ pool: poolOf({ ssl: true }) }), code);
      const { classify } = new PostgresAdapter('', { pool });
      for (const name of ['DEPTH_ZERO_SELF_SIGNED_CERT', 'CERT_HAS_EXPIRED']) {
        const error = explain(Object.assign(new Error('TLS'), { code: name }));
        assert.deepEqual([error.code, classify(error)], [code, 'fatal']);
      }
    });

    test('a password that is missing is a refused login', async () => {
      // As pg says it, whose server asks for one.
      const text = 'SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string';
      const asked = { connect: () => Promise.reject(new Error(text)), query() {}, options: {} };
      await assert.rejects(client({ pool: asked }), {
        code: 'ERR_WEB_LOCKS_RIGHTS',
        message: /rejected the login.*password/,
      });
    });

    test('a pool of one client is refused, unless it only listens', async () => {
      const small = poolOf({ max: 1 });
      assert.throws(() => new PostgresAdapter('', { pool: small }), {
        name: 'TypeError',
        code: 'ERR_WEB_LOCKS_POOL_TOO_SMALL',
      });
      const a = await client({ listen: small });
      assert.deepEqual(await a.answers(request(fresh())), ['granted']);
    });

    test('what is no pool, schema or durability is a TypeError', () => {
      for (const options of [
        { pool: undefined },
        { pool: {} },
        { pool, listen: 7 },
        { pool, schema: 'a"; DROP' },
        { pool, durability: 'often' },
        { pool, sql: sqlOf() },
      ]) {
        assert.throws(() => new PostgresAdapter('', options), { name: 'TypeError' });
      }
    });

    for (const [what, options, message] of [
      ['a Client of pg', () => ({ pool: new pg.Client() }), /a Client of pg.*pool: new Pool\(/],
      ['a string', () => ({ pool: 'postgres://localhost' }), /a string.*new Pool\(.*postgres\(/],
      ['settings', () => ({ pool: { host: 'db' } }), /of settings.*new Pool\(settings\)/],
      ['a sql as pool', () => ({ pool: sqlOf() }), /`sql` of postgres\.js.*\{ sql \}/],
      ['a Pool as sql', () => ({ sql: pool }), /'sql' is a Pool of pg.*\{ pool \}/],
      ['Drizzle', () => ({ pool: { $client: pool, transaction() {} } }), /Drizzle.*db\.\$client/],
      ['Knex', () => ({ pool: Object.assign(() => {}, { raw() {}, client: {} }) }), /Knex/],
      ['Prisma', () => ({ sql: { $queryRaw() {} } }), /Prisma.*new Pool\(/],
    ])
      test(`${what} instead of what is expected is answered with what to write`, () => {
        const expected = { name: 'TypeError', message };
        assert.throws(() => new PostgresAdapter('', options()), expected);
      });

    test('a pool that is in full use says so, and works when it is not', async () => {
      const busy = poolOf({ max: 2 });
      const taken = [await busy.connect(), await busy.connect()];
      const bucket = openBucket('bucket', { pool: busy, ttl: SHORT });
      const isFull = { code: 'ERR_WEB_LOCKS_POOL_EXHAUSTED', message: /All 2 clients/ };
      for (const opened of [client({ pool: busy }), bucket.ready]) {
        await assert.rejects(opened, isFull);
      }
      for (const one of taken) one.release();
      await refusal.isOpen(bucket);
      await bucket.close();
    });

    test('so does one that has no client left to connect anew', async () => {
      const busy = poolOf({ max: 2, application_name: 'busy' });
      const a = await client({ pool: busy }, LONG);
      const taken = await busy.connect();
      // Else the place of the lost client would be free.
      busy.options.max = 1;
      await taken.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'busy' AND pid <> pg_backend_pid()`);
      await a.next();
      await rejectsWith(a.hello(), 'ERR_WEB_LOCKS_POOL_EXHAUSTED');
      taken.release();
      await a.hello();
    });

    test('a server that lets connect and says nothing is not a pool in full use', async () => {
      const proxy = await FaultyProxy.open(server.port);
      proxy.stall();
      const stalled = poolOf({ max: 2, port: proxy.port });
      const bucket = openBucket('bucket', { pool: stalled, ttl: SHORT });
      for (let attempt = 0; attempt < 2; attempt++) {
        await rejectsWith(bucket.ready, 'ERR_WEB_LOCKS_UNREACHABLE');
      }
      proxy.refuse();
      await bucket.close();
      await proxy.close();
    });

    test('a pool that was ended says so', async () => {
      const ended = poolOf();
      pools.delete(ended);
      await ended.end();
      await rejectsWith(client({ pool: ended }), 'ERR_WEB_LOCKS_POOL_ENDED');
    });

    test('so does one that is ended before its bucket, when that has to connect anew', async () => {
      const ended = poolOf({ application_name: 'ended' });
      pools.delete(ended);
      const a = await client({ pool: ended }, LONG);
      const bucket = openBucket('bucket', { pool: ended, ttl: LONG });
      await bucket.ready;
      const end = ended.end();
      const suspect = once(bucket, 'suspect');
      await sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'ended'`);
      await suspect;
      await rejectsWith(
        bucket.locks.request('name', () => {}),
        'ERR_WEB_LOCKS_POOL_ENDED',
      );
      await rejectsWith(bucket.ready, 'ERR_WEB_LOCKS_POOL_ENDED');
      await a.next();
      await rejectsWith(a.adapter.query(), 'ERR_WEB_LOCKS_POOL_ENDED');
      await bucket.close();
      await end;
    });

    test('a role without rights is told what to do, and needs only those', async (t) => {
      await sql(`CREATE ROLE app LOGIN;
        ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC`);
      t.after(() => sql('ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC'));
      const schema = 'granted_by_hand';
      const app = poolOf({ user: 'app' });
      await assert.rejects(client({ pool: app, schema }), {
        code: 'ERR_WEB_LOCKS_RIGHTS',
        message: /docs\/CLUSTER\.md/,
      });
      await sql(scriptOf(schema, 'logged'));
      await rejectsWith(client({ pool: app, schema }), 'ERR_WEB_LOCKS_RIGHTS');
      // As the document says.
      const grants = documented.match(/^GRANT .*;$/gm);
      await sql(grants.join('').replaceAll('web_locks', schema));
      const a = await client({ pool: app, schema });
      const op = request('name');
      assert.deepEqual(await a.answers(op), ['granted']);
      assert.deepEqual(await a.answers(end(op)), ['ended']);
    });

    test('a schema is made while another one is being made', async (t) => {
      const maker = await pool.connect();
      t.after(() => maker.release(true));
      await maker.query(scriptOf('made_slowly', 'logged').replace(/^COMMIT;[\s\S]*/m, ''));
      await client({ schema: 'made_meanwhile' });
    });

    test('a schema of another version, or of another durability, is refused', async () => {
      const schema = 'other_version';
      await client({ schema });
      await rejectsWith(client({ schema, durability: 'unlogged' }), 'ERR_WEB_LOCKS_SCHEMA');
      await sql(`UPDATE ${schema}.lasting SET version = 99`);
      await assert.rejects(client({ schema }), { code: 'ERR_WEB_LOCKS_SCHEMA', message: /99/ });
    });

    test('a server that cannot be reached is another attempt', async () => {
      const adapter = new PostgresAdapter('', { pool: poolOf({ port: 1 }) });
      await assert.rejects(adapter.open({}, TTL), (error) => {
        assert.equal(error.code, 'ERR_WEB_LOCKS_UNREACHABLE');
        assert.equal(adapter.classify(error), 'retry');
        return true;
      });
    });

    test('other defaults of the database change nothing', async () => {
      await sql(`CREATE ROLE odd LOGIN SUPERUSER; ALTER ROLE odd SET default_transaction_isolation
        TO 'serializable'; ALTER ROLE odd SET synchronous_commit TO off;
        ALTER ROLE odd SET search_path TO ''; ALTER ROLE odd SET statement_timeout TO 1000;
        ALTER ROLE odd SET default_transaction_read_only TO on;
        ALTER ROLE odd SET client_min_messages TO error`);
      const schema = 'odd_defaults';
      const a = await client({ pool: poolOf({ user: 'odd' }), schema });
      const op = request(fresh());
      assert.deepEqual(await a.answers(op), ['granted']);
      assert.equal((await a.renew()).mine.size, 1);
    });

    test('a transaction that does not see what others commit is refused by the server', async () => {
      const other = await pool.connect();
      await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await assert.rejects(other.query(`SELECT web_locks.sweep(1, '')`), { code: 'WL001' });
      await other.query('ROLLBACK');
      other.release();
    });

    test('parsers that users give pg change nothing', async () => {
      const own = poolOf({ types: { getTypeParser: () => () => 'odd' } });
      const a = await client({ pool: own });
      const op = request(fresh(), { label: 'label' });
      assert.deepEqual(await a.answers(op), ['granted']);
      assert.deepEqual([...(await a.renew()).mine.keys()], [op.ref]);
      assert.equal((await a.adapter.query(op.name))[0].label, 'label');
    });

    test('a cancelled wait for a synchronous standby is no answer', async () => {
      const primary = await startPostgres();
      const ownPool = poolOf(primary.config);
      const a = await client({ pool: ownPool });
      await haveCommitsWait(ownPool);
      const refused = rejectsWith(a.step([request('name')]), 'ERR_WEB_LOCKS_NOT_REPLICATED');
      await cancelWait(ownPool);
      await refused;
      assert.equal((await a.next()).down, 'ERR_WEB_LOCKS_NOT_REPLICATED');
    });
  });
});
