'use strict';

/**
 * Finds the native binary: the one named in the environment; one that was built here; the one that
 * the package brings for the platform.
 */

const { Buffer } = require('node:buffer');
const fs = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');
const process = require('node:process');
const { plainError } = require('../platform/errors.js');

/**
 * The number of what JavaScript and the addon agree about, as src/binding/calls.h has it: raise
 * both when a function, what it takes or answers, or what a number means changes.
 */
const AGREEMENT = 9;

const BUILD =
  'with a C and C++ compiler, make and Python installed, run: ' +
  'npm install --no-save node-addon-api node-gyp && ' +
  'npx node-gyp rebuild --directory=node_modules/web-locks/src ' +
  '(in a clone of web-locks itself: npm install)';

/** Where a binary can be, from the root of the package; what was built here comes first. */
const BUILT = ['build/Release', 'build/Debug', 'src/build/Release'];

/**
 * @param {string} place
 * @returns {any} the exports of the binary there
 * @throws {Error} also where none can be there
 */
function requireFrom(place) {
  // Bundlers look for literal paths, and forgive those that lead nowhere inside of `try`.
  try {
    switch (place) {
      case 'build/Release':
        return require('../../build/Release/web_locks.node');
      case 'build/Debug':
        return require('../../build/Debug/web_locks.node');
      case 'src/build/Release':
        return require('../../src/build/Release/web_locks.node');
      case 'prebuilds/linux-x64':
        return require('../../prebuilds/linux-x64/web_locks.node');
      case 'prebuilds/linux-x64-musl':
        return require('../../prebuilds/linux-x64-musl/web_locks.node');
      case 'prebuilds/linux-arm64':
        return require('../../prebuilds/linux-arm64/web_locks.node');
      case 'prebuilds/linux-arm64-musl':
        return require('../../prebuilds/linux-arm64-musl/web_locks.node');
      case 'prebuilds/darwin-x64':
        return require('../../prebuilds/darwin-x64/web_locks.node');
      case 'prebuilds/darwin-arm64':
        return require('../../prebuilds/darwin-arm64/web_locks.node');
      case 'prebuilds/win32-x64':
        return require('../../prebuilds/win32-x64/web_locks.node');
      case 'prebuilds/win32-arm64':
        return require('../../prebuilds/win32-arm64/web_locks.node');
      default:
        throw plainError('the package has no binary for this platform', 'MODULE_NOT_FOUND');
    }
  } catch (error) {
    throw error instanceof Error ? error : plainError(String(error), 'ERR_WEB_LOCKS_NOT_LOADED');
  }
}

/** @returns {string} the place of the binary that the package brings for this process */
function prebuild() {
  const libc = process.platform === 'linux' && usesMusl() ? '-musl' : '';
  return `prebuilds/${process.platform}-${process.arch}${libc}`;
}

/**
 * Asks the process itself: what the distribution's files say may be about another libc. The dynamic
 * loader that its program names is of that libc. A diagnostic report says it too, where the program
 * names none or must not be read, but takes some milliseconds.
 */
function usesMusl() {
  const loader = /\/ld-(musl|linux)-[-\w]+\.so\.\d\0/.exec(startOf(process.execPath));
  if (loader) return loader[1] === 'musl';
  const report = /** @type {any} */ (process.report);
  try {
    const { excludeNetwork } = report;
    report.excludeNetwork = true;
    const { header } = report.getReport();
    report.excludeNetwork = excludeNetwork;
    return header.glibcVersionRuntime === undefined;
  } catch {
    return false; // Deno can forbid it; its programs are for glibc.
  }
}

/** @param {string} program @returns {string} its headers, and the name of its loader behind them */
function startOf(program) {
  const bytes = Buffer.alloc(4096);
  try {
    const file = fs.openSync(program, 'r');
    fs.readSync(file, bytes);
    fs.closeSync(file);
  } catch {}
  return bytes.toString('latin1');
}

/** @param {string} place */
const fileIn = (place) => path.join(__dirname, '..', '..', place, 'web_locks.node');

/** @returns {Generator<[file: string, load: () => any]>} in the order in which they are tried */
function* candidates() {
  const named = process.env.WEB_LOCKS_BINARY;
  if (named) {
    // That one and no other, and the same for the threads that inherit the environment from here,
    // wherever the process has gone meanwhile.
    const file = path.resolve(named);
    if (file !== named) process.env.WEB_LOCKS_BINARY = file;
    yield [file, () => createRequire(__filename)(file)];
    return;
  }
  for (const place of BUILT) yield [fileIn(place), () => requireFrom(place)];
  const place = prebuild();
  yield [fileIn(place), () => requireFrom(place)];
}

/**
 * @param {string} file
 * @returns {Error} the binary there is not of this JavaScript: a build that was left behind, or one
 * of another version that the environment names
 */
function otherVersionError(file) {
  const remedy = process.env.WEB_LOCKS_BINARY
    ? 'WEB_LOCKS_BINARY names it: unset that variable, or name a binary of this version.'
    : `Remove it if the package brings one for this platform. To build it again, ${BUILD}`;
  return plainError(
    `web-locks: the native binary ${file} was built from another version of web-locks than the ` +
      `JavaScript in ${path.join(__dirname, '..')}. ${remedy}`,
    'ERR_WEB_LOCKS_INCOMPATIBLE',
  );
}

/**
 * @returns {any} the exports of the binary
 * @throws {Error} `ERR_WEB_LOCKS_INCOMPATIBLE`: the binary that was found is of another version
 * @throws {Error} `ERR_WEB_LOCKS_NOT_LOADED`: what was tried, for which platform, and what to do
 */
function loadBinary() {
  const attempts = [];
  for (const [file, load] of candidates()) {
    try {
      const exports = load();
      if (exports.AGREEMENT !== AGREEMENT) throw otherVersionError(file);
      return exports;
    } catch (error) {
      const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
      if (code === 'ERR_WEB_LOCKS_INCOMPATIBLE') throw error;
      if (code === 'ERR_DLOPEN_DISABLED') {
        throw plainError(
          'web-locks: this process may not load native addons. Start Node.js with --allow-addons ' +
            'if it uses the permission model, and without --no-addons.',
          'ERR_WEB_LOCKS_NOT_LOADED',
          { cause: error },
        );
      }
      const missing = code === 'MODULE_NOT_FOUND';
      attempts.push({ file, error, why: missing ? 'not there' : message.split('\n')[0] });
    }
  }
  const tried = attempts.map(({ file, why }) => `\n  ${file}: ${why}`).join('');
  throw plainError(
    `web-locks: no native binary could be loaded for ${process.platform}-${process.arch}, ` +
      `Node.js ${process.version} (Node-API ${process.versions.napi}). Tried:${tried}\n` +
      `To build it, ${BUILD}`,
    'ERR_WEB_LOCKS_NOT_LOADED',
    { cause: attempts.at(-1)?.error },
  );
}

module.exports = { loadBinary };
