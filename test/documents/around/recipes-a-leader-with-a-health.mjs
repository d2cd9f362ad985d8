import { close } from './locks.mjs';
import { setImmediate as turn } from 'node:timers/promises';
process.env.PORT = '0';
let began = () => {};
const leading = new Promise((resolve) => (began = () => resolve(undefined)));
const schedule = async () => {
  began();
  await turn();
};
// …
await leading;
const { port } = /** @type {any} */ (server.address());
const reply = await fetch(`http://127.0.0.1:${port}`, { headers: { connection: 'close' } });
console.log(reply.status, await reply.text());
process.emit('SIGTERM');
await election;
await close();
