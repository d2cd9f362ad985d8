'use strict';

/** `web-locks report`: makes a page from one or several profiles. */

const fs = require('node:fs');
const profile = require('../profile/report.js');
const { Failure, STATUS, say } = require('./status.js');

/** @param {import('./arguments.js').ParsedCommand} request @throws {Failure} for unusable files */
async function report({ name: file = '', more = [], values }) {
  const output = values.output ?? `${file.replace(/\.json$/, '')}.html`;
  const { requests, dropped } = makeReport([file, ...more], output);
  const lost = dropped > 0 ? `, and ${dropped} more were dropped` : '';
  say(`${output}: ${requests} ${requests === 1 ? 'request' : 'requests'}${lost}`);
  return { status: STATUS.ok };
}

/** @param {string[]} files @param {string} output */
function makeReport(files, output) {
  if (files.some((file) => isSame(file, output))) {
    throw new Failure(
      STATUS.usage,
      `--output is ${output}, which is the profile itself; expected another file.`,
    );
  }
  try {
    return profile.report(files, output);
  } catch (error) {
    if (error instanceof profile.ReportError) throw new Failure(STATUS.file, error.message);
    throw error;
  }
}

/** @param {string} one @param {string} other */
function isSame(one, other) {
  try {
    const [a, b] = [fs.statSync(one), fs.statSync(other)];
    return a.isFile() && a.ino === b.ino && a.dev === b.dev;
  } catch {
    return false; // The output usually does not exist yet; a missing profile is reported later.
  }
}

module.exports = { report };
