'use strict';

// A full queue refuses requests at once, instead of growing.

const { LockQueueFullError, locks } = require('web-locks');

/** @param {string} order */
async function print(order) {
  try {
    await locks.request('printer', { maxPending: 2 }, () => new Promise(setImmediate));
    return `${order}: printed`;
  } catch (error) {
    if (!(error instanceof LockQueueFullError)) throw error;
    return `${order}: come back later`;
  }
}

async function main() {
  const printing = Promise.all(['one', 'two', 'three', 'four'].map(print));
  const { held, pending } = await locks.query({ name: 'printer' });
  console.log(`${held.length} prints, ${pending.length} wait`);
  console.log((await printing).join('\n'));
}

main();
