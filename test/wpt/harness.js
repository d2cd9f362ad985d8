'use strict';

/**
 * Runs one file of the Web Platform Tests: `harness.js DIR FILE [worker]`, in the scope that
 * WEB_LOCKS_TEST_SCOPE names or, if WEB_LOCKS_TEST_OWN is set, on the runtime's own locks. It
 * emulates a browser, and prints each subtest as a line of JSON: `{ name, passed, message }`.
 */

const { readFileSync } = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { chosen, scope } = require('../conformance/scopes.js');
const install = require('../../lib/install.js');

/** The bucket that all threads of a file open, like a browser's origin. */
const BUCKET = 'web-platform-tests';

const { locks } = chosen === 'process' ? require('../../lib/index.js') : scope.openBucket(BUCKET);

/** @param {string} folder of the tests @param {string} url @param {string} from the file */
const find = (folder, url, from) =>
  url.startsWith('/') ? path.join(folder, url) : path.join(path.dirname(from), url);

/** Defines globals. */
function define(properties) {
  for (const [name, value] of Object.entries(properties))
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}

/** `Worker` of a page, over a worker thread of the runtime. */
function workerOf(folder, file) {
  return class extends EventTarget {
    #worker;

    constructor(url) {
      super();
      const data = { folder, file: find(folder, url, file), isScript: true };
      this.#worker = new Worker(__filename, { workerData: data });
      this.#worker.on('message', (message) =>
        this.dispatchEvent(Object.assign(new Event('message'), { data: message })),
      );
      this.#worker.on('error', (error) => console.error(error));
    }

    postMessage(message) {
      this.#worker.postMessage(message);
    }

    terminate() {
      return this.#worker.terminate();
    }
  };
}

/** @param {string} folder @param {string} file */
function prepare(folder, file) {
  if (!process.env.WEB_LOCKS_TEST_OWN) install({ locks });
  const page = new URL(`https://web-platform.test/web-locks/${path.basename(file)}`);
  define({
    self: globalThis,
    location: page,
    isSecureContext: true,
    GLOBAL: { isWindow: () => false, isWorker: () => true, isShadowRealm: () => false },
    Worker: workerOf(folder, file),
    fetch: async (url) => {
      const source = readFileSync(find(folder, url, file), 'utf8');
      return { ok: true, text: async () => source };
    },
  });
  // The buckets of a page; the default one is the page's own.
  navigator.storageBuckets = { open: async (name) => scope.openBucket(`${BUCKET} ${name}`) };
  globalThis.prepareForBucketTest = async () => {};
}

const run = (file) => vm.runInThisContext(readFileSync(file, 'utf8'), { filename: file });

/** @returns {{ scripts: string[], code: string }} the scripts that a file loads, and its code */
function partsOf(file) {
  const source = readFileSync(file, 'utf8');
  const all = (pattern) => [...source.matchAll(pattern)].map(([, found]) => found);
  if (file.endsWith('.js')) return { scripts: all(/^\/\/ META: script=(.+)$/gm), code: source };
  const scripts = all(/<script src="(.+?)">/g).filter((url) => !url.includes('testharness'));
  return { scripts, code: all(/<script>(.*?)<\/script>/gs).join('\n') };
}

/** @param {(result: object) => void} print @returns {Promise<void>} */
function runTests(folder, file, print) {
  prepare(folder, file);
  // One test leaves a rejection on purpose, which a browser reports, but which ends Node.js.
  process.on('unhandledRejection', (error) => {
    if (error?.message !== 'this uncaught rejection is expected')
      print({ name: 'an unhandled rejection', passed: false, message: String(error) });
  });
  run(path.join(folder, 'resources/testharness.js'));
  // The suite waits until a worker reports that its code has run. Deno's globals are a worker's.
  const isWorker = 'DedicatedWorkerGlobalScope' in globalThis;
  // idlharness.js now takes the global object for that of a worker; testharness.js would have
  // taken it for a worker that reports to its page.
  define({ DedicatedWorkerGlobalScope: { [Symbol.hasInstance]: () => true } });
  const done = new Promise((resolve) => {
    globalThis.add_completion_callback((tests, { status, message }) => {
      for (const { name, status, message } of tests) print({ name, passed: status === 0, message });
      if (status !== 0) print({ name: 'the file itself', passed: false, message });
      resolve();
    });
  });
  const { scripts, code } = partsOf(file);
  for (const url of scripts) {
    // The parser of WebIDL has moved; the buckets' helpers are ours.
    if (url.startsWith('/storage/')) continue;
    const moved = url.replace('/resources/WebIDLParser.js', '/resources/webidl2/lib/webidl2.js');
    run(find(folder, moved, file));
  }
  vm.runInThisContext(code, { filename: file });
  if (isWorker) globalThis.done();
  return done;
}

/** A script of a page's worker. */
function runScript(folder, file) {
  prepare(folder, file);
  define({
    postMessage: (message) => parentPort.postMessage(message),
    importScripts: (...urls) => {
      for (const url of urls) run(find(folder, url, file));
    },
    addEventListener: (type, listener) => {
      if (type === 'message')
        parentPort.on('message', (data) => listener.call(globalThis, { data }));
    },
  });
  run(file);
}

async function main() {
  const [folder, file, thread] = process.argv.slice(2);
  const print = (result) => console.log(JSON.stringify(result));
  if (thread !== 'worker') {
    await runTests(folder, file, print);
    // A test may leave a lock that is held forever.
    process.exit(0);
  }
  const worker = new Worker(__filename, { workerData: { folder, file } });
  // In a worker of Deno the suite itself reports to its page as well.
  worker.on('message', (result) => result.passed !== undefined && print(result));
  worker.on('error', (error) =>
    print({ name: 'the worker', passed: false, message: error.message }),
  );
  worker.on('exit', () => process.exit(0));
}

if (isMainThread) main();
else if (workerData.isScript) runScript(workerData.folder, workerData.file);
else
  runTests(workerData.folder, workerData.file, (result) => parentPort.postMessage(result)).then(
    () => process.exit(0),
  );
