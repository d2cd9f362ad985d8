import { setTimeout as sleep } from 'node:timers/promises';
import { close } from './locks.mjs';
let [running, most] = [0, 0];
/** @param {number} _id */
const call = async (_id) => {
  most = Math.max(most, ++running);
  await sleep(5);
  running--;
};
// …
await Promise.all([1, 2, 3, 4, 5, 6].map(fetchOrder));
console.log('at most', most, 'at a time');
await close();
