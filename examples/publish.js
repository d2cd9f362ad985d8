'use strict';

// Other threads see the progress of the holder, and where to reach it.

const { locks } = require('web-locks');

async function main() {
  const files = ['one', 'two', 'three'];
  await locks.request('import', async (lock) => {
    for (const [done, file] of files.entries()) {
      await lock.publish({ at: 'http://10.0.0.7:8080', done, of: files.length });
      await look(file);
    }
  });
  await look('nothing');
}

/** @param {string} file */
async function look(file) {
  const { held } = await locks.query({ name: 'import', details: true });
  console.log(`imports ${file}:`, held.length > 0 ? held[0].data : 'nobody holds the lock');
}

main();
