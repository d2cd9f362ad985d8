'use strict';

/**
 * Runs a test file unchanged in Bun or Deno: `harness.js FILE [worker]`. Their own `node:test` runs
 * no tests in workers, and Deno's cannot leave out single tests. It prints a line before and after
 * each test, and exits with 1 if one failed. If a test leaves something behind, it does not exit.
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

/** The part of `node:test` that the tests use. */
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

/** Replaces what the test files cannot use of Bun and Deno. */
function prepare() {
  const { require: original } = Module.prototype;
  Module.prototype.require = function (id) {
    return id === 'node:test' ? shim : original.call(this, id);
  };
  // Contexts of Bun have no `gc`.
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
  process.exitCode = 1; // until the worker reports its result
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
