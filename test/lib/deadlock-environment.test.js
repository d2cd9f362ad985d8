// slow: 2

'use strict';

/** WEB_LOCKS_DEADLOCK=reject in the scopes that cannot detect deadlocks. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');
const { lacksHost } = require('../helpers/host-scope.js');

const pathOf = (file) => JSON.stringify(require.resolve(file));

/** @returns the outcomes of the first calls with a bucket, and the warnings */
function outcomesOf(bucket) {
  const program = `
    const bucket = ${bucket};
    const { locks } = bucket;
    const { locks: ofTheProcess } = require(${pathOf('../../lib/index.js')});
    const calls = [
      () => locks.request('a', () => 'held'),
      async () => (await locks.acquire('a', { ifAvailable: true })).release(),
      () => locks.requestAll(['a', 'b'], () => 'held'),
      async () => locks.tryAcquireSync('d')?.release(),
      () => locks.request('c', () => ofTheProcess.request('c', () => 'inside')),
    ];
    (async () => {
      const outcomes = [];
      process.on('warning', ({ code }) => outcomes.push(code));
      for (const call of calls) outcomes.push(await call().then(String, ({ name }) => name));
      await new Promise(setImmediate);
      console.log(outcomes.join());
      await bucket.close();
    })();`;
  const env = { ...process.env, WEB_LOCKS_DEADLOCK: 'reject' };
  const options = { env, encoding: 'utf8' };
  return execFileSync(process.execPath, ['--no-warnings', '-e', program], options)
    .trim()
    .split(',');
}

describe('with WEB_LOCKS_DEADLOCK=reject', () => {
  const opens = {
    process: `require(${pathOf('../../lib/index.js')}).openBucket('b')`,
    memory: `require(${pathOf('../conformance/memory.js')}).openBucket('b')`,
    host: `require(${pathOf('../../lib/host.js')}).openBucket('b', DIRECTORY)`,
  };
  for (const [scope, open] of Object.entries(opens)) {
    const warns = scope === 'process' ? 'does not warn' : 'warns once';
    it(`the scope ${scope} takes requests, and ${warns}`, {
      skip: scope === 'host' && lacksHost,
    }, (t) => {
      const directory = JSON.stringify({ directory: freshDirectory(t) });
      const outcomes = outcomesOf(open.replace('DIRECTORY', directory));
      const warnings = outcomes.filter((outcome) => outcome === 'WEB_LOCKS_NO_DEADLOCKS');
      assert.equal(warnings.length, scope === 'process' ? 0 : 1);
      assert.deepEqual(
        ['held', 'inside'].map((outcome) => outcomes.includes(outcome)),
        [true, true],
      );
    });
  }
});
