'use strict';

/**
 * A program to profile: workers of a shop contend, and a report delays all of them. WORKERS is
 * their number, ORDERS the number of orders of each.
 */

const { once } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const { isMainThread, parentPort, threadId, Worker } = require('node:worker_threads');
const { locks } = require('../..');

const { ORDERS = '12', WORKERS = '4' } = process.env;

async function sell(i) {
  await locks.request('stock', { label: 'order' }, () => sleep(2 + ((i * 7 + threadId * 3) % 5)));
  await locks.request('prices', { mode: 'shared', label: 'order' }, () => sleep(1));
}

async function writeReport() {
  await sleep(60);
  await locks.request('stock', { label: 'nightly report' }, () => sleep(45));
}

async function setPrices() {
  for (let i = 0; i < 5; i++) {
    await locks.request('prices', { label: 'new prices' }, () => sleep(6));
    await sleep(15);
  }
}

/** Some of its requests fail. */
async function audit() {
  const ignore = () => {};
  for (let i = 0; i < 6; i++) {
    await locks.request('stock', { label: 'audit', timeout: 10 }, ignore).catch(ignore);
    await locks.request('prices', { label: 'audit', ifAvailable: true }, ignore);
  }
  const wrong = async () => {
    throw new RangeError('The price of 4711 is negative.');
  };
  await locks.request('prices', { label: 'audit' }, wrong).catch(ignore);
}

async function main() {
  if (isMainThread) {
    const workers = Array.from({ length: Number(WORKERS) }, () => new Worker(__filename));
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    for (const worker of workers) worker.postMessage('open');
    await Promise.all([writeReport(), setPrices(), audit()]);
  } else {
    parentPort.postMessage('ready');
    await once(parentPort, 'message');
    for (let i = 0; i < Number(ORDERS); i++) await sell(i);
  }
}

main();
