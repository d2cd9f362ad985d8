'use strict';

// A wait with a time limit, and an error that names the holder.

const { LockTimeoutError, locks } = require('web-locks');

async function main() {
  const handle = await locks.acquire('printer', { label: 'a long document' });
  try {
    await locks.request('printer', { timeout: 50 }, () => console.log('never'));
  } catch (error) {
    if (!(error instanceof LockTimeoutError)) throw error;
    console.log(error.name, 'held by', error.holders[0].label);
  }
  handle.release();
}

main();
