// slow: 3

'use strict';

/** `web-locks` in a script of package.json. */

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const { writeFileSync } = require('node:fs');
const path = require('node:path');
const { it } = require('node:test');
const { freshBucket, freshDirectory } = require('../helpers/process.js');
const { Command, PROGRAM, skip } = require('./command.js');

const lacksNpm = spawnSync('npm', ['--version']).error ? 'npm is not installed' : false;

it('a signal for npm ends the command of `exec web-locks`', {
  skip: skip || lacksNpm,
}, async (t) => {
  const { locks, where } = freshBucket(t);
  const cwd = freshDirectory(t);
  const at = `--directory ${where.directory} --bucket ${where.bucket}`;
  const job = `exec ${process.execPath} ${PROGRAM} run a ${at} -c 'echo runs; exec sleep 1000'`;
  const manifest = { private: true, scripts: { job } };
  writeFileSync(path.join(cwd, 'package.json'), JSON.stringify(manifest));
  const command = new Command(t, 'npm', ['run', 'job'], { cwd });
  await command.says(/^runs/m);
  command.kill('SIGTERM');
  // Without `exec` the lock would still be held.
  await locks.request('a', () => {});
  const { code } = await command.ended;
  assert.notEqual(code, 0);
});
