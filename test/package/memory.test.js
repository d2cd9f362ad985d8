// slow: 20; long

'use strict';

const assert = require('node:assert/strict');
const { execFile, spawnSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');

const entry = JSON.stringify(require.resolve('../../lib/index.js'));
const canLimit = process.platform === 'linux' && !spawnSync('prlimit', ['--version']).error;

describe('out of memory', () => {
  it('rejects with a clear error, and the lock manager works on', { skip: !canLimit }, async () => {
    // The process may grow by 128 MB, but the name needs 512 MB.
    const program = `
      const { execFileSync } = require('node:child_process');
      const { readFileSync } = require('node:fs');
      const { locks } = require(${entry});
      const name = Buffer.alloc(2 ** 28, 'x').toString('latin1');
      const status = readFileSync('/proc/self/status');
      const size = Number(/^VmSize:\\s+(\\d+) kB/m.exec(status)[1]) * 1024;
      execFileSync('prlimit', ['--pid', process.pid, '--as=' + (size + 2 ** 27)]);
      locks.request(name, () => console.log('granted'))
        .catch(({ name, code, message }) => console.log(name, code, message.length < 200))
        .then(() => locks.request('short', () => console.log('works on')))
        .then(() => locks.query())
        .then(({ held, pending }) => console.log(held.length, pending.length));
    `;
    const { stdout } = await promisify(execFile)(process.execPath, ['-e', program]);
    assert.equal(stdout, 'RangeError ERR_WEB_LOCKS_NO_MEMORY true\nworks on\n0 0\n');
  });
});
