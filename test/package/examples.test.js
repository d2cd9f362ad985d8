'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');

const run = promisify(execFile);

const expected = {
  'handles.js': 'holds report\nanother one, if it is free: null\nreleased: true\n',
  'timeout.js': 'TimeoutError held by a long document\n',
  'losing.js': 'the first leads\nthe first lost leader\na thief leads\nthe first stops\n',
  'several.js': '{ alice: 50, bob: 150 }\n',
  'mutex.js': '0 1 2 3 4\nrefused: true\n',
  'details.js':
    'held for: nightly run\nwaits: on demand, blocked by: nightly run\n' +
    'ended: report, nightly run\nended: report, on demand\n',
  'sync.js': '200 lines, in pairs: true\n',
  'deadlock.js': 'had both\ncycle: a a b b\n',
};

describe('the examples do what they say', () => {
  for (const [file, output] of Object.entries(expected)) {
    it(file, async () => {
      const script = path.join(__dirname, '..', '..', 'examples', file);
      const { stdout, stderr } = await run(process.execPath, [script]);
      assert.equal(stderr, '');
      assert.equal(stdout, output);
    });
  }
});
