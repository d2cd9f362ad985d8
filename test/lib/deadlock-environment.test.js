// slow: 2

'use strict';

/** WEB_LOCKS_DEADLOCK=reject where deadlocks are not found: one warning. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

/** What the first calls with `locks` end with, and the warnings. */
function outcomes(openLocks) {
  const program = `
    const { bucket } = ${openLocks};
    const { locks } = bucket;
    const calls = [
      () => locks.request('a', () => 'held'),
      async () => (await locks.acquire('a', { ifAvailable: true })).release(),
      () => locks.requestAll(['a', 'b'], () => 'held'),
      async () => locks.tryAcquireSync('d')?.release(),
    ];
    (async () => {
      const names = [];
      process.on('warning', ({ name, code }) => names.push(code ?? name));
      for (const call of calls) names.push(await call().then(String, ({ name }) => name));
      // A request of the process inside of one where deadlocks are not found.
      const process_ = require(${pathOf('../../lib/index.js')}).locks;
      names.push(await locks.request('c', () => process_.request('c', () => 'inside')));
      await new Promise(setImmediate);
      console.log(names.join());
      await bucket.close();
    })();`;
  const env = { ...process.env, WEB_LOCKS_DEADLOCK: 'reject' };
  return execFileSync(process.execPath, ['--no-warnings', '-e', program], {
    env,
    encoding: 'utf8',
  });
}

const pathOf = (file) => JSON.stringify(require.resolve(file));

function isTaken(output, isWarned) {
  const told = output.trim().split(',');
  const warnings = told.filter((name) => name === 'WEB_LOCKS_NO_DEADLOCKS');
  assert.equal(warnings.length, isWarned ? 1 : 0, output);
  assert.deepEqual([told.indexOf('held') >= 0, told.includes('inside')], [true, true], output);
}

describe('with WEB_LOCKS_DEADLOCK=reject', () => {
  it('the host scope takes requests, and warns once', { skip }, (t) => {
    const directory = JSON.stringify({ directory: freshDirectory(t) });
    const open = `require(${pathOf('../../lib/host.js')}).openBucket('b', ${directory})`;
    isTaken(outcomes(`{ bucket: ${open} }`), true);
  });

  it('a cluster takes requests, and warns once', () => {
    const open = `require(${pathOf('../conformance/memory.js')}).openBucket('b')`;
    isTaken(outcomes(`{ bucket: ${open} }`), true);
  });

  it('the process scope takes them', () => {
    const open = `require(${pathOf('../../lib/index.js')}).openBucket('b')`;
    isTaken(outcomes(`{ bucket: ${open} }`), false);
  });
});
