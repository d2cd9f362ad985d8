'use strict';

// A writer that lost its lock without noticing is refused by the store.

const { locks } = require('web-locks');

/** What a store with an atomic update does: it takes nothing that is older than what it has. */
const store = { token: 0n, text: '' };

/**
 * @param {bigint} token
 * @param {string} text
 */
function save(token, text) {
  if (token < store.token) return 'refused';
  Object.assign(store, { token, text });
  return 'saved';
}

async function main() {
  /** @type {(value?: unknown) => void} */
  let wake = () => {};
  const asleep = new Promise((resolve) => {
    wake = resolve;
  });
  const slow = locks
    .request('report', async ({ token }) => {
      await asleep;
      console.log('the slow writer:', save(token, 'old'));
    })
    .catch(() => {}); // it was stolen

  await locks.request('report', { steal: true }, ({ token }) => {
    console.log('the thief:', save(token, 'new'));
  });
  wake();
  await slow;
  await new Promise(setImmediate);
  console.log(store.text);
}

main();
