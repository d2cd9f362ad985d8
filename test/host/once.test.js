// slow: 5

'use strict';

/** Marks of `locks.once` that a process finds after all earlier processes have ended. */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const process = require('node:process');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const { lacksHost } = require('../helpers/host-scope.js');
const { freshDirectory } = require('../helpers/process.js');

const execute = promisify(execFile);
const library = path.join(__dirname, '..', '..', 'lib', 'host.js');

const HOUR = 3_600_000;
/** So many names that the file is remade when no process has it open. */
const MANY = 4200;
const LONG = 'long'.repeat(100);

const program = `
  const { openBucket } = require(${JSON.stringify(library)});
  const [directory, ...calls] = process.argv.slice(1);
  const { locks } = openBucket('bucket', { directory });
  Promise.all(
    calls.map(async (call) => {
      const [name, keep] = JSON.parse(call);
      return (await locks.once(name, { keep: keep ?? Infinity }, () => {})).ran;
    }),
  ).then((all) => console.log(JSON.stringify(all)));`;

/** Calls `once` in a new process. @returns {Promise<boolean[]>} which calls ran their callback */
async function once(directory, calls) {
  const words = calls.map((call) => JSON.stringify(call));
  const args = ['-e', program, directory, ...words];
  return JSON.parse((await execute(process.execPath, args, { maxBuffer: 2 ** 24 })).stdout);
}

/** Changes the boot that the file says it was made in. */
function changeBoot(directory) {
  const bucket = path.join(directory, fs.readdirSync(directory)[0], 'bucket');
  const file = fs.openSync(bucket, 'r+');
  fs.writeSync(file, Buffer.from('another '), 0, 8, 16);
  fs.closeSync(file);
}

describe('marks of the host scope', { skip: lacksHost }, () => {
  it('outlive all processes, and a restart of the machine if they have no end', async (t) => {
    const directory = freshDirectory(t);
    const calls = [['a', HOUR], ['b'], [LONG]];
    assert.deepEqual(await once(directory, calls), [true, true, true]);
    assert.deepEqual(await once(directory, calls), [false, false, false]);
    changeBoot(directory);
    assert.deepEqual(await once(directory, calls), [true, false, false]);
    assert.deepEqual(await once(directory, calls), [false, false, false]);
  });

  it('are kept when a large file is made smaller', async (t) => {
    const directory = freshDirectory(t);
    const calls = Array.from({ length: MANY }, (_, i) => [`${i}`, HOUR]);
    assert.ok((await once(directory, calls)).every((ran) => ran));
    assert.ok((await once(directory, calls)).every((ran) => !ran));
  });
});
