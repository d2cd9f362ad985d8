'use strict';

/** Finds the name of a file's lock: the real path that proper-lockfile gives to its lock file. */

const path = require('node:path');

/** @typedef {import('./options.js').Options} Options */

/** @typedef {{ file: string, name: string }} Place a file and the name of its lock */

/**
 * Finds the place of a file for `placeOf` and for `placeOfSync`. It yields each path whose real
 * path it needs, and the caller passes the real path to `next`.
 * @param {any} file @param {Options} options
 * @param {boolean} needsDirectory whether the directory of the lock file must exist
 * @returns {Generator<any, Place, string>}
 */
function* resolveInSteps(file, { realpath, lockfilePath }, needsDirectory) {
  const found = realpath ? yield file : path.resolve(file);
  if (realpath && !lockfilePath) return { file: found, name: `${found}.lock` };
  const name = lockfilePath ? path.resolve(lockfilePath) : `${found}.lock`;
  try {
    const directory = yield path.dirname(name);
    return { file: found, name: path.join(directory, path.basename(name)) };
  } catch (error) {
    // If the directory of the lock file does not exist, nobody can hold the lock.
    if (needsDirectory || /** @type {any} */ (error)?.code !== 'ENOENT') throw error;
    return { file: found, name };
  }
}

/** @param {any} file @param {Options} options @param {boolean} needsDirectory */
async function placeOf(file, options, needsDirectory) {
  const { fs } = options;
  const real = (/** @type {any} */ of) =>
    new Promise((resolve, reject) => {
      fs.realpath(of, (/** @type {unknown} */ error, /** @type {string} */ resolved) =>
        error ? reject(error) : resolve(resolved),
      );
    });
  const steps = resolveInSteps(file, options, needsDirectory);
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

/** @param {any} file @param {Options} options @param {boolean} needsDirectory */
function placeOfSync(file, options, needsDirectory) {
  const steps = resolveInSteps(file, options, needsDirectory);
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
