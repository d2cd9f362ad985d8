'use strict';

// Locks of all machines that use a PostgreSQL database: start it twice. It needs the package pg and
// the environment variable DATABASE_URL; without them it says so.

/** @returns {any} the package pg, if it is installed */
function load() {
  try {
    return require('pg');
  } catch {
    return undefined;
  }
}

async function main() {
  const pg = load();
  const { DATABASE_URL } = process.env;
  if (!pg || !DATABASE_URL) {
    console.log('needs the package pg, and DATABASE_URL=postgres://user@host/database');
    return;
  }
  const { openBucket } = require('web-locks/postgres');
  const pool = new pg.Pool({ connectionString: DATABASE_URL });
  // A client of pg emits 'error' if its connection breaks: an idle one at its pool, others
  // themselves.
  pool.on('error', console.error);
  pool.on('connect', (/** @type {any} */ client) => client.on('error', console.error));
  const shop = openBucket('shop', { pool, label: `process ${process.pid}` });
  await shop.ready;

  const { held } = await shop.locks.query({ details: true });
  for (const { label, host } of held) console.log(`${label} on ${host} has the lock`);
  await shop.locks.request('order 7', async (lock) => {
    console.log('order 7 is ours, by the token', lock.token > 0n);
    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      // The lock is certainly still ours when this commits.
      await lock.guard(client);
      await client.query('COMMIT');
    } catch (error) {
      await client.query('ROLLBACK').catch(() => {});
      throw error;
    } finally {
      client.release();
    }
  });
  await shop.close();
  await pool.end();
  console.log('done');
}

main();
