'use strict';

/**
 * Gives each test a time limit. test/run.js preloads this file into each test file. A separate
 * thread (watchdog.js) watches the clock, because a test may block this one. This thread notifies
 * the watchdog of tests that begin and end; if none does within the limit, a test hangs.
 *
 * WEB_LOCKS_TEST_LIMIT sets the limit in seconds; it is 300, far more than any test takes.
 */

const process = require('node:process');

const LIMIT_S = Number(process.env.WEB_LOCKS_TEST_LIMIT ?? 300);

/** Runs all files of the conformance suite in one process, which a test starts. */
const SUITE = require.resolve('../conformance/files.js');

/** Processes and workers of a test, and the runner, load this file, too. */
const isTestFile = () =>
  require('node:worker_threads').isMainThread &&
  (process.argv[1] === SUITE ||
    (process.env.NODE_TEST_CONTEXT === 'child-v8' && /\.test\.js$/.test(process.argv[1] ?? '')));

/**
 * Collects all lock managers, so that the watchdog can query them. The library keeps no such list,
 * so the function that makes them is replaced when its module is loaded.
 */
function remember() {
  const Module = /** @type {any} */ (require('node:module'));
  const managers = new Set();
  const key = Symbol.for('lock managers of the test');
  process[key] = () => [...managers].map((manager) => manager.deref()).filter(Boolean);
  const load = Module._load;
  Module._load = function (request) {
    const loaded = load.apply(this, arguments);
    if (!request.endsWith('/standard/lock-manager.js')) return loaded;
    Module._load = load;
    const { createLockManager } = loaded;
    loaded.createLockManager = (...parts) => {
      const manager = createLockManager(...parts);
      managers.add(new WeakRef(manager));
      return manager;
    };
    return loaded;
  };
}

function watch() {
  const path = require('node:path');
  const { afterEach, beforeEach } = require('node:test');
  const { Worker } = require('node:worker_threads');

  const watchdog = new Worker(path.join(__dirname, 'watchdog.js'), {
    workerData: { file: process.argv[1], limit: LIMIT_S * 1000 },
    execArgv: [],
    stdin: false,
  });
  // A blocked thread does not answer.
  watchdog.on('message', (message) => {
    if (message === 'are you there') watchdog.postMessage({ event: 'here' });
    else if (message === 'exit') process.exit(1);
  });
  watchdog.unref();

  const nameOf = (test) => test.fullName ?? test.name;
  beforeEach((test) => watchdog.postMessage({ event: 'begin', name: nameOf(test) }));
  afterEach((test) => watchdog.postMessage({ event: 'end', name: nameOf(test) }));
}

/** Removes this file from the arguments, which child processes of a test inherit. */
function leaveNoTrace() {
  const isOther = (argument) => !argument.endsWith(__filename) && argument !== '--require';
  process.execArgv = process.execArgv.filter(isOther);
}

if (isTestFile()) {
  leaveNoTrace();
  remember();
  watch();
}
