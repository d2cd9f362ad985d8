'use strict';

/** A process that closes its bucket of a Redis cluster when that is lost, and then has to end. */

const { openBucket } = require('../../lib/redis.js');
const { clusterClients } = require('./redis-clients.js');

const [kind, port, name] = process.argv.slice(2);

async function main() {
  const bucket = openBucket(name, { client: clusterClients[kind](Number(port)), ttl: 2_000 });
  // An attempt fails if the machine has so much to do that a client gives up first.
  let isOpen = false;
  while (!isOpen) {
    isOpen = await bucket.ready.then(
      () => true,
      () => false,
    );
  }
  bucket.addEventListener('lost', async () => {
    // Also while it is opened anew.
    await bucket.ready.catch(() => {});
    await bucket.close();
    process.disconnect();
  });
  process.channel.ref();
  process.send('open');
}

main();
