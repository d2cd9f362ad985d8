'use strict';

/**
 * Builds the addon. npm runs it as `postprepare` after `npm install` in a clone, also in the clone
 * that it makes of a dependency from git, and as `prepack` before `npm pack`. It never runs for
 * users who install the package from the registry or a tarball, which contain a binary. A script
 * `prepare` would not run for them either, but npm 11 warns about it when it installs a tarball. If
 * a package is packed without the binaries of all platforms (`npm run prebuilds`), it gets that of
 * this platform, at the path of one that was built from source.
 */

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..');
const packed = path.join(root, 'src', 'build');
const release = fs.existsSync(path.join(root, 'prebuilds', 'SHA256SUMS'));
const built = path.join(root, 'build', 'Release', 'web_locks.node');

/**
 * Package managers put node-gyp into the path of their scripts. Its output goes to stderr, because
 * stdout belongs to npm.
 */
function build() {
  const options = { cwd: root, stdio: ['ignore', 2, 2], shell: true };
  const { status } = spawnSync('node-gyp configure build', options);
  if (status !== 0) process.exit(status ?? 1);
}

fs.rmSync(packed, { recursive: true, force: true });
// A release contains all binaries, so packing builds nothing: others may use build/ meanwhile.
const packs = process.env.npm_lifecycle_event === 'prepack';
const builds = fs.existsSync(path.join(root, 'node_modules', 'node-addon-api')) && !packs;
if (!release || builds) build();
if (!release) {
  fs.mkdirSync(path.join(packed, 'Release'), { recursive: true });
  fs.copyFileSync(built, path.join(packed, 'Release', 'web_locks.node'));
}
