'use strict';

/**
 * Loads the native binary. If WEB_LOCKS_BINARY is set, it names the file. Otherwise a local build
 * is tried first, and then the prebuilt binary that the package contains for the platform.
 */

const { Buffer } = require('node:buffer');
const fs = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');
const process = require('node:process');
const { plainError } = require('../platform/errors.js');

/**
 * The version of the interface between JavaScript and the addon. It must equal the version in
 * src/binding/calls.h. Increase both whenever a function, its arguments or results, or the meaning
 * of a number changes.
 */
const AGREEMENT = 16;

const BUILD =
  'with a C and C++ compiler, make and Python installed, run: ' +
  'npm install --no-save node-addon-api node-gyp && ' +
  'npx node-gyp rebuild --directory=node_modules/web-locks/src ' +
  '(in a clone of web-locks itself: npm install)';

/** Paths relative to the root of the package. */
const BUILT = ['build/Release', 'build/Debug', 'src/build/Release'];

/** @param {string} place @returns {any} @throws {Error} if the binary is missing or not loadable */
function requireFrom(place) {
  // Bundlers look for literal paths; inside `try` they accept paths that do not exist.
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

function prebuildPlace() {
  const libc = process.platform === 'linux' && usesMusl() ? '-musl' : '';
  return `prebuilds/${process.platform}-${process.arch}${libc}`;
}

/**
 * Inspects the process itself, because files of the distribution may describe another libc. Most
 * executables name the dynamic loader of their libc. For the others, a diagnostic report shows the
 * libc, but takes some milliseconds.
 */
function usesMusl() {
  const loader = /\/ld-(musl|linux)-[-\w]+\.so\.\d\0/.exec(firstBytesOf(process.execPath));
  if (loader) return loader[1] === 'musl';
  const report = /** @type {any} */ (process.report);
  try {
    const { excludeNetwork } = report;
    report.excludeNetwork = true;
    const { header } = report.getReport();
    report.excludeNetwork = excludeNetwork;
    return header.glibcVersionRuntime === undefined;
  } catch {
    return false; // Deno can forbid reports; its programs use glibc.
  }
}

/** The headers of an executable come first, with the name of its loader. @param {string} program */
function firstBytesOf(program) {
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

/**
 * If WEB_LOCKS_BINARY is set, its file is the only one, and the variable's path becomes absolute.
 * @returns {Generator<[file: string, load: () => any]>}
 */
function* candidates() {
  const named = process.env.WEB_LOCKS_BINARY;
  if (named) {
    // If the environment names a binary, no other is tried. Threads that start later inherit the
    // environment, so it gets the absolute path: the working directory may have changed by then.
    const file = path.resolve(named);
    if (file !== named) process.env.WEB_LOCKS_BINARY = file;
    yield [file, () => createRequire(__filename)(file)];
    return;
  }
  for (const place of BUILT) yield [fileIn(place), () => requireFrom(place)];
  const place = prebuildPlace();
  yield [fileIn(place), () => requireFrom(place)];
}

/** @param {string} file */
function otherVersionError(file) {
  const remedy = process.env.WEB_LOCKS_BINARY
    ? 'WEB_LOCKS_BINARY names this file: unset the variable, or name a binary of this version.'
    : 'If the package includes a binary for this platform, delete this file. To rebuild the ' +
      `file instead, ${BUILD}`;
  return plainError(
    `web-locks: the native binary ${file} and the JavaScript in ${path.join(__dirname, '..')} ` +
      `belong to different versions of web-locks. ${remedy}`,
    'ERR_WEB_LOCKS_INCOMPATIBLE',
  );
}

/**
 * @returns {any} the exports of the binary
 * @throws {Error} `ERR_WEB_LOCKS_INCOMPATIBLE`: the binary belongs to another version;
 *   `ERR_WEB_LOCKS_NOT_LOADED`: no binary could be loaded
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
          'web-locks: this process is not allowed to load native addons. Start Node.js without ' +
            '--no-addons and, if it uses the permission model, with --allow-addons.',
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
