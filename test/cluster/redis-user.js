'use strict';

/** A process that closes its bucket of a Redis when it is told to, and then has to end. */

const { openBucket } = require('../../lib/redis.js');
const { clients } = require('./redis-clients.js');

const [kind, port, name] = process.argv.slice(2);

async function main() {
  const bucket = openBucket(name, { client: clients[kind](Number(port)), ttl: 2_000 });
  for (;;) {
    try {
      await bucket.ready;
      break;
    } catch (error) {
      if (bucket.state === 'closed') throw error;
      // It takes longer than this short lease, on a loaded machine, and is tried on.
    }
  }
  process.once('message', async () => {
    await bucket.close();
    process.disconnect();
  });
  process.channel.ref();
  process.send('open');
}

main();
