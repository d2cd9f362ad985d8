/** Measures a subject at a work in a process of its own (works.js). */

const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { isBrief } = require('./size.js');

/** A subject that exceeds it in one measurement is left out of the rest of the work. */
const LIMIT_MS = isBrief ? 60_000 : 4_000;

/**
 * @param {string} work
 * @param {string} subject
 * @param {number} [limit] milliseconds
 * @returns {Record<string, any>} numbers, or `missing`: the reason why it cannot be measured
 * @throws {Error} if it fails; the message contains its output
 */
function measure(work, subject, limit = LIMIT_MS) {
  const args = ['--expose-gc', path.join(__dirname, 'works.js'), work, subject];
  const { error, signal, status, stderr, stdout } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: limit,
  });
  if (error?.code === 'ETIMEDOUT' && !isBrief) return { missing: 'not in time' };
  if (error || status !== 0 || stdout === '') {
    const how = error?.message ?? `it ended with ${signal ?? status}`;
    throw new Error(`'${subject}' at '${work}': ${how}\n${stderr}`);
  }
  return JSON.parse(stdout);
}

module.exports = { measure };
