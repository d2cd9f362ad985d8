// slow: 5

'use strict';

/** Reads the exported history of a round like Knossos and the examples of porcupine. */

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');
const { torture } = require('./torture.js');

const LINE =
  /^{:process (\d+), :type :(invoke|ok|info), :f :(\w+), :key "(.*)", :value (nil|"(.*)")}$/;

function operationsIn(text) {
  const lines = text.trimEnd().split('\n');
  return lines.map((line) => {
    const [, process, type, f, key, , value] = LINE.exec(line) ?? assert.fail(line);
    return { process, type, f, key, value };
  });
}

test('each operation of an exported history ends, and locks and sets are possible', async (t) => {
  const history = path.join(freshDirectory(t), 'history.edn');
  const { faults } = await torture({
    ...{
      scope: 'memory',
      seed: '20261127',
      rounds: 1,
      seconds: 3,
      faults: ['stop', 'away'],
      history,
    },
  });
  assert.deepEqual(faults, []);
  const operations = operationsIn(fs.readFileSync(history, 'utf8'));

  /** The operation of each process that has begun. */
  const open = new Map();
  const owners = new Map();
  const appended = new Map();
  const count = { acquire: 0, release: 0, append: 0, get: 0 };
  for (const { process, type, f, key, value } of operations) {
    const begun = open.get(process);
    if (type === 'invoke') {
      assert.equal(begun, undefined, 'a process does one thing at a time');
      open.set(process, { f, key });
      if (f === 'release') owners.delete(key);
      continue;
    }
    assert.deepEqual(begun, { f, key });
    if (type === 'info') continue;
    open.delete(process);
    count[f]++;
    if (f === 'acquire') {
      assert.ok(!owners.has(key), `${key} has two holders`);
      owners.set(key, process);
    }
    if (f === 'append') appended.set(key, [...(appended.get(key) ?? []), value]);
    if (f === 'get') assert.equal(value, appended.get(key).join(''));
  }
  assert.equal(open.size, 0, 'nobody was killed in this round');
  for (const [f, times] of Object.entries(count)) assert.ok(times > 0, `there is no ${f}`);
});
