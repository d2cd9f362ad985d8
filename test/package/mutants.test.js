'use strict';

/** The planted defects (npm run mutants) still fit the sources that they are of. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { faultsOf, loadMutants } = require('../../scripts/mutants/data.js');

describe('the planted defects', () => {
  const mutants = loadMutants();

  it('can all be planted, and name tests that there are', () => {
    const faults = mutants.flatMap((one) => faultsOf(one).map((fault) => `${one.name}: ${fault}`));
    assert.deepEqual(faults, []);
  });

  it('are many, in all languages of the sources', () => {
    const count = (pattern) => mutants.filter(({ file }) => pattern.test(file)).length;
    assert.ok(mutants.length >= 150, `${mutants.length}`);
    for (const kind of [/\.c$/, /\.cc$/, /\.js$/, /\.sql\.js$/, /\.lua\.js$/])
      assert.ok(count(kind) > 0, kind);
  });

  it('are different ones', () => {
    const keys = mutants.map(({ file, before, after }) => [file, before, after].join('\0'));
    assert.equal(new Set(keys).size, mutants.length);
  });

  it('are seen when they prove nothing', () => {
    const good = {
      file: 'scripts/rooms.js',
      before: 'const HOUSES = {',
      after: 'const HOUSES = {...{},',
      why: 'no reason',
      tests: ['test/package/rooms.test.js', 'core:manager_test', 'host:steps_test'],
    };
    assert.deepEqual(faultsOf(good), []);
    const wrong = [
      { file: 'scripts/rooms.c' },
      { before: 'no such text' },
      { before: 'const' },
      { after: good.before },
      { after: 'const HOUSES = {{' },
      { why: '' },
      { tests: [] },
      { tests: ['test/package/room.test.js'] },
      { tests: ['core:manager'] },
    ];
    for (const change of wrong) {
      assert.equal(faultsOf({ ...good, ...change }).length, 1, JSON.stringify(change));
    }
  });
});
