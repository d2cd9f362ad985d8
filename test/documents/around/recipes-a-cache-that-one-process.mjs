const compute = async () => {
  console.log('computing');
  return 42;
};
// …
const values = await Promise.all([1, 2, 3].map(() => cached('answer', 60, compute)));
console.log(...values);
await bucket.close();
await client.close();
