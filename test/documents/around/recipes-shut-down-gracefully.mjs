import { bucket as ours } from './locks.mjs';
process.env.PORT = '0';
// …
import { once } from 'node:events';
await once(server, 'listening');
const { port } = /** @type {any} */ (server.address());
const reply = await fetch(`http://127.0.0.1:${port}`, { headers: { connection: 'close' } });
console.log(reply.status, await reply.text());
server.on('close', () => console.log('the server is closed'));
process.on('exit', () => console.log('the bucket is', ours.state));
process.kill(process.pid, 'SIGTERM');
