import { close } from './locks.mjs';
const nightly = async () => console.log('nightly');
// …
job.waitForCompletion = true;
for (let i = 0; i < 2; i++) await job.fireOnTick();
await job.stop();
await close();
