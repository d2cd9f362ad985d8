const assert = require('node:assert/strict');
await client.query('CREATE TABLE report (id int, token bigint, body text)');
await client.query("INSERT INTO report VALUES (1, 5, 'old')");
// …
assert.equal((await client.query(sql, [4, 'late', 1])).rowCount, 0);
assert.equal((await client.query(sql, [6, 'new', 1])).rowCount, 1);
