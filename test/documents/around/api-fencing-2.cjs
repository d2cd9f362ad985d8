const assert = require('node:assert/strict');
// …
const [create, update] = sql.split(/(?=^-- \$1)/m);
await client.query(create);
await client.query("INSERT INTO report VALUES (7, 'old', 5)");
assert.equal((await client.query(update, [7, 'late', 4])).rowCount, 0);
assert.equal((await client.query(update, [7, 'new', 6])).rowCount, 1);
