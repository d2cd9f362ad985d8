'use strict';

/** `web-locks report`: makes a page of a profile. */

const profile = require('../profile/report.js');
const { Failure, STATUS, say } = require('./status.js');

/** @typedef {import('./status.js').Ending} Ending */
/** @typedef {import('./arguments.js').Request} Request */

/**
 * @param {Request} request
 * @returns {Promise<Ending>}
 * @throws {Failure} if the file cannot be read, or is not a profile, or the page cannot be written
 */
async function report({ name: file = '', values }) {
  const output = values.output ?? `${file.replace(/\.json$/, '')}.html`;
  const { requests, dropped } = make(file, output);
  const lost = dropped > 0 ? `, ${dropped} more were dropped` : '';
  say(`${output}: ${requests} ${requests === 1 ? 'request' : 'requests'}${lost}`);
  return { status: STATUS.ok };
}

/**
 * @param {string} file
 * @param {string} output
 */
function make(file, output) {
  try {
    return profile.report(file, output);
  } catch (error) {
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
    // Others are errors of this program.
    if (code !== undefined || error instanceof profile.NotAProfile) {
      throw new Failure(STATUS.file, message);
    }
    throw error;
  }
}

module.exports = { report };
