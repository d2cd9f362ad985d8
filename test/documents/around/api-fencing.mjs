import { Pool } from 'pg';
const write = async () => 'text';
const database = new Pool();
database.on('error', console.error);
await database.query('CREATE TABLE report (id int, body text, token bigint)');
await database.query("INSERT INTO report VALUES (7, '', 0)");
// …
await database.end();
