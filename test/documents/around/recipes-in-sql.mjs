import { close } from './locks.mjs';
const render = async () => 'text';
await pool.query('CREATE TABLE report (id int, body text, token bigint)');
await pool.query("INSERT INTO report VALUES (7, '', 0)");
// …
await writeReport();
await save('late', 0n).catch(() => console.log('refused'));
await close();
