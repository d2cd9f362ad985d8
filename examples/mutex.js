'use strict';

// A lock as an object: calls run in the order in which they are made.

const { setTimeout: sleep } = require('node:timers/promises');
const { Mutex } = require('web-locks');

async function main() {
  const mutex = new Mutex();
  /** @type {number[]} */
  const done = [];
  /** @param {number} x */
  const work = async (x) => {
    await sleep(Math.random() * 10);
    done.push(x);
  };
  await Promise.all([0, 1, 2, 3, 4].map((x) => mutex.runExclusive(() => work(x))));
  console.log(done.join(' '));

  const release = await mutex.acquire();
  console.log('if it is free:', await mutex.tryAcquire());
  release();

  // It takes the options of requests: here a time limit for the holder.
  const slow = mutex.runExclusive(() => sleep(1000), { holdTimeout: 20 });
  await slow.catch(({ name }) => console.log(name));
  console.log('locked:', mutex.locked);
}

main();
