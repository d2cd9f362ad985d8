// @ts-ignore
import 'data:text/javascript,console.error = () => {}';
import { bucket as ours, close, pool as somePool } from './locks.mjs';
const pool = /** @type {any} */ (somePool);
process.env.PORT = '0';
await ours.ready;
/** @param {string} id */
const pay = async (id) => ({ paid: id });
// …
import { once } from 'node:events';
await once(server, 'listening');
const { port } = /** @type {any} */ (server.address());
const tell = async () => {
  const url = `http://127.0.0.1:${port}/orders/7/pay`;
  const reply = await fetch(url, { method: 'POST', headers: { connection: 'close' } });
  console.log(reply.status, await reply.text());
};
await tell();
await locks.request('order 7', tell);
// The database goes away.
pool.options.connectionString = 'postgres://127.0.0.1:1';
for (const client of pool._clients) client.connection.stream.destroy();
while (ours.state === 'open') await new Promise(setImmediate);
await tell();
server.close();
await close();
