'use strict';

/** The error where there is no host scope, with an addon compiled as on such systems. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { it } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');
const { lacksHost } = require('../helpers/host-scope.js');

const root = path.join(__dirname, '..', '..');
const objects = path.join(root, 'build/Release/obj.target');
const parts = ['core/src/core/all.o', 'web_locks/src/binding/all.o'].map((part) =>
  path.join(objects, part),
);
const skip =
  lacksHost ||
  (process.platform !== 'linux' && 'it is linked as Linux does') ||
  (process.env.WEB_LOCKS_BINARY !== undefined && 'another binary is tested') ||
  (!parts.every((part) => fs.existsSync(part)) && 'it was not built here');

it('an error where there is no host scope names the scopes of a process and of a cluster', {
  skip,
}, (t) => {
  const directory = freshDirectory(t);
  const other = path.join(directory, 'other.o');
  const binary = path.join(directory, 'web_locks.node');
  const source = path.join(root, 'src/host/port/none/unavailable.c');
  execFileSync('gcc', ['-std=c11', '-fPIC', '-fvisibility=hidden', '-c', source, '-o', other]);
  execFileSync('g++', ['-shared', ...parts, other, '-o', binary]);
  const program = `
    const { openBucket } = require(${JSON.stringify(path.join(root, 'lib/host.js'))});
    const { locks } = require(${JSON.stringify(path.join(root, 'lib/index.js'))});
    openBucket('a').locks.request('a', () => {}).catch(async ({ code, message }) => {
      console.log(code + ' ' + message);
      console.log(await locks.request('a', () => 'the locks of the process work'));
    });`;
  const env = { ...process.env, WEB_LOCKS_BINARY: binary };
  const said = execFileSync(process.execPath, ['-e', program], { env, encoding: 'utf8' });
  assert.match(said, /^ERR_WEB_LOCKS_SCOPE_UNSUPPORTED .*host scope is not available on /);
  for (const part of ["require('web-locks')", 'web-locks/postgres', 'web-locks/redis'])
    assert.ok(said.includes(part), said);
  assert.match(said, /\nthe locks of the process work\n$/);
});
