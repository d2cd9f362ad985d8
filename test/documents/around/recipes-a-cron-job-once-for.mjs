import { close, locks as first } from './locks.mjs';
const report = async (token = 0n) => {};
const today = `report ${new Date().toISOString().slice(0, 10)}`;
// …
const { ran: again } = await first.once(today, { keep: 1000 }, () => report());
console.log(again ? 'reported' : 'another machine did it');
await close();
