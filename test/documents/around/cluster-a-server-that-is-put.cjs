const path = require('node:path');
const folder = path.join(path.dirname(require.resolve('web-locks')), 'cluster/engines/postgres');
await client.query(require(path.join(folder, 'postgres.sql.js')));
// …
