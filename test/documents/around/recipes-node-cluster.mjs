// …
if (cluster.isPrimary) {
  let left = 4;
  cluster.on('exit', async () => {
    if (--left === 0) console.log(await readFile('count', 'utf8'));
  });
}
