'use strict';

// Two tasks take two locks in opposite order: one of them is rejected.

const { DeadlockError, locks } = require('web-locks');

/**
 * @param {string} outer
 * @param {string} inner
 */
const nest = (outer, inner) =>
  locks.request(outer, { deadlock: 'reject' }, async () => {
    await new Promise(setImmediate);
    return locks.request(inner, { deadlock: 'reject' }, () => 'had both');
  });

async function main() {
  const results = await Promise.allSettled([nest('a', 'b'), nest('b', 'a')]);
  for (const result of results) {
    if (result.status === 'fulfilled') console.log(result.value);
    else if (result.reason instanceof DeadlockError) {
      console.log(`cycle: ${result.reason.cycle.map(({ name }) => name).join(' ')}`);
    } else throw result.reason;
  }
}

main();
