'use strict';

/**
 * Finds what another thread needs to make a client like the user's: the file of the client's class,
 * and options that can be sent to that thread.
 */

const nodeModule = require('node:module');
const { isArrayBufferView, isAnyArrayBuffer } = require('node:util').types;
const { argumentError, describe } = require('../platform/errors.js');

/** The remedy, for messages, if another thread cannot make a client like the user's. */
const INSTEAD =
  "Pass keeper: { module: '/path/of/a/file.js' }: the default export of the file is a function " +
  'that returns such a client (docs/CLUSTER.md, "Keeper").';

/**
 * @param {unknown} value @param {string} name of the option @throws {TypeError} if not cloneable
 */
function requireCloneable(value, name) {
  if (isAnyArrayBuffer(value) || isArrayBufferView(value)) return;
  if (typeof value === 'function' || typeof value === 'symbol' || isInstance(value)) {
    throw argumentError(
      `'keeper' cannot send the client's option '${name}' to its thread: the value is ` +
        `${describe(value)}. ${INSTEAD}`,
    );
  }
  if (typeof value !== 'object' || value === null) return;
  for (const [key, part] of Object.entries(value)) requireCloneable(part, `${name}.${key}`);
}

/** Whether a value is an object, but neither a plain object nor an array. @param {any} value */
function isInstance(value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value);
  // The `Object.prototype` of any realm has the prototype null.
  return prototype !== null && Object.getPrototypeOf(prototype) !== null;
}

/**
 * Returns the client's options that the keeper's connections use.
 * @param {any} options @param {readonly string[]} unused names of options to leave out
 * @throws {TypeError} if an option cannot be sent to another thread
 */
function cloneableOptions(options, unused) {
  const kept = Object.entries(options ?? {}).filter(([name]) => !unused.includes(name));
  for (const [name, value] of kept) requireCloneable(value, name);
  return Object.fromEntries(kept);
}

/**
 * Returns the loaded file whose export, or default export, fits.
 * @param {RegExp} pattern of the file's name @param {(exported: any) => boolean} fits
 */
function findFile(pattern, fits) {
  // This is `require.cache`, which is read in another way because a bundler replaces that name.
  const cache = /** @type {any} */ (nodeModule)._cache ?? {};
  return Object.keys(cache).find((file) => {
    const exported = pattern.test(file) ? cache[file]?.exports : undefined;
    return fits(exported) || fits(exported?.default);
  });
}

/**
 * Returns the loaded file that exports the class of a prototype. If there is none, returns the file
 * of the nearest class that it extends.
 * @param {any} prototype @param {RegExp} pattern of the file's name
 * @throws {TypeError} if there is no such file, as in a bundle
 */
function fileOfClass(prototype, pattern) {
  for (let one = prototype; one; one = Object.getPrototypeOf(one)) {
    // The prototypes are compared, because `constructor` may be that of a mixed-in class.
    const file = findFile(pattern, (exported) => exported?.prototype === one);
    if (file !== undefined) return file;
  }
  throw argumentError(
    `'keeper' cannot find the file from which the client's class was loaded. ${INSTEAD}`,
  );
}

module.exports = { INSTEAD, cloneableOptions, fileOfClass, findFile };
