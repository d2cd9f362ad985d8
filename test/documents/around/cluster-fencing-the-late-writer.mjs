import { Pool } from 'pg';
import { openBucket } from 'web-locks/postgres';
const pool = new Pool({ max: 3 });
pool.on('error', console.error);
pool.on('connect', (client) => client.on('error', console.error));
await pool.query('CREATE TABLE orders (id int, paid boolean)');
await pool.query('INSERT INTO orders VALUES (7, false)');
const shop = openBucket('shop', { pool });
// …
const { rowCount } = await pool.query('SELECT * FROM orders WHERE paid');
console.log(rowCount, 'paid');
await shop.close();
await pool.end();
