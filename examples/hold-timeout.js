'use strict';

// A holder that takes too long loses the lock and is notified; the next one does not wait for it.

const { setTimeout: sleep } = require('node:timers/promises');
const { LockTimeoutError, locks } = require('web-locks');

async function main() {
  const slow = locks.request('cache', { holdTimeout: 50 }, async (lock) => {
    try {
      await sleep(10_000, undefined, { signal: lock.signal });
    } catch {
      console.log('the slow one stops');
    }
  });
  const next = locks.request('cache', () => console.log('the next one has it'));
  try {
    await slow;
  } catch (error) {
    if (!(error instanceof LockTimeoutError)) throw error;
    console.log(error.name, 'held at least 50 ms:', error.held >= 49);
  }
  await next;
}

main();
