'use strict';

/**
 * Runs a file of tests in Bun or Deno, as it is: `harness.js FILE [worker]`. Their own `node:test`
 * runs none in workers, and cannot leave out single tests (Deno). Prints a line for each test, before
 * and after it; exits with 1 if one failed, and not at all if one leaves something behind.
 */

const Module = require('node:module');
const vm = require('node:vm');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const known = require('./known.js');

const runtime = globalThis.Bun ? 'bun' : globalThis.Deno ? 'deno' : 'node';

const tests = [];
const suites = [];
const atTheBeginning = [];
const atTheEnd = [];

/** What the tests use of `node:test`. */
const shim = {
  describe(title, ...[first, second]) {
    if (second && first.skip) return;
    suites.push(title);
    (second ?? first)();
    suites.pop();
  },
  it(title, ...[first, second]) {
    if (second && first.skip) return;
    tests.push({ title: [...suites, title].join(' > '), run: second ?? first });
  },
  before: (hook) => atTheBeginning.push(hook),
  after: (hook) => atTheEnd.push(hook),
};

/** What the files that are run get in place of what Bun and Deno have. */
function prepare() {
  const { require: original } = Module.prototype;
  Module.prototype.require = function (id) {
    return id === 'node:test' ? shim : original.call(this, id);
  };
  // There is no `gc` in Bun's contexts.
  const { runInNewContext } = vm;
  const gc = () => globalThis.Bun.gc(true);
  if (runtime === 'bun')
    vm.runInNewContext = (code) => (code === 'gc' ? gc : runInNewContext(code));
}

/** @returns {Promise<number>} how many tests failed */
async function runFile(file, print) {
  prepare();
  require(file);
  let failed = 0;
  for (const hook of atTheBeginning) await hook();
  for (const { title, run } of tests) {
    if (known[runtime]?.some((part) => title.endsWith(part))) {
      print(`left out: ${title}`);
      continue;
    }
    print(`running: ${title}`);
    const cleanup = [];
    try {
      await run({ after: (hook) => cleanup.push(hook) });
      for (const hook of cleanup) await hook();
      print(`passed: ${title}`);
    } catch (error) {
      failed++;
      print(`FAILED: ${title}\n${error?.stack ?? error}\n${error?.cause?.stack ?? ''}`);
    }
  }
  for (const hook of atTheEnd) await hook();
  return failed;
}

if (!isMainThread) {
  runFile(workerData, (line) => parentPort.postMessage({ line })).then((failed) =>
    parentPort.postMessage({ failed }),
  );
} else if (process.argv[3] === 'worker') {
  process.exitCode = 1; // until the worker has told
  const worker = new Worker(__filename, { workerData: process.argv[2] });
  worker.on('message', ({ line, failed }) => {
    if (line) console.log(line);
    else process.exitCode = failed > 0 ? 1 : 0;
  });
} else {
  process.exitCode = 1;
  runFile(process.argv[2], console.log).then((failed) => {
    process.exitCode = failed > 0 ? 1 : 0;
  });
}
