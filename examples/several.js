'use strict';

// Transfers in both directions at once cause no deadlock, whatever the order of the names.

const { locks } = require('web-locks');

/** @type {Record<string, number>} */
const accounts = { alice: 100, bob: 100 };

/**
 * @param {string} from
 * @param {string} to
 * @param {number} amount
 */
const transfer = (from, to, amount) =>
  locks.requestAll([from, to], async () => {
    const [fromBalance, toBalance] = [accounts[from], accounts[to]];
    await new Promise(setImmediate);
    accounts[from] = fromBalance - amount;
    accounts[to] = toBalance + amount;
  });

async function main() {
  const transfers = [];
  for (let i = 0; i < 50; i++)
    transfers.push(transfer('alice', 'bob', 2), transfer('bob', 'alice', 1));
  await Promise.all(transfers);
  console.log(accounts);
}

main();
