'use strict';

/**
 * Runs test files, each in a process of its own, several at a time: `npm test [-- FILE…]`.
 *
 *   --quick         skips the files that take more than a few seconds
 *   --all           runs the files that are marked as `long`, too
 *   --long          runs these only
 *   --not REGEXP    skips the files whose paths (from this folder) match
 *   --name REGEXP   runs the tests whose names match
 *   --load COUNT    keeps that many busy loops running beside the tests
 *
 * WEB_LOCKS_TEST_CORES: how many cores to use; by default all.
 *
 * The first line of a test file says what the file needs, as a comment of facts between semicolons:
 *
 *   // slow: 40; waits; needs: redis
 *
 * `slow` is about how many seconds the file takes alone: the longest start first. `long` marks a
 * file that `npm test` leaves to CI: it takes long, or needs servers, and other files find most of
 * its faults. `waits` marks a file that mostly waits for servers and leases: it runs beside files
 * that compute. `needs` names the programs (helpers/programs.js) that all tests of the file need.
 *
 * Each test has a time limit (helpers/limit.js). The exit code is 1 if one failed or none ran.
 */

const { spawn } = require('node:child_process');
const { closeSync, openSync, readSync, readdirSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { run } = require('node:test');
const { parseArgs } = require('node:util');
const { lacks } = require('./helpers/programs.js');
const { Progress } = require('./helpers/progress.js');

const ENDING = '.test.js';

/**
 * @typedef {{ file: string, name: string, slow: number, long: boolean, waits: boolean,
 *   needs: string[] }} TestFile
 */

/** @returns {string[]} all test files, in the folders of this one */
const allFiles = () =>
  readdirSync(__dirname, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .flatMap(({ name }) => readdirSync(path.join(__dirname, name)).map((file) => `${name}/${file}`))
    .filter((file) => file.endsWith(ENDING))
    .sort()
    .map((file) => path.join(__dirname, file));

/** @param {string} file @returns {string} */
function firstLineOf(file) {
  const descriptor = openSync(file, 'r');
  const bytes = Buffer.alloc(200);
  const length = readSync(descriptor, bytes);
  closeSync(descriptor);
  return bytes.toString('utf8', 0, length).split('\n', 1)[0];
}

/** @param {string} needs */
const areKnown = (needs) => needs.split(/, */).every((program) => program in lacks);

/** @param {string} file @returns {TestFile} */
function describeFile(file) {
  const name = path.relative(__dirname, file).slice(0, -ENDING.length);
  const described = {
    file,
    name,
    slow: 0,
    long: false,
    waits: false,
    needs: /** @type {string[]} */ ([]),
  };
  const line = firstLineOf(file);
  if (!line.startsWith('// ')) return described;
  for (const fact of line.slice(3).split(';')) {
    const [key, value = ''] = fact.trim().split(/: */);
    if (key === 'slow' && Number(value) > 0) described.slow = Number(value);
    else if ((key === 'waits' || key === 'long') && value === '') described[key] = true;
    else if (key === 'needs' && areKnown(value)) described.needs = value.split(/, */);
    else
      throw new Error(
        `${name}: the first line has '${fact.trim()}'; test/run.js says what it may have`,
      );
  }
  return described;
}

/**
 * @param {TestFile} test
 * @param {Progress} progress
 * @param {string} [namePattern]
 */
async function runFile({ file, name }, progress, namePattern) {
  const running = progress.start(name);
  const options = { files: [file], concurrency: 1 };
  if (namePattern !== undefined) Object.assign(options, { testNamePatterns: [namePattern] });
  for await (const event of run(options)) progress.take(running, event);
  progress.end(running);
}

/**
 * Runs the files that wait, one more at a time than there are cores, and beside them the files
 * that compute, one less at a time than there are cores. When no more files wait, the files that
 * compute get all cores.
 * @param {TestFile[]} files
 * @param {(file: TestFile) => Promise<void>} runOne
 */
async function runAll(files, runOne) {
  const cores = Number(process.env.WEB_LOCKS_TEST_CORES ?? os.availableParallelism());
  const wait = files.filter(({ waits }) => waits);
  const compute = files.filter(({ waits }) => !waits);
  /** @param {TestFile[]} list */
  const drain = async (list) => {
    for (let next = list.shift(); next; next = list.shift()) await runOne(next);
  };
  /** @param {number} count @param {TestFile[]} list */
  const lanes = (count, list) => Array.from({ length: count }, () => drain(list));
  const waiting = Promise.all(lanes(wait.length > 0 ? cores + 1 : 0, wait));
  await Promise.all([
    ...lanes(Math.max(1, cores - 1), compute),
    waiting.then(() => Promise.all(lanes(cores > 1 ? 1 : 0, compute))),
  ]);
}

/** @param {number} count of loops that keep the machine busy until this process ends */
function startLoad(count) {
  const loop = 'const parent = process.ppid; while (process.ppid === parent);';
  const loops = Array.from({ length: count }, () =>
    spawn(process.execPath, ['-e', loop], { stdio: 'ignore' }),
  );
  for (const child of loops) child.unref();
  process.on('exit', () => {
    for (const child of loops) child.kill();
  });
}

/** @param {string[]} needs @returns {string | undefined} why these tests cannot run here */
function lackOf(needs) {
  return needs.map((program) => lacks[program]).find(Boolean) || undefined;
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      all: { type: 'boolean', default: false },
      load: { type: 'string', default: '0' },
      long: { type: 'boolean', default: false },
      name: { type: 'string' },
      not: { type: 'string' },
      quick: { type: 'boolean', default: false },
    },
  });
  const not = values.not === undefined ? undefined : new RegExp(values.not);
  const isAll = values.all || values.long || positionals.length > 0;
  const named = [...new Set(positionals.map((file) => path.resolve(file)))];
  const found = (named.length > 0 ? named : allFiles())
    .map(describeFile)
    .filter(({ name }) => !not?.test(name));
  const files = found
    .filter(({ long }) => isAll || !long)
    .filter(({ long }) => long || !values.long)
    .filter(({ slow, waits }) => !values.quick || !(waits || slow > 0))
    .sort((a, b) => b.slow - a.slow);
  // The processes of the test files inherit the arguments of this one.
  process.execArgv.push('--require', path.join(__dirname, 'helpers', 'limit.js'));
  startLoad(Number(values.load));

  const progress = new Progress(files.length);
  for (const { name, long } of found)
    if (long && !isAll) progress.skip(name, 'long files: npm run test:all');
  await runAll(files, async (test) => {
    const lack = lackOf(test.needs);
    if (lack) progress.skip(test.name, lack);
    else await runFile(test, progress, values.name);
  });
  progress.finish();
  process.exitCode = progress.isGood ? 0 : 1;
}

main();
