import { setTimeout as pass } from 'node:timers/promises';
let pauses = 0;
/** Counts the pauses that have ended. @param {number} milliseconds */
const sleep = async (milliseconds) => {
  await pass(milliseconds);
  pauses++;
};
/** How many pauses had ended when each call started. @type {number[]} */
const starts = [];
/** @param {number} _id */
const call = async (_id) => void starts.push(pauses);
// …
await Promise.all(Array.from({ length: 12 }, (_, id) => fetchOrder(id)));
console.log(starts[10] > 0);
