'use strict';

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { cpSync, readFileSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { it } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');

it('`npm version` names the unreleased part of the changelog by version and date', (t) => {
  const folder = freshDirectory(t);
  const script = path.join('scripts', 'changelog.js');
  cpSync(path.join(__dirname, '..', '..', script), path.join(folder, script));
  const file = path.join(folder, 'CHANGELOG.md');
  writeFileSync(file, '# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n');
  const env = { ...process.env, npm_package_version: '1.2.3' };
  execFileSync(process.execPath, [path.join(folder, script)], { env });
  const released =
    /## \[Unreleased\]\n\n## \[1\.2\.3\] - \d{4}-\d\d-\d\d\n\n### Added\n\n- A thing\./;
  assert.match(readFileSync(file, 'utf8'), released);
});
