// …
console.log(await save('report 7', 'new', 6n));
console.log(await save('report 7', 'late', 5n));
await client.close();
