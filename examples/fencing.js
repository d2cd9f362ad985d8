'use strict';

// The store refuses a writer that lost its lock without noticing.

const { locks } = require('web-locks');

/** A store with an atomic update accepts no token that is older than its last one. */
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
