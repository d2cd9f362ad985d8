'use strict';

// Two tasks take two locks in opposite order: one of them is told.

const { DeadlockError, locks } = require('web-locks');

const nest = (outer, inner) =>
  locks.request(outer, { deadlock: 'reject' }, async () => {
    await new Promise(setImmediate);
    return locks.request(inner, { deadlock: 'reject' }, () => 'had both');
  });

async function main() {
  const results = await Promise.allSettled([nest('a', 'b'), nest('b', 'a')]);
  for (const { value, reason } of results) {
    if (reason && !(reason instanceof DeadlockError)) throw reason;
    console.log(value ?? `cycle: ${reason.cycle.map(({ name }) => name).join(' ')}`);
  }
}

main();
