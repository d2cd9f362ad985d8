import { close } from './locks.mjs';
// …
console.log('listening');
await close();
