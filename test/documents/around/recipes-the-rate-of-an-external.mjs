import { setTimeout as sleep } from 'node:timers/promises';
const starts = [0];
/** @param {number} _id */
const call = async (_id) => void starts.push(performance.now());
// …
await Promise.all(Array.from({ length: 12 }, (_, id) => fetchOrder(id)));
console.log(starts[11] - starts[1] >= 995);
