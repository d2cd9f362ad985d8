'use strict';

/**
 * Tests the package in bundles, as docs/INSTALL.md describes: `npm run test:bundlers`. It needs
 * npm's registry. The package's tests do the same with esbuild (tarball.js).
 */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { promisify } = require('node:util');
const { stopAll } = require('../cluster/servers.js');
const { BUNDLERS, bundleAndRun, pack, printed, startServers } = require('./bundled.js');

const execute = promisify(execFile);
/** The folder is outside the repository, so that nothing is found in a parent folder. */
const work = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-bundlers-')));
let tarball = '';
let env = {};

before(async () => {
  tarball = await pack(work);
  env = await startServers();
});

after(async () => {
  await stopAll();
  fs.rmSync(work, { recursive: true, force: true });
});

describe('every entry of the package works in a bundle of', () => {
  for (const name of Object.keys(BUNDLERS)) {
    it(name, async () => {
      const directory = path.join(work, name);
      fs.mkdirSync(directory);
      fs.writeFileSync(path.join(directory, 'package.json'), '{ "private": true }');
      await execute('npm', ['install', '--no-audit', '--no-fund', tarball], { cwd: directory });
      for (const lines of await bundleAndRun(name, directory, path.join(work, `${name} runs`), env))
        assert.deepEqual(lines, printed(env));
    });
  }
});
