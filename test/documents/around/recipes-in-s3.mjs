// …
await save('report-7', 'old', 5n);
await save('report-7', 'new', 6n);
console.log((await load('report-7')).stored.body);
await save('report-7', 'late', 5n).catch(() => console.log('refused'));
