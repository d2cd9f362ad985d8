import { close } from './locks.mjs';
const nightly = async () => {};
// …
const [first, second] = ['nightly:1', 'nightly:1'].map((key) => coordinator.shouldRun(key, 1000));
console.log(await first, await second);
task.destroy();
await close();
