'use strict';

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { it } = require('node:test');

it('`npm version` gives what is unreleased in the changelog the version and the date', (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'web-locks-changelog-'));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(path.join(folder, 'scripts'));
  const script = path.join(folder, 'scripts', 'changelog.js');
  copyFileSync(path.join(__dirname, '..', '..', 'scripts', 'changelog.js'), script);
  const file = path.join(folder, 'CHANGELOG.md');
  writeFileSync(file, '# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n');
  const env = { ...process.env, npm_package_version: '1.2.3' };
  execFileSync(process.execPath, [script], { env });
  assert.match(
    readFileSync(file, 'utf8'),
    /## \[Unreleased\]\n\n## \[1\.2\.3\] - \d{4}-\d\d-\d\d\n\n### Added\n\n- A thing\./,
  );
});
