import { close, pool } from './locks.mjs';
const migrate = async ({ signal = new AbortController().signal }) => {
  if (!signal.aborted) console.log('migrated');
};
await pool.query('CREATE TABLE release (version text)');
// …
await close();
