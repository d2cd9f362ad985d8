'use strict';

/** `web-locks publish`: a command of `web-locks run --publish` sets what its lock publishes. */

const fs = require('node:fs');
const { MOST_BYTES } = require('../extensions/request/publish.js');
const { environment } = require('./environment.js');
const { quoted } = require('./format.js');
const { VARIABLE } = require('./publishing.js');
const { Failure, STATUS } = require('./status.js');

/** @param {import('./arguments.js').ParsedCommand} request */
async function publish({ name: value = '' }) {
  const line = `${toText(value)}\n`;
  const descriptor = descriptorOf(environment);
  try {
    fs.writeFileSync(descriptor, line);
  } catch (error) {
    const { code } = /** @type {NodeJS.ErrnoException} */ (error);
    throw new Failure(STATUS.unavailable, `descriptor ${descriptor} cannot be written (${code}).`);
  }
  return { status: STATUS.ok };
}

/** @param {string} value @returns {string} one line of JSON */
function toText(value) {
  let text;
  try {
    text = JSON.stringify(JSON.parse(value));
  } catch {
    throw new Failure(
      STATUS.usage,
      `the value is ${quoted(value)}, which is not JSON.`,
      `Quote a text, once for JSON and once for the shell: web-locks publish '"a text"'`,
    );
  }
  const bytes = Buffer.byteLength(text);
  if (bytes <= MOST_BYTES) return text;
  const allowed = `at most ${MOST_BYTES} are allowed`;
  throw new Failure(STATUS.usage, `the value has ${bytes} bytes of JSON; ${allowed}.`);
}

/** @param {NodeJS.ProcessEnv} env @returns {number} an open socket */
function descriptorOf(env) {
  const given = env[VARIABLE];
  const hint =
    'Start the command with: web-locks run NAME --publish -- COMMAND\n' +
    'npx, npm and programs that are started by Node.js or Python do not inherit the descriptor.';
  if (given === undefined || !/^\d{1,5}$/.test(given))
    throw new Failure(STATUS.usage, `no lock can publish: ${VARIABLE} is not set.`, hint);
  const descriptor = Number(given);
  // If somebody has closed the pipe, the number can be that of another file, or of a shell's pipe.
  if (isSocket(descriptor)) return descriptor;
  const why = `descriptor ${descriptor} (${VARIABLE}) is not a pipe of web-locks`;
  throw new Failure(STATUS.usage, `no lock can publish: ${why}.`, hint);
}

/** Whether it can be what Node.js opens for `--publish`. @param {number} descriptor */
function isSocket(descriptor) {
  try {
    return fs.fstatSync(descriptor).isSocket();
  } catch {
    return false;
  }
}

module.exports = { publish };
