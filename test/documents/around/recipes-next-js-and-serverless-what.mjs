// …
await locks.request('order 7', () => console.log('granted'));
const again = (own.shop ??= open());
console.log(again.bucket === bucket && again.pool === pool);
await bucket.close();
await pool.end();
