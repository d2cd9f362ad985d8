// slow: 3

'use strict';

/** The name of a program, which stands for a missing label. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { pathToFileURL } = require('node:url');
const { root } = require('../helpers/root.js');

const MODULE = require.resolve('../../lib/platform/program.js');
const SCRIPT = `console.log(require(${JSON.stringify(MODULE)}).programName());`;
const IMPORT = `import program from ${JSON.stringify(pathToFileURL(MODULE).href)};`;
const FILES = {
  'import.js': SCRIPT,
  'worker.js': SCRIPT,
  'import.mjs': `${IMPORT} console.log(program.programName());`,
  'before.mjs': `${IMPORT} program.programName();`,
  'threads.js': "new (require('node:worker_threads').Worker)(require.resolve('./worker.js'));",
  'changed.js': `process.argv = null; ${SCRIPT}`,
  'later.js': `require(${JSON.stringify(MODULE)}); process.argv.splice(0, 2); ${SCRIPT}`,
};

describe('the name of a program', () => {
  let cwd;
  before(() => {
    cwd = mkdtempSync(path.join(root, 'web-locks-test-'));
    for (const [name, text] of Object.entries(FILES)) writeFileSync(path.join(cwd, name), text);
  });
  after(() => rmSync(cwd, { recursive: true }));

  for (const [what, args, expected] of [
    ['a script', ['import.js', 'x'], 'import.js'],
    ['a script without its extension', ['import'], 'import'],
    ['an ES module', ['import.mjs'], 'import.mjs'],
    ['a script behind --import', ['--import', './before.mjs', 'import.js'], 'import.js'],
    ['code with an argument', ['-e', SCRIPT, 'x'], 'node'],
    ['code behind an option', ['--input-type=commonjs', '--eval', SCRIPT, 'x'], 'node'],
    ['stdin', ['-', 'x'], 'node'],
    ['a worker', ['threads.js'], 'worker.js'],
    ['a program that changes its arguments later', ['later.js', 'secret'], 'later.js'],
    ['a program without arguments', ['changed.js'], 'node'],
  ]) {
    it(`of ${what} is ${expected}`, () => {
      const stdout = execFileSync(process.execPath, args, { cwd, encoding: 'utf8', input: SCRIPT });
      assert.equal(stdout, `${expected}\n`);
    });
  }
});
