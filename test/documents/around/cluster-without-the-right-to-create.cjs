const path = require('node:path');
const folder = path.join(path.dirname(require.resolve('web-locks')), 'cluster/engines/postgres');
const { rows: [{ there }] } = await client.query("SELECT to_regrole('app') IS NOT NULL AS there");
if (!there) await client.query('CREATE ROLE app');
await client.query(require(path.join(folder, 'postgres.sql.js')));
// …
