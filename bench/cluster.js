/**
 * Locks in PostgreSQL against what else there is: `npm run bench -- --only cluster`. Starts a server
 * of its own in a temporary folder (test/cluster/servers.js).
 *
 * - web-locks: a bucket, request and release
 * - steps: the two statements that this needs, by bare pg, prepared
 * - rows: the least that a table can do: a row inserted and deleted
 * - advisory: pg_advisory_lock and its unlock, one connection for each who waits
 * - polling: a row inserted unless it is there, tried again every 50 ms, as many libraries do it
 */

const { fork } = require('node:child_process');
const { createHash, randomUUID } = require('node:crypto');
const { once } = require('node:events');

const POLL_MS = 50;
const ms = () => Number(process.hrtime.bigint()) / 1e6;
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const rank = (values, part) =>
  values.sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))];

/** @returns what locks a name, runs a function and unlocks it, by subject */
const subjects = {
  async 'web-locks'(pool) {
    const { openBucket } = require('../lib/postgres.js');
    const bucket = openBucket('bench', { pool });
    await bucket.ready;
    return {
      run: (name, use) => bucket.locks.request(name, use),
      close: () => bucket.close(),
    };
  },

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

  async steps(pool) {
    const client = await pool.connect();
    const session = String(BigInt(`0x${randomUUID().replaceAll('-', '').slice(0, 15)}`));
    const info = JSON.stringify({ clientId: 'bench' });
    await client.query('SELECT web_locks.open($1, $2, $3, 600000)', [session, 'b', info]);
    await client.query('SET enable_seqscan TO off; SET jit TO off');
    const text = 'SELECT web_locks.step($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)';
    const empty = Buffer.alloc(0);
    let ref = 0;
    const step = (kind, name) => {
      const key = createHash('sha256').update(name).digest();
      const values = [session, 1, [kind], [ref], [key], [Buffer.from(name, 'utf16le')], [false]];
      values.push([0], [0], [-1], [empty], [0]);
      return client.query({ name: 'step', text, values });
    };
    return {
      async run(name, use) {
        ref++;
        await step(0, name);
        await use();
        await step(3, name);
      },
      async close() {
        await client.query('SELECT web_locks.close($1)', [session]);
        client.release();
      },
    };
  },
};

/** A process that uses names for a while: tells how often, and when it had what. */
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
      // Long enough that the others wait.
      await wait(5);
      notes.push(ms());
    });
  }
  process.send({ count, notes });
  await close();
  await pool.end();
  process.disconnect();
}

/** Runs processes at the same time. */
async function together(count, options) {
  const children = [];
  for (let i = 0; i < count; i++) {
    const name = options.isOwn ? `own ${i}` : 'one';
    const given = JSON.stringify({ ...options, name });
    children.push(fork(__filename, [given]));
  }
  await Promise.all(children.map((started) => once(started, 'message')));
  const results = children.map(async (started) => (await once(started, 'message'))[0]);
  const ended = children.map((started) => once(started, 'exit'));
  for (const started of children) started.send('go');
  const all = await Promise.all(results);
  await Promise.all(ended);
  return all;
}

const row = (what, text) => console.log(`  ${what.padEnd(12)} ${text}`);

async function uncontended(pool) {
  console.log('\nuncontended request and release, one after the other (ms)');
  const names = ['steps', 'web-locks', 'rows', 'polling', 'advisory'];
  const opened = [];
  for (const name of names) opened.push(await subjects[name](pool));
  const times = names.map(() => []);
  for (let round = 0; round < 8; round++) {
    for (const [i, { run }] of opened.entries()) {
      for (let n = 0; n < 150; n++) {
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
      while (ms() - from < 3_000) {
        await run(`name ${i}`, () => {});
        count++;
      }
    };
    await Promise.all(Array.from({ length: width }, (_, i) => one(i)));
    row(`${width} at once`, (count / ((ms() - from) / 1e3)).toFixed(0));
  }
  await close();
}

async function handOver(config) {
  console.log(
    '\nhand-over between two processes (ms from the end of one to the begin of the next)',
  );
  for (const subject of ['web-locks', 'advisory', 'polling']) {
    const options = { subject, config, milliseconds: 3_000, isNoted: true };
    const uses = (await together(2, options)).flatMap(({ notes }, who) =>
      notes.filter((_, i) => i % 2 === 0).map((at, i) => ({ who, at, until: notes[2 * i + 1] })),
    );
    uses.sort((a, b) => a.at - b.at);
    const gaps = uses
      .slice(1)
      .flatMap(({ who, at }, i) => (who === uses[i].who ? [] : [at - uses[i].until]));
    row(subject, `p50 ${rank(gaps, 0.5).toFixed(2)}  p99 ${rank(gaps, 0.99).toFixed(2)}`);
  }
}

async function eight(config) {
  for (const isOwn of [false, true]) {
    const what = isOwn ? 'a name of its own each, pairs a second' : 'one name, grants a second';
    console.log(`\n8 processes, ${what} (fewest to most of a process)`);
    for (const subject of ['web-locks', 'advisory', 'polling']) {
      const results = await together(8, { subject, config, isOwn, milliseconds: 3_000 });
      const counts = results.map(({ count }) => count);
      const sum = counts.reduce((a, b) => a + b) / 3;
      row(subject, `${sum.toFixed(0)}  (${Math.min(...counts)} to ${Math.max(...counts)})`);
    }
  }
}

async function runCluster() {
  const { lacks, startPostgres, stopAll } = require('../test/cluster/servers.js');
  if (lacks.postgres) {
    console.log(`cluster: ${lacks.postgres}`);
    return;
  }
  const pg = require('pg');
  const server = await startPostgres();
  const pool = new pg.Pool({ ...server.config, max: 10 });
  try {
    await pool.query('CREATE TABLE polled (name text PRIMARY KEY, at timestamptz)');
    const { close } = await subjects['web-locks'](pool);
    await close();
    await uncontended(pool);
    await atOnce(pool);
    await handOver(server.config);
    await eight(server.config);
  } finally {
    await pool.end();
    await stopAll();
  }
}

if (require.main === module) child(JSON.parse(process.argv[2]));

module.exports = { runCluster };
