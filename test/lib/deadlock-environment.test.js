'use strict';

/** WEB_LOCKS_DEADLOCK=reject where deadlocks are not found: as with the option. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

/** What the first calls with `locks` end with. */
function outcomes(openLocks) {
  const program = `
    const { bucket } = ${openLocks};
    const { locks } = bucket;
    const calls = [
      () => locks.request('a', () => 'held'),
      () => locks.acquire('a', { ifAvailable: true }),
      () => locks.requestAll(['a', 'b'], () => 'held'),
      async () => locks.tryAcquireSync('a'),
    ];
    (async () => {
      const names = [];
      for (const call of calls) names.push(await call().then(String, ({ name }) => name));
      console.log(names.join());
      await bucket.close();
    })();`;
  const env = { ...process.env, WEB_LOCKS_DEADLOCK: 'reject' };
  return execFileSync(process.execPath, ['-e', program], { env, encoding: 'utf8' }).trim();
}

const refused = Array(4).fill('NotSupportedError').join();
const pathOf = (file) => JSON.stringify(require.resolve(file));

describe('with WEB_LOCKS_DEADLOCK=reject', () => {
  it('the host scope refuses requests', { skip }, (t) => {
    const directory = JSON.stringify({ directory: freshDirectory(t) });
    const open = `require(${pathOf('../../lib/host.js')}).openBucket('b', ${directory})`;
    assert.equal(outcomes(`{ bucket: ${open} }`), refused);
  });

  it('a cluster refuses requests', () => {
    const open = `require(${pathOf('../conformance/memory.js')}).openBucket('b')`;
    assert.equal(outcomes(`{ bucket: ${open} }`), refused);
  });

  it('the process scope takes them', () => {
    const open = `require(${pathOf('../../lib/index.js')}).openBucket('b')`;
    const [first, , several] = outcomes(`{ bucket: ${open} }`).split(',');
    assert.deepEqual([first, several], ['held', 'held']);
  });
});
