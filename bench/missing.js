/**
 * What is not there, on this machine or in this Node.js, and so cannot be measured. Anything else
 * that goes wrong ends the bench.
 */

class Missing extends Error {}

const CODES = ['MODULE_NOT_FOUND', 'ERR_UNKNOWN_BUILTIN_MODULE'];

/** `require`, of what may be missing. */
function need(id) {
  try {
    return require(id);
  } catch (error) {
    const [what] = error.message.split('\n');
    // Not where it is there, and what it requires itself is not.
    if (CODES.includes(error.code) && what.includes(id)) throw new Missing(what);
    throw error;
  }
}

module.exports = { Missing, need };
