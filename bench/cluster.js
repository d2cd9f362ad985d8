/**
 * Compares locks in PostgreSQL with the alternatives: `npm run bench -- --only cluster`. It starts
 * a server in a temporary folder (test/cluster/servers.js).
 *
 * - web-locks: a bucket, request and release; also with tables that are not on disk (unlogged)
 * - steps: the two steps of the adapter that this needs, without a session above it
 * - rows: the minimum for a table: a row is inserted and deleted
 * - advisory: pg_advisory_lock and its unlock, with a connection for each waiter
 * - FOR UPDATE: a permanent row, locked by a transaction that lasts as long as the use
 * - polling: a row is inserted unless it exists, and retried every 50 ms, as in many libraries
 * - turns: two clients take turns, notified by NOTIFY: the minimum for a hand-over on disk
 */

const { createHash } = require('node:crypto');
const { once } = require('node:events');
const { Missing } = require('./missing.js');
const { duration, size } = require('./size.js');
const { ms, rank, row, startProcess, wait } = require('./tools.js');

const POLL_MS = 50;
/** How long a client waits for its turn, because the other may have ended. */
const TURN_MS = 300;
/** How long processes compete. */
const LONG = duration(3_000);
/**
 * The subjects take turns in rounds, because the speed of a shared machine changes every second.
 */
const ROUNDS = size(3);

async function opened(options) {
  const { openBucket } = require('../lib/postgres.js');
  const bucket = openBucket('bench', options);
  await bucket.ready;
  return {
    locks: bucket.locks,
    run: (name, use) => bucket.locks.request(name, use),
    close: () => bucket.close(),
  };
}

/** @returns functions that lock a name, run a function and unlock it, by subject */
const subjects = {
  'web-locks': (pool) => opened({ pool }),

  'web-locks, unlogged': (pool) =>
    opened({ pool, schema: 'unlogged_locks', durability: 'unlogged' }),

  async advisory(pool) {
    const numberOf = (name) => createHash('sha256').update(name).digest().readInt32LE();
    return {
      async run(name, use) {
        const client = await pool.connect();
        const values = [numberOf(name)];
        await client.query({ name: 'lock', text: 'SELECT pg_advisory_lock($1)', values });
        await use();
        await client.query({ name: 'unlock', text: 'SELECT pg_advisory_unlock($1)', values });
        client.release();
      },
      close() {},
    };
  },

  async 'FOR UPDATE'(pool) {
    const known = new Set();
    await pool.query('CREATE TABLE IF NOT EXISTS kept (name text PRIMARY KEY)');
    return {
      async run(name, use) {
        const values = [name];
        const insert = 'INSERT INTO kept VALUES ($1) ON CONFLICT DO NOTHING';
        if (!known.has(name)) await pool.query(insert, values);
        known.add(name);
        const client = await pool.connect();
        const select = 'SELECT FROM kept WHERE name = $1 FOR UPDATE';
        await client.query('BEGIN');
        await client.query({ name: 'for update', text: select, values });
        await use();
        await client.query('COMMIT');
        client.release();
      },
      close() {},
    };
  },

  async polling(pool) {
    const insert = 'INSERT INTO polled VALUES ($1, now()) ON CONFLICT DO NOTHING';
    return {
      async run(name, use) {
        const values = [name];
        while ((await pool.query({ name: 'insert', text: insert, values })).rowCount === 0) {
          await wait(POLL_MS);
        }
        await use();
        await pool.query({ name: 'delete', text: 'DELETE FROM polled WHERE name = $1', values });
      },
      close() {},
    };
  },

  async rows(pool) {
    const client = await pool.connect();
    return {
      async run(name, use) {
        const values = [name];
        const insert = 'INSERT INTO polled VALUES ($1, now())';
        await client.query({ name: 'row', text: insert, values });
        await use();
        await client.query({ name: 'delete', text: 'DELETE FROM polled WHERE name = $1', values });
      },
      close: () => client.release(),
    };
  },

  async turns(pool) {
    const client = await pool.connect();
    const [{ me }] = (await client.query(`SELECT nextval('turn')::int AS me`)).rows;
    await client.query(`LISTEN turn_${me}`);
    let isMine = (await client.query('SELECT count FROM turns')).rows[0].count % 2 === me;
    let hear = () => {};
    client.on('notification', () => {
      isMine = true;
      hear();
    });
    return {
      async run(_, use) {
        const heard = new Promise((resolve) => {
          hear = resolve;
        });
        if (!isMine) await Promise.race([heard, wait(TURN_MS)]);
        if (!isMine) return;
        await use();
        isMine = false;
        const text = `UPDATE turns SET count = count + 1 RETURNING pg_notify($1, '')`;
        await client.query({ name: 'turn', text, values: [`turn_${1 - me}`] });
      },
      close: () => client.release(true),
    };
  },

  async steps(pool) {
    const { PostgresAdapter } = require('../lib/cluster/engines/postgres/adapter.js');
    const adapter = new PostgresAdapter('bench of steps', { pool });
    const info = { clientId: 'bench', host: '', pid: 0, threadId: 0, threadName: '', version: '' };
    const { session } = await adapter.open(info, 600_000, { life: '', token: 0n });
    const request = {
      ...{ kind: 'request', mode: 'exclusive', limit: 0, weight: 0, maxPending: -1, priority: 0 },
      ...{ label: '', group: 0 },
    };
    let ref = 0;
    let number = 0;
    return {
      async run(name, use) {
        ref++;
        await adapter.step([{ ...request, ref, name }], ++number);
        await use();
        await adapter.step([{ kind: 'end', ref, name, markFor: 0 }], ++number);
      },
      async close() {
        await adapter.close(session);
        await adapter.dispose();
      },
    };
  },
};

/** Runs as a process that uses names for a while. Reports how often, and when it had which name. */
async function child({ subject, config, name, milliseconds, isNoted }) {
  const pg = require('pg');
  const pool = new pg.Pool({ ...config, max: 3 });
  const { close, run } = await subjects[subject](pool);
  await run(`warm ${process.pid}`, () => {});
  process.send('ready');
  await once(process, 'message');
  const from = ms();
  let count = 0;
  const notes = [];
  while (ms() - from < milliseconds) {
    await run(name, async () => {
      count++;
      if (!isNoted) return;
      notes.push(ms());
      // It is long enough that the others wait.
      await wait(5);
      notes.push(ms());
    });
  }
  process.send({ count, notes });
  await close();
  await pool.end();
  process.disconnect();
}

async function together(count, options) {
  const processes = [];
  for (let i = 0; i < count; i++) {
    const name = options.isOwn ? `own ${i}` : 'one';
    processes.push(startProcess(__filename, [JSON.stringify({ ...options, name })]));
  }
  await Promise.all(processes.map(({ next }) => next()));
  const results = processes.map(({ next }) => next());
  for (const { send } of processes) send('go');
  const all = await Promise.all(results);
  await Promise.all(processes.map(({ exited }) => exited));
  return all;
}

async function uncontended(pool) {
  console.log('\nuncontended request and release, one after the other (ms)');
  const names = ['steps', 'web-locks', 'rows', 'polling', 'advisory'];
  const opened = [];
  for (const name of names) opened.push(await subjects[name](pool));
  const times = names.map(() => []);
  for (let round = 0; round < 8; round++) {
    for (const [i, { run }] of opened.entries()) {
      for (let n = 0; n < size(150); n++) {
        const from = ms();
        await run(`name ${i}`, () => {});
        if (round > 0) times[i].push(ms() - from);
      }
    }
  }
  for (const { close } of opened) await close();
  const first = rank(times[0], 0.5);
  for (const [i, name] of names.entries()) {
    const [half, most] = [rank(times[i], 0.5), rank(times[i], 0.99)];
    const ratio = (half / first).toFixed(2);
    row(name, `p50 ${half.toFixed(2)}  p99 ${most.toFixed(2)}  ${ratio} × steps`);
  }
}

async function atOnce(pool) {
  console.log('\none process, pairs a second');
  const { close, run } = await subjects['web-locks'](pool);
  for (const width of [1, 32]) {
    let count = 0;
    const from = ms();
    const one = async (i) => {
      while (ms() - from < LONG) {
        await run(`name ${i}`, () => {});
        count++;
      }
    };
    await Promise.all(Array.from({ length: width }, (_, i) => one(i)));
    row(`${width} at once`, (count / ((ms() - from) / 1e3)).toFixed(0));
  }
  await close();
}

/** Measures subjects with several processes each; the subjects take turns. */
async function inTurns(names, count, options) {
  const all = new Map(names.map((subject) => [subject, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [subject, results] of all) {
      results.push(await together(count, { ...options, subject }));
    }
  }
  return all;
}

async function handOver(config) {
  console.log(
    '\nhand-over between two processes (ms from the end of a use to the next; each round)',
  );
  const names = ['web-locks', 'turns', 'web-locks, unlogged', 'advisory', 'polling'];
  const all = await inTurns(names, 2, { config, milliseconds: LONG / 2, isNoted: true });
  for (const [subject, rounds] of all) {
    const gaps = rounds.map(gapsOf);
    const halves = gaps.map((those) => rank(those, 0.5).toFixed(2)).join(', ');
    const [half, most] = [rank(gaps.flat(), 0.5), rank(gaps.flat(), 0.99)];
    row(subject, `p50 ${half.toFixed(2)} (${halves})  p99 ${most.toFixed(2)}`);
  }
}

/**
 * @returns {number[]} milliseconds from the end of a use to the beginning of another process's use
 */
function gapsOf(results) {
  const uses = results.flatMap(({ notes }, who) =>
    notes.filter((_, i) => i % 2 === 0).map((at, i) => ({ who, at, until: notes[2 * i + 1] })),
  );
  uses.sort((a, b) => a.at - b.at);
  return uses
    .slice(1)
    .flatMap(({ who, at }, i) => (who === uses[i].who ? [] : [at - uses[i].until]));
}

async function eight(config) {
  for (const isOwn of [false, true]) {
    const what = isOwn ? 'a name of its own each, pairs a second' : 'one name, grants a second';
    console.log(`\n8 processes, ${what} (each round; fewest to most of a process)`);
    const names = ['web-locks', 'web-locks, unlogged', 'advisory', 'polling'];
    const all = await inTurns(names, 8, { config, isOwn, milliseconds: LONG });
    for (const [subject, rounds] of all) {
      const counts = rounds.map((results) => results.map(({ count }) => count));
      const sums = counts.map((those) => those.reduce((a, b) => a + b) / (LONG / 1000));
      const each = sums.map((sum) => sum.toFixed(0)).join(', ');
      const of = `${Math.min(...counts.flat())} to ${Math.max(...counts.flat())}`;
      row(subject, `${rank(sums, 0.5).toFixed(0)} (${each}; ${of})`);
    }
  }
}

async function runCluster() {
  const { lacks, startPostgres, stopAll } = require('../test/cluster/servers.js');
  if (lacks.postgres) throw new Missing(lacks.postgres);
  const pg = require('pg');
  const server = await startPostgres();
  const pool = new pg.Pool({ ...server.config, max: 10 });
  await pool.query('CREATE TABLE polled (name text PRIMARY KEY, at timestamptz)');
  await pool.query('CREATE TABLE turns AS SELECT 0 AS count');
  await pool.query('CREATE SEQUENCE turn MINVALUE 0 MAXVALUE 1 CYCLE');
  for (const name of ['web-locks', 'web-locks, unlogged'])
    await (await subjects[name](pool)).close();
  await uncontended(pool);
  await atOnce(pool);
  await handOver(server.config);
  await eight(server.config);
  await pool.end();
  await stopAll();
}

if (require.main === module) {
  process.once('disconnect', () => process.exit());
  child(JSON.parse(process.argv[2]));
}

module.exports = { runCluster, subjects, together };
