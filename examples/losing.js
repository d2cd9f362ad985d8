'use strict';

// A leader that stops leading when its lock is stolen.

const { setTimeout: sleep } = require('node:timers/promises');
const { LockStolenError, locks } = require('web-locks');

/** @param {string} name */
async function lead(name) {
  try {
    await locks.request('leader', async ({ signal }) => {
      console.log(`${name} leads`);
      await sleep(60_000, undefined, { signal }).catch(() => {});
      console.log(`${name} stops`);
    });
  } catch (error) {
    if (!(error instanceof LockStolenError)) throw error;
    console.log(`${name} lost ${error.lockName}`);
  }
}

async function main() {
  const first = lead('the first');
  await sleep(10);
  await locks.request('leader', { steal: true }, () => console.log('a thief leads'));
  await first;
}

main();
