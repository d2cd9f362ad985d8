'use strict';

// Functions that lock are called by others that already have the lock.

const { locks } = require('web-locks');

const accounts = { alice: 100, bob: 100 };

/**
 * @template T
 * @param {() => Promise<T>} callback
 */
const locked = (callback) => locks.request('accounts', { reentrant: true }, callback);

/**
 * @param {'alice' | 'bob'} name
 * @param {number} amount
 */
const add = (name, amount) =>
  locked(async () => {
    accounts[name] += amount;
  });

const transfer = () =>
  locked(async () => {
    await add('alice', -50);
    await add('bob', 50);
  });

async function main() {
  const done = Promise.all([transfer(), add('alice', 7)]);
  console.log((await locks.query()).held.length, 'lock for all');
  await done;
  console.log(accounts);
}

main();
