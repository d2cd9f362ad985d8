'use strict';

/**
 * Runs a process that closes its bucket at Redis when its session is lost or when a message
 * arrives; the process must then end.
 */

const { once } = require('node:events');
const { openBucket } = require('../../lib/redis.js');
const { clientOf } = require('./redis-clients.js');
const { TTL, isOpen } = require('./refusal.js');

const [kind, port] = process.argv.slice(2);

async function main() {
  const bucket = openBucket('bucket', { client: clientOf(kind)(Number(port)), ttl: TTL });
  await isOpen(bucket);
  process.channel.ref();
  process.send('open');
  await Promise.race([once(bucket, 'lost'), once(process, 'message')]);
  // A lost bucket opens anew; the close follows even if that fails.
  await bucket.ready.catch(() => {});
  await bucket.close();
  process.disconnect();
}

main();
