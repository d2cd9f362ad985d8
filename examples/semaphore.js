'use strict';

// A semaphore for four connections, of which a report takes three.

const { setTimeout: sleep } = require('node:timers/promises');
const { Semaphore, locks } = require('web-locks');

async function main() {
  const connections = new Semaphore('connections', { permits: 4 });
  let open = 0;
  let most = 0;
  /** @param {number} count */
  const use = async (count) => {
    open += count;
    most = Math.max(most, open);
    await sleep(5);
    open -= count;
  };
  const pages = Array.from({ length: 10 }, () => connections.run(() => use(1)));
  const report = connections.run(() => use(3), { weight: 3 });
  await Promise.all([...pages, report]);
  console.log('most at a time:', most);

  const release = await connections.acquire({ weight: 3 });
  console.log('available:', connections.available);
  console.log('two more:', await connections.tryAcquire({ weight: 2 }));
  // The same with options of a request.
  const options = /** @type {const} */ ({ mode: 'shared', limit: 4, ifAvailable: true });
  await locks.request('connections', options, (lock) => console.log('one more:', lock !== null));
  release();
}

main();
