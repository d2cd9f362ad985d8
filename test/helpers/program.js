'use strict';

/**
 * Runs programs in processes of their own, because they would disturb the test runner: they replace
 * globals, leave exceptions uncaught, or overflow the stack.
 */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');

const entry = JSON.stringify(path.join(__dirname, '..', '..', 'lib', 'index.js'));
const helpers = JSON.stringify(path.join(__dirname, 'locks.js'));

/** Ends a program that hangs; one needs far less. */
const LIMIT_MS = Number(process.env.PROGRAM_LIMIT ?? 60_000);

/**
 * A program can use the library, helpers and `gc`. It writes its report at its exit, with functions
 * that were saved before it could replace anything.
 */
const prelude = (before, body) => `
  'use strict';
  const { writeSync } = require('node:fs');
  const { isMainThread, threadId, Worker, workerData, parentPort } = require('node:worker_threads');
  const { subscribe, unsubscribe } = require('node:diagnostics_channel');
  const { once } = require('node:events');
  const assert = require('node:assert/strict');
  require('node:v8').setFlagsFromString('--expose-gc');
  // Contexts of Bun have no \`gc\`.
  const gc = globalThis.Bun ? () => Bun.gc(true) : require('node:vm').runInNewContext('gc');
  const report = { finished: false, uncaught: [], warnings: [] };
  {
    const { stringify } = JSON;
    process.on('uncaughtException', (error) => {
      report.uncaught[report.uncaught.length] = String(error?.message ?? error);
    });
    process.on('warning', ({ name, code, message }) => {
      if (name === 'LockWarning') report.warnings[report.warnings.length] = { code, message };
    });
    process.on('exit', () => {
      writeSync(1, stringify(report));
    });
  }
  // See applying.js.
  process.env.WEB_LOCKS_TEST_UNGUARDED = 'yes';
  const { FREE, deferred, freshName, hold, stateOf, turn } = require(${helpers});
  const until = async (condition) => {
    while (!(await condition())) await turn();
  };
  const isPending = (name) => async () => (await stateOf(locks, name)).pending.length > 0;
  let library, locks;
  const entry = ${entry};
  const load = () => {
    library = require(entry);
    locks = library.locks;
  };
  const main = async () => {
    ${before}
    load();
    ${body}
  };
  (async () => {
    try {
      report.value = await main();
      report.left = await locks.query();
      report.finished = true;
    } catch (error) {
      report.error = (error && error.stack) || String(error);
    }
  })();
`;

/**
 * Runs the body of an async function in a process, after `prelude`. Its value must be JSON. At the
 * end nothing may be held or pending, and nothing may keep the process alive.
 * @param {string} body
 * @param {object} [options]
 * @param {string} [options.before] code that runs before the library is loaded
 * @param {boolean} [options.worker] runs the body in a worker of the process
 * @param {string[]} [options.args] of node
 * @param {string[]} [options.uncaught] messages of the exceptions that must be uncaught
 * @returns {Promise<{ value: any, warnings: { code: string, message: string }[] }>}
 */
async function run(body, { before = '', worker = false, args = [], uncaught = [] } = {}) {
  const program = prelude(before, body);
  const inWorker = `new (require('node:worker_threads').Worker)(${JSON.stringify(program)}, {
    eval: true });`;
  const { stdout, stderr, killed } = await start([...args, '-e', worker ? inWorker : program]);
  assert.ok(!killed, `the program does not end: ${stdout}${stderr}`);
  assert.match(stdout, /^\{.*\}$/s, `the program died: ${stdout}${stderr}`);
  const report = JSON.parse(stdout);
  if (report.error) assert.fail(report.error);
  assert.ok(report.finished, `a promise did not settle; uncaught: ${report.uncaught}`);
  assert.deepEqual(report.uncaught, uncaught);
  assert.deepEqual(report.left, { held: [], pending: [] });
  return report;
}

/** @param {string[]} args of node */
const start = (args) =>
  new Promise((resolve) => {
    const limits = { timeout: LIMIT_MS, killSignal: 'SIGKILL', maxBuffer: 2 ** 26 };
    execFile(process.execPath, args, limits, (error, stdout, stderr) =>
      resolve({ stdout, stderr, killed: Boolean(error?.killed) }),
    );
  });

module.exports = { run };
