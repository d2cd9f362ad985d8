'use strict';

/** The name of a file's lock for all processes: the real path of its lock file. */

const path = require('node:path');

/** @typedef {import('./options.js').Options} Options */

/**
 * @typedef {object} Place
 * @property {string} file
 * @property {string} name of its lock: the path of the lock file that is not made
 */

/**
 * Yields each path whose real path it needs, and is given that.
 * @param {any} file
 * @param {Options} options
 * @param {boolean} needsDirectory whether the directory of the lock file has to be there
 * @returns {Generator<any, Place, string>}
 */
function* resolving(file, { realpath, lockfilePath }, needsDirectory) {
  const found = realpath ? yield file : path.resolve(file);
  if (realpath && !lockfilePath) return { file: found, name: `${found}.lock` };
  const name = lockfilePath ? path.resolve(lockfilePath) : `${found}.lock`;
  try {
    const directory = yield path.dirname(name);
    return { file: found, name: path.join(directory, path.basename(name)) };
  } catch (error) {
    // Without the directory nobody has locked it.
    if (needsDirectory || /** @type {any} */ (error)?.code !== 'ENOENT') throw error;
    return { file: found, name };
  }
}

/**
 * @param {any} file
 * @param {Options} options
 * @param {boolean} needsDirectory
 * @returns {Promise<Place>}
 */
async function placeOf(file, options, needsDirectory) {
  const { fs } = options;
  const real = (/** @type {any} */ of) =>
    new Promise((resolve, reject) => {
      fs.realpath(of, (/** @type {unknown} */ error, /** @type {string} */ resolved) =>
        error ? reject(error) : resolve(resolved),
      );
    });
  const steps = resolving(file, options, needsDirectory);
  let step = steps.next();
  while (!step.done) {
    let resolved;
    try {
      resolved = await real(step.value);
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(resolved);
  }
  return step.value;
}

/**
 * @param {any} file
 * @param {Options} options
 * @param {boolean} needsDirectory
 * @returns {Place}
 */
function placeOfSync(file, options, needsDirectory) {
  const steps = resolving(file, options, needsDirectory);
  let step = steps.next();
  while (!step.done) {
    let resolved;
    try {
      resolved = options.fs.realpathSync(step.value);
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(resolved);
  }
  return step.value;
}

module.exports = { placeOf, placeOfSync };
