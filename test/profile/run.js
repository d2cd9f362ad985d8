'use strict';

/** Programs that are profiled, in processes of their own. */

const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

const root = path.join(__dirname, '..', '..');
const preload = pathToFileURL(path.join(root, 'lib', 'profile.js')).href;

/** @returns {string} a folder that is removed after the test */
function folderFor(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-profile-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  return folder;
}

/** What programs find. */
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
 * @returns what the file has, or undefined where there is none; and what became of the process
 */
async function profileOf(t, body, { env = {}, args = ['--import', preload], file = true } = {}) {
  const folder = folderFor(t);
  const script = path.join(folder, 'program.js');
  const output = path.join(folder, 'profile.json');
  fs.writeFileSync(script, `${PRELUDE}(async () => {${body}\n})();\n`);
  const options = {
    cwd: folder,
    env: { ...process.env, ...(file ? { WEB_LOCKS_PROFILE: output } : {}), ...env },
    // Of what waits for what does not come.
    timeout: 240_000,
    killSignal: 'SIGKILL',
  };
  const result = await new Promise((resolve) => {
    execFile(process.execPath, [...args, script], options, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, signal: error?.signal ?? null, stdout, stderr }),
    );
  });
  const written = fs.readdirSync(folder).filter((name) => name.endsWith('.json'));
  if (written.length === 0) return { ...result, written };
  const trace = JSON.parse(fs.readFileSync(path.join(folder, written[0]), 'utf8'));
  const requests = trace.traceEvents.filter(({ cat }) => cat === 'request').map((e) => e.args);
  return { ...result, written, trace, requests };
}

module.exports = { folderFor, preload, profileOf, root };
