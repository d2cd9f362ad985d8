/**
 * Reports what this machine or this Node.js lacks, and so cannot be measured. Any other error ends
 * the bench.
 */

class Missing extends Error {}

const CODES = ['MODULE_NOT_FOUND', 'ERR_UNKNOWN_BUILTIN_MODULE'];

/** Requires a module that may be missing. */
function need(id) {
  try {
    return require(id);
  } catch (error) {
    const [what] = error.message.split('\n');
    // The module itself may exist, but not one that it requires.
    if (CODES.includes(error.code) && what.includes(id)) throw new Missing(what);
    throw error;
  }
}

module.exports = { Missing, need };
