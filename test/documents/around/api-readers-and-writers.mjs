import { readFile, writeFile } from 'node:fs/promises';
const text = '{}';
await writeFile('config.json', text);
// …
