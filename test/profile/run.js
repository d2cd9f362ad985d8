'use strict';

/** Runs programs that are profiled in processes of their own. */

const { execFile } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { promisify } = require('node:util');
const { freshDirectory } = require('../helpers/process.js');

const root = path.join(__dirname, '..', '..');
const preload = pathToFileURL(path.join(root, 'lib', 'profile.js')).href;

/** Definitions for the programs. */
const PRELUDE = `
  const { once } = require('node:events');
  const { isMainThread, parentPort, threadId, Worker } = require('node:worker_threads');
  const { setImmediate: turn } = require('node:timers/promises');
  const { locks, openBucket, Mutex } = require(${JSON.stringify(root)});
  const { startProfile } = require(${JSON.stringify(path.join(root, 'lib', 'profile.js'))});
  const until = async (condition) => {
    while (!(await condition())) await turn();
  };
  const isPending = (name) => async () => (await locks.query({ name })).pending.length > 0;
`;

/**
 * Runs the body of an async function with the profile preloaded.
 * @returns how the process ended, and the content of the profile, if there is one
 */
async function profileOf(t, body, { env = {}, args = ['--import', preload], file = true } = {}) {
  const folder = freshDirectory(t);
  const script = path.join(folder, 'program.js');
  const output = path.join(folder, 'profile.json');
  fs.writeFileSync(script, `${PRELUDE}(async () => {${body}\n})();\n`);
  const options = {
    cwd: folder,
    env: { ...process.env, ...(file ? { WEB_LOCKS_PROFILE: output } : {}), ...env },
  };
  const running = promisify(execFile)(process.execPath, [...args, script], options);
  const { code = 0, signal = null, stdout, stderr } = await running.catch((error) => error);
  const result = { code, signal, stdout, stderr };
  const written = fs.readdirSync(folder).filter((name) => name.endsWith('.json'));
  if (written.length === 0) return { ...result, written };
  const trace = JSON.parse(fs.readFileSync(path.join(folder, written[0]), 'utf8'));
  const requests = trace.traceEvents.filter(({ cat }) => cat === 'request').map((e) => e.args);
  return { ...result, written, trace, requests };
}

module.exports = { preload, profileOf, root };
