'use strict';

/** The adapter of PostgreSQL against the contract, at a real server. */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { after, before, describe, test } = require('node:test');

const { PostgresAdapter, scriptOf } = require('../../lib/cluster/engines/postgres/adapter.js');
const { openBucket } = require('../../lib/postgres.js');
const {
  TTL,
  clientOf,
  contract,
  disposeAfterEach,
  done,
  end,
  fresh,
  rejectsWith,
  request,
  shared,
} = require('./contract.js');
const { FaultyProxy } = require('./proxy.js');
const { lacks, startPgbouncer, startPostgres, startStandby, stopAll } = require('./servers.js');

const pg = require('pg');

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
  idle_session_timeout: '2000',
  intervalstyle: 'sql_standard',
  lock_timeout: '1',
  quote_all_identifiers: 'on',
  standard_conforming_strings: 'off',
  statement_timeout: '1000',
  synchronous_commit: 'off',
  timezone: 'Asia/Kathmandu',
  transform_null_equals: 'on',
};

const sql = async (text, values) => (await pool.query(text, values)).rows;
/** What makes a lease run out, as time would. */
const expire = (session) =>
  sql(`UPDATE web_locks.session SET expires = now() - interval '1 s' WHERE id = $1`, [session]);

const client = ({ bucket = 'bucket', ...options } = {}, ttl = TTL, seen = undefined) =>
  clientOf(new PostgresAdapter(bucket, { pool, ...options }), ttl, seen);

/** How many rows there are of a session. */
const left = async (session) => {
  const rows = `SELECT count(*)::int AS n FROM web_locks.request WHERE session = $1
    UNION ALL SELECT count(*)::int FROM web_locks.session WHERE id = $1`;
  return (await sql(rows, [session])).reduce((sum, { n }) => sum + n, 0);
};

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

  contract({
    client,
    alone: { schema: 'alone' },
    expire,
    left,
    port: () => server.port,
    through: (port) => ({ pool: poolOf({ port }) }),
  });

  describe('for a role whose settings are others', () => {
    let others;

    before(() => {
      const settings = Object.entries(INVERTED).map(([name, value]) => `-c ${name}=${value}`);
      others = poolOf({ max: 40, options: settings.join(' ') });
    });

    contract({
      client: ({ bucket = 'others', ...options } = {}, ttl = TTL, seen = undefined) =>
        clientOf(new PostgresAdapter(bucket, { pool: others, ...options }), ttl, seen),
      alone: { schema: 'alone_of_others' },
      expire,
      left,
      port: () => server.port,
      through: (port) => ({ pool: poolOf({ port, options: others.options.options }) }),
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
    const all = await Promise.all(Array.from({ length: 8 }, () => client({ schema })));
    const [first, second] = all;
    const name = fresh();
    assert.deepEqual(await first.answers(request(name)), ['granted']);
    assert.deepEqual(await second.answers(request(name)), ['queued']);
    for (const { adapter } of all) await adapter.dispose();
  });

  test('what an old connection still says changes nothing', async () => {
    const a = await client();
    await a.hello();
    const [row] = await sql(
      `SELECT web_locks.step($1, 1, 1, '{0}', '{900000}', '{abc0}', '{a}', '{f}', '{0}', '{0}', '{-1}',
        '{a}', '{0}', '{0}') AS codes`,
      [a.session],
    );
    assert.deepEqual(row.codes, ['-5']);
    assert.equal((await a.renew()).mine.size, 0);
  });

  test('a renewal by an old connection extends nothing', async () => {
    const a = await client();
    await a.hello();
    const expires = () => sql('SELECT expires FROM web_locks.session WHERE id = $1', [a.session]);
    const before = await expires();
    const [{ alive }] = await sql(`SELECT alive FROM web_locks.renew($1, 1, '', 0)`, [a.session]);
    assert.equal(alive, false);
    assert.deepEqual(await expires(), before);
  });

  test('tokens grow over users of a name, thefts, and a schema that is made anew', async () => {
    const schema = 'anew';
    const tokens = [];
    for (let round = 0; round < 2; round++) {
      const a = await client({ schema });
      for (const kind of ['request', 'ifAvailable', 'steal']) {
        const op = request('name', { kind });
        tokens.push((await a.step([op]))[0].token);
        await a.answers(end(op));
      }
      await a.adapter.dispose();
      await sql(`DROP SCHEMA ${schema} CASCADE`);
    }
    assert.deepEqual(
      tokens,
      tokens.toSorted((a, b) => (a < b ? -1 : 1)),
    );
    assert.equal(new Set(tokens).size, 6);
  });

  test('a guarded lock is neither stolen nor ended before the transaction commits', async () => {
    const [a, thief] = [await client(), await client({}, 60_000)];
    const name = fresh();
    const op = request(name);
    const [{ token }] = await a.step([op]);
    const user = await pool.connect();
    await user.query('BEGIN');
    assert.equal(await a.adapter.guard(user, { ref: op.ref, name, token }), true);
    await expire(a.session);
    await thief.adapter.sweep();
    assert.deepEqual(
      await thief.answers(request(name, { kind: 'ifAvailable' })),
      ['unavailable'],
      'a sweep leaves it alone',
    );
    const theft = request(name, { kind: 'steal' });
    assert.deepEqual(await thief.answers(theft), ['busy']);
    await user.query('COMMIT');
    assert.deepEqual(await thief.answers(theft), ['granted']);
    await user.query('BEGIN');
    assert.equal(await a.adapter.guard(user, { ref: op.ref, name, token }), false);
    await user.query('ROLLBACK');
    user.release();
  });

  test('guard needs a transaction', async () => {
    const a = await client();
    const op = request(fresh());
    const [{ token }] = await a.step([op]);
    const lock = { ref: op.ref, name: op.name, token };
    await assert.rejects(a.adapter.guard(pool, lock), { name: 'TypeError', message: /a Pool/ });
    const one = await pool.connect();
    const inside = { name: 'TypeError', message: /in a transaction: BEGIN first/ };
    await assert.rejects(a.adapter.guard(one, lock), inside);
    one.release();
  });

  describe('the clock of the server', () => {
    const jump = (schema, by) =>
      sql(`UPDATE ${schema}.session SET renewed = renewed - interval '${by}',
        expires = expires - interval '${by}'`);

    test('a jump ahead costs nobody his lease who can renew', async () => {
      const schema = 'ahead';
      const [a, b] = [await client({ schema }), await client({ schema })];
      const name = fresh();
      await a.answers(request(name));
      await jump(schema, '1 hour');
      assert.deepEqual(await b.answers(request(name, { kind: 'ifAvailable' })), ['unavailable']);
      assert.equal((await b.renew()).alive, true);
      assert.equal((await a.renew()).alive, true);
    });

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

    test('a jump back makes no lease longer', async () => {
      const schema = 'back';
      const [a, b] = [await client({ schema }), await client({ schema })];
      await a.answers(request('name'));
      await jump(schema, '-1 hour');
      const { alive, nextExpiryIn } = await b.renew();
      assert.ok(alive);
      assert.ok(nextExpiryIn <= TTL, String(nextExpiryIn));
    });
  });

  describe('quarantine', () => {
    const lose = (schema) => sql(`UPDATE ${schema}.epoch SET identity = 'another life'`);

    test('after another life of the server nothing is granted for one ttl', async () => {
      const schema = 'promoted';
      const a = await client({ schema });
      const [held, waiting] = [request('held'), request('held')];
      const [{ token }] = await a.step([held]);
      await lose(schema);
      const b = await client({ schema });
      const { grantsIn } = await b.renew();
      assert.ok(grantsIn > TTL / 2 && grantsIn <= TTL, String(grantsIn));
      assert.deepEqual(await b.answers(request('free', { kind: 'ifAvailable' })), ['unavailable']);
      assert.deepEqual(await b.answers(request('free')), ['queued']);
      assert.deepEqual(await b.answers(waiting), ['queued']);
      assert.deepEqual(await a.answers(end(held)), ['ended']);
      const theft = request('held', { kind: 'steal' });
      assert.deepEqual(await b.answers(theft), ['queued']);
      assert.deepEqual(b.told, []);
      await sql(`UPDATE ${schema}.epoch SET grants_from = clock_timestamp()`);
      await b.adapter.sweep();
      const events = [await b.next(), await b.next()];
      assert.ok(events.some((event) => event.granted === theft.ref));
      for (const event of events) assert.ok(event.token > token + 900_000n, 'the token has jumped');
    });

    test('who is still known can renew', async () => {
      const schema = 'known';
      const a = await client({ schema });
      const op = request('name');
      const [{ token }] = await a.step([op]);
      await lose(schema);
      assert.deepEqual([...(await a.renew()).mine], [[op.ref, token]]);
    });

    test('unlogged: a crash loses the locks, and is followed by a quarantine', async () => {
      const schema = 'unlogged';
      const own = await startPostgres();
      const ownPool = new pg.Pool(own.config);
      ownPool.on('error', () => {});
      pools.add(ownPool);
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
      const ownPool = new pg.Pool(own.config);
      ownPool.on('error', () => {});
      pools.add(ownPool);
      const a = await client({ pool: ownPool }, 30_000);
      const op = request('name');
      const [{ token }] = await a.step([op]);
      await own.crash();
      await a.next();
      await own.start();
      await a.hello();
      assert.deepEqual([...(await a.renew()).mine], [[op.ref, token]]);
    });

    test('a standby is refused, and grants nothing for one ttl when it is promoted', async () => {
      const primary = await startPostgres();
      const standby = await startStandby(primary);
      const standbyPool = new pg.Pool(standby.config);
      standbyPool.on('error', () => {});
      pools.add(standbyPool);
      const ownPool = new pg.Pool(primary.config);
      ownPool.on('error', () => {});
      pools.add(ownPool);
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
        return answer;
      };
    });
    const a = await client({ pool: own });
    const ops = [request(fresh()), request(fresh())];
    const step = a.step(ops);
    await Promise.all([step, a.renew(), a.adapter.query(), a.adapter.sweep()]);
    assert.equal(most, 1);
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
      const start = `Lock "${op.name}" is guarded by a transaction that is open for `;
      assert.ok(error.message.startsWith(start), error.message);
      assert.ok(error.message.includes(`of the server process ${pid} ("shop \\"1\\"").`));
      await own.query('COMMIT');
    });

    test('is named to who ends its own lock', async (t) => {
      const a = await client();
      const { op, own, pid } = await guarded(t, a);
      for (const name of [op.name, undefined]) {
        const [{ code, error }] = await a.step([{ ...end(op), name }]);
        assert.equal(code, 'busy');
        assert.ok(error.message.includes(`of the server process ${pid} `), error.message);
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

    test('is that of a client, and no Pool', async () => {
      const { adapter } = await client();
      const lock = { ref: 1, name: 'a', token: 1n };
      for (const [wrong, message] of [
        [pool, /was given a Pool.*pool\.connect\(\)/],
        [undefined, /lock\.guard\(client\)/],
        [{}, /lock\.guard\(client\)/],
      ]) {
        await assert.rejects(adapter.guard(wrong, lock), { name: 'TypeError', message });
      }
    });
  });

  describe('what can be wrong', () => {
    test('a pooler in transaction mode is refused', { skip: lacks.pgbouncer }, async () => {
      const { port } = await startPgbouncer(server, 'transaction');
      const through = poolOf({ port });
      await assert.rejects(client({ pool: through }), {
        code: 'ERR_WEB_LOCKS_NO_NOTIFY',
        message: /pgbouncer.*`listen`/,
      });
      // Within the shortest lease, or nobody would be told.
      const bucket = openBucket('bucket', { pool: through, ttl: TTL });
      await rejectsWith(bucket.ready, 'ERR_WEB_LOCKS_NO_NOTIFY');
      const { port: ofStatements } = await startPgbouncer(server, 'statement');
      await rejectsWith(
        client({ pool: poolOf({ port: ofStatements }) }),
        'ERR_WEB_LOCKS_NO_NOTIFY',
      );
      const a = await client({ pool: through, listen: pool });
      assert.deepEqual(await a.answers(request(fresh())), ['granted']);
    });

    test('a pooler in session mode is not', { skip: lacks.pgbouncer }, async () => {
      const { port } = await startPgbouncer(server, 'session');
      const a = await client({ pool: poolOf({ port }) });
      assert.deepEqual(await a.answers(request(fresh())), ['granted']);
    });

    test('a database that there is not is told as that', async () => {
      const database = 'nowhere';
      const expected = { code: 'ERR_WEB_LOCKS_DATABASE', message: /no such database.*"nowhere"/ };
      await assert.rejects(client({ pool: poolOf({ database }) }), expected);
      const { adapter } = await client();
      const fatal = await client({ pool: poolOf({ database }) }).catch((error) => error);
      assert.equal(adapter.classify(fatal), 'fatal');
    });

    test('so it is by a pooler', { skip: lacks.pgbouncer }, async () => {
      const { port } = await startPgbouncer(server, 'session');
      const through = poolOf({ port, database: 'nowhere' });
      await rejectsWith(client({ pool: through }), 'ERR_WEB_LOCKS_DATABASE');
    });

    test('a password that is missing is a refused login', async () => {
      // As pg says it, whose server asks for one.
      const text = 'SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string';
      const asked = { connect: () => Promise.reject(new Error(text)), query() {}, options: {} };
      await assert.rejects(client({ pool: asked }), {
        code: 'ERR_WEB_LOCKS_RIGHTS',
        message: /refuses the login.*password/,
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
      ]) {
        assert.throws(() => new PostgresAdapter('', options), { name: 'TypeError' });
      }
    });

    test('a pool that is in full use says so, and works when it is not', async () => {
      const busy = poolOf({ max: 2 });
      const taken = [await busy.connect(), await busy.connect()];
      await assert.rejects(client({ pool: busy }), {
        code: 'ERR_WEB_LOCKS_POOL_EXHAUSTED',
        message: /All 2 clients/,
      });
      for (const one of taken) one.release();
      const a = await client({ pool: busy });
      assert.deepEqual(await a.answers(request(fresh())), ['granted']);
    });

    test('so does ready of a bucket', async () => {
      const busy = poolOf({ max: 2 });
      const taken = [await busy.connect(), await busy.connect()];
      const bucket = openBucket('bucket', { pool: busy, ttl: TTL });
      await assert.rejects(bucket.ready, {
        code: 'ERR_WEB_LOCKS_POOL_EXHAUSTED',
        message: /All 2 clients/,
      });
      for (const one of taken) one.release();
      await bucket.ready;
      await bucket.close();
    });

    test('a bucket whose pool has no client left to connect anew says so', async () => {
      const busy = poolOf({ max: 2, application_name: 'busy' });
      const bucket = openBucket('bucket', { pool: busy, ttl: TTL });
      await bucket.ready;
      const lost = once(bucket, 'lost');
      const taken = await busy.connect();
      const next = busy.connect();
      await taken.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'busy' AND pid <> pg_backend_pid()`);
      const [{ cause }] = await lost;
      for (const one of [taken, await next]) one.release();
      await bucket.close();
      assert.equal(cause.code, 'ERR_WEB_LOCKS_POOL_EXHAUSTED');
    });

    test('a server that lets connect and says nothing is not a pool in full use', async () => {
      const proxy = await FaultyProxy.open(server.port);
      proxy.stall();
      const stalled = poolOf({ max: 2, port: proxy.port });
      const bucket = openBucket('bucket', { pool: stalled, ttl: TTL });
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

    test('a role without rights is told what to do, and needs only those', async () => {
      await sql('CREATE ROLE app LOGIN');
      const schema = 'granted_by_hand';
      const app = poolOf({ user: 'app' });
      await assert.rejects(client({ pool: app, schema }), {
        code: 'ERR_WEB_LOCKS_RIGHTS',
        message: /docs\/CLUSTER\.md/,
      });
      await sql(scriptOf(schema, 'logged'));
      await rejectsWith(client({ pool: app, schema }), 'ERR_WEB_LOCKS_RIGHTS');
      await sql(`GRANT USAGE ON SCHEMA ${schema} TO app;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO app;
        GRANT SELECT, USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA ${schema} TO app`);
      const a = await client({ pool: app, schema });
      const op = request('name');
      assert.deepEqual(await a.answers(op), ['granted']);
      assert.deepEqual(await a.answers(end(op)), ['ended']);
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
      const ownPool = new pg.Pool(primary.config);
      ownPool.on('error', () => {});
      pools.add(ownPool);
      const a = await client({ pool: ownPool });
      await ownPool.query(`ALTER SYSTEM SET synchronous_standby_names TO 'nobody'`);
      await ownPool.query('SELECT pg_reload_conf()');
      const [{ pid }] = (
        await ownPool.query(`SELECT pid FROM pg_stat_activity
        WHERE query LIKE 'LISTEN%' OR query LIKE '%set_config%' OR query LIKE '%web_locks.open%'`)
      ).rows;
      const refused = rejectsWith(a.step([request('name')]), 'ERR_WEB_LOCKS_NOT_REPLICATED');
      const waits = `SELECT FROM pg_stat_activity WHERE pid = ${pid} AND wait_event = 'SyncRep'`;
      while ((await ownPool.query(waits)).rows.length === 0);
      await ownPool.query('SELECT pg_cancel_backend($1)', [pid]);
      await refused;
      assert.equal((await a.next()).down, 'ERR_WEB_LOCKS_NOT_REPLICATED');
    });
  });
});
