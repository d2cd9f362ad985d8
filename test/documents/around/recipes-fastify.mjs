// @ts-ignore
import 'data:text/javascript,console.error = () => {}';
import { bucket, bucket as ours, pool as somePool } from './locks.mjs';
const pool = /** @type {any} */ (somePool);
process.env.PORT = '0';
await bucket.ready;
/** @param {string} id */
const pay = async (id) => ({ paid: id });
// …
const tell = async () => {
  const { statusCode, body } = await app.inject({ method: 'POST', url: '/orders/7/pay' });
  console.log(statusCode, body);
};
await tell();
await locks.request('order 7', tell);
// The database goes away.
pool.options.connectionString = 'postgres://127.0.0.1:1';
for (const client of pool._clients) client.connection.stream.destroy();
while (ours.state === 'open') await new Promise(setImmediate);
await tell();
await app.close();
console.log(bucket.state);
