'use strict';

// A handle decides how long a lock is held, not the run of a callback.

const { locks } = require('web-locks');

async function main() {
  const handle = await locks.acquire('report');
  try {
    console.log(`holds ${handle.name}`);
    console.log(
      `another one, if it is free: ${await locks.acquire('report', { ifAvailable: true })}`,
    );
  } finally {
    handle.release();
  }
  console.log(`released: ${handle.released}`);
}

main();
