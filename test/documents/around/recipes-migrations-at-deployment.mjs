import { Pool } from 'pg';
import { openBucket } from 'web-locks/postgres';
const migrate = async () => console.log('migrated');
// …
await deploy.close();
await Promise.all([pool.end(), direct.end()]);
